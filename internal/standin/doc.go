// Package standin starts the stand-in for AWS that tests run against, on 127.0.0.1, in
// a process group of its own. It is for tests only, and works where `make stand-in` has
// installed it.
package standin
