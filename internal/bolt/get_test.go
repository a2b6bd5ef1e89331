package bolt

import (
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ferry-broker/ferry/internal/broker"
)

// TestStaleRead lets a write replace parameters, and their key, between a reader's
// snapshot and its look for the key. The clock is asked in between, so it is what the
// test hooks into.
func TestStaleRead(t *testing.T) {
	t.Parallel()
	reads := map[string]func(t *testing.T, s *Store) ([]broker.Record, error){
		"Get": func(t *testing.T, s *Store) ([]broker.Record, error) {
			r, err := s.Get(t.Context(), bindingOf(1))
			return []broker.Record{r}, err
		},
		"Bindings": func(t *testing.T, s *Store) ([]broker.Record, error) {
			return s.Bindings(t.Context(), bindingOf(1))
		},
	}
	for name, read := range reads {
		t.Run(name+" of parameters whose key was replaced meanwhile returns the newer record", func(t *testing.T) {
			t.Parallel()
			var armed atomic.Bool
			var replace func()
			dir := t.TempDir()
			s := openAt(t, dir, func() time.Time {
				if armed.CompareAndSwap(true, false) {
					replace()
				}
				return time.Unix(2e9, 0)
			})
			// The file must not have to be mapped anew while the reader is in it.
			other := broker.Key{Client: "client", InstanceID: "large"}
			mustPut(t, s, plain(other, "a", `"`+strings.Repeat("x", 300<<10)+`"`), 0)
			mustPut(t, s, plain(bindingOf(1), "a", `{"x":1}`), 0)
			sealed := storedItem(t, s, bindingOf(1)).sealed
			replace = func() {
				mustPut(t, s, plain(bindingOf(1), "b", `{"x":2}`), 1)
				until(t, "the key is replaced", func() bool { return !opensWithAnyKey(t, dir, bindingOf(1), sealed) })
			}
			armed.Store(true)
			got, err := read(t, s)
			if err != nil || len(got) != 1 || got[0].Revision != 2 || string(got[0].Parameters) != `{"x":2}` {
				t.Errorf("%v, %v; want revision 2 with its parameters", got, err)
			}
			if armed.Load() {
				t.Error("nothing was replaced: the test saw nothing")
			}
		})
	}
	t.Run("parameters whose key is lost for good are an error, not a loop", func(t *testing.T) {
		t.Parallel()
		s := openAt(t, t.TempDir(), time.Now)
		mustPut(t, s, plain(bindingOf(1), "a", `{"x":1}`), 0)
		if err := s.keys.overwrite([]uint32{storedItem(t, s, bindingOf(1)).slot}); err != nil {
			t.Fatal(err)
		}
		if r, err := s.Get(t.Context(), bindingOf(1)); err == nil {
			t.Errorf("Get = %v; want an error", r)
		}
		// What is written with parameters anew can be read again.
		mustPut(t, s, plain(bindingOf(1), "b", `{"x":1}`), 1)
		if r, err := s.Get(t.Context(), bindingOf(1)); err != nil || string(r.Parameters) != `{"x":1}` {
			t.Errorf("Get = %q, %v", r.Parameters, err)
		}
	})
}
