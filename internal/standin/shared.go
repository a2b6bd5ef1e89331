package standin

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"testing"
)

// Shared is one stand-in for all tests of a package: the first that needs it starts it.
// The zero value with a Root is ready to use, by any number of tests at once.
type Shared struct {
	// Root is the way to the project's top.
	Root string

	once   sync.Once
	server *Server
	err    error
}

// URL returns its address. Where there is none installed, the test is skipped.
func (s *Shared) URL(t testing.TB) string {
	t.Helper()
	s.once.Do(func() { s.server, s.err = Start(s.Root) })
	if errors.Is(s.err, ErrNotInstalled) {
		t.Skip(s.err)
	}
	if s.err != nil {
		t.Fatal(s.err)
	}
	return s.server.URL()
}

// Main runs the package's tests, then ends the stand-in. It returns what the process
// exits with.
func (s *Shared) Main(m *testing.M) int {
	code := m.Run()
	if s.server == nil {
		return code
	}
	if err := s.server.Stop(); err != nil {
		fmt.Fprintln(os.Stderr, "stop the stand-in:", err)
		return 1
	}
	return code
}
