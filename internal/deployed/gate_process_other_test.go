//go:build !linux

package deployed

import (
	"errors"
	"os"
	"testing"
)

// ending is how a process is ended.
type ending int

const (
	kills ending = iota
	aborts
)

var errNoProcesses = errors.New("who is at the other end of a connection is looked up in Linux's /proc")

func ownProcess() int { return os.Getpid() }

// requireProcesses skips a test that looks at processes where it cannot.
func requireProcesses(t testing.TB) {
	t.Helper()
	t.Skip(errNoProcesses)
}

func endSender(string, string, int, ending) error { return errNoProcesses }

func functionAt(string, string) string { return "" }
