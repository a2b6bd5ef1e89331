// Package bench measures a whole broker through HTTP, its handler without sockets, and its server against a broker in
// memory that is made with brokerapi (folder peer): requests a second, allocations, processor time, and what the
// machine's disk can do in the same run. It has no code of its own; `make bench` runs it.
package bench
