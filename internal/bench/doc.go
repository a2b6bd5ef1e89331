// Package bench measures a whole broker through HTTP, and its handler without sockets: requests a second, allocations,
// and what the machine's disk can do in the same run. It has no code of its own; `make bench` runs it.
package bench
