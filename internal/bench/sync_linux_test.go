package bench

import (
	"os"
	"syscall"
)

// dataSync is the call that bbolt makes on Linux.
func dataSync(f *os.File) error { return syscall.Fdatasync(int(f.Fd())) }
