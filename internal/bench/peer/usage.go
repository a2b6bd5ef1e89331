//go:build unix

package main

import (
	"runtime"
	"syscall"
	"time"
)

// figures are what the process has used so far.
type figures struct {
	CPU         time.Duration // of user and system
	Allocations uint64
	Bytes       uint64
}

func usage() figures {
	var used syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &used) // fails for no process of its own
	var memory runtime.MemStats
	runtime.ReadMemStats(&memory)
	return figures{
		CPU:         time.Duration(used.Utime.Nano() + used.Stime.Nano()),
		Allocations: memory.Mallocs, Bytes: memory.TotalAlloc,
	}
}
