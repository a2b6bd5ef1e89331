package bolt

import (
	"testing"
	"time"

	"github.com/ferry-broker/ferry/internal/brokertest"
)

func TestStore(t *testing.T) {
	t.Parallel()
	brokertest.TestStore(t, func(t *testing.T, now func() time.Time) brokertest.Store {
		return openAt(t, t.TempDir(), now)
	})
}

// openAt opens a store and closes it with the test.
func openAt(t testing.TB, dir string, now func() time.Time) *Store {
	t.Helper()
	s, err := Open(t.Context(), Options{Dir: dir, Now: now})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("close the store: %v", err)
		}
	})
	return s
}
