package bolt

import (
	"errors"
	"os"
	"syscall"
)

// syncFile makes what was written to f durable. Keys are written over keys, so the
// time of change is the only metadata that could be lost, and fdatasync spares it.
func syncFile(f *os.File) error {
	for {
		err := syscall.Fdatasync(int(f.Fd()))
		if !errors.Is(err, syscall.EINTR) {
			return err
		}
	}
}
