package standin

import (
	"errors"
	"net/http"
	"os"
	"strings"
	"testing"
)

func TestServer(t *testing.T) {
	t.Parallel()
	s, err := Start("../..", "AUTH=true")
	if errors.Is(err, ErrNotInstalled) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(s.URL(), "http://127.0.0.1:") || s.PID() <= 0 {
		t.Errorf("it listens on %s as process %d", s.URL(), s.PID())
	}
	for range 2 {
		if err := s.Stop(); err != nil {
			t.Error(err)
		}
	}
	if _, err := http.Get(s.URL()); err == nil {
		t.Error("it answers after Stop")
	}
	if _, err := os.Stat(s.dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("its folder: %v, want it gone", err)
	}
}

func TestNotInstalled(t *testing.T) {
	t.Parallel()
	if _, err := Start(t.TempDir()); !errors.Is(err, ErrNotInstalled) {
		t.Errorf("error %v, want %v", err, ErrNotInstalled)
	}
}
