package brokertest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"testing"
	"time"

	"github.com/ferry-broker/ferry/internal/broker"
)

func neverPut(t *testing.T, s *storeRoom) {
	s.mustLack(t, instanceKey("i"))
	s.mustPut(t, ready(instanceKey("i"), "a"), 0)
	s.mustLack(t, bindingKey("i", "b"))
	s.mustLack(t, instanceKey("j"))
}

func createStores(t *testing.T, s *storeRoom) {
	s.mustHold(t, s.mustPut(t, ready(instanceKey("i"), "a"), 0))
}

func createConflicts(t *testing.T, s *storeRoom) {
	first := s.mustPut(t, ready(instanceKey("i"), "first"), 0)
	s.mustConflict(t, ready(instanceKey("i"), "second"), 0, first)
	s.mustHold(t, first)
}

func updateStores(t *testing.T, s *storeRoom) {
	key := instanceKey("i")
	for revision := range int64(5) {
		s.mustHold(t, s.mustPut(t, ready(key, string(rune('a'+revision))), revision))
	}
}

func updateConflicts(t *testing.T, s *storeRoom) {
	key := instanceKey("i")
	s.mustPut(t, ready(key, "a"), 0)
	s.mustPut(t, ready(key, "b"), 1)
	stored := s.mustPut(t, ready(key, "c"), 2)
	for _, revision := range []int64{-1, 0, 1, 2, 4, 1 << 40} {
		s.mustConflict(t, ready(key, "d"), revision, stored)
	}
	s.mustHold(t, stored)
}

func updateOfAbsent(t *testing.T, s *storeRoom) {
	s.mustConflict(t, ready(instanceKey("i"), "a"), 1, broker.Record{})
	s.mustLack(t, instanceKey("i"))
}

func innerRevision(t *testing.T, s *storeRoom) {
	r := ready(instanceKey("i"), "a")
	r.Revision = 17
	stored := s.mustPut(t, r, 0)
	r.Revision = 1
	s.mustConflict(t, r, 0, stored)
}

func cancelledPut(t *testing.T, s *storeRoom) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	key := instanceKey("i")
	if _, err := s.Put(ctx, ready(key, "a"), 0); err == nil {
		t.Fatal("Put with a cancelled context succeeded")
	}
	s.mustLack(t, key)
	stored := s.mustPut(t, ready(key, "b"), 0)
	if _, err := s.Put(ctx, ready(key, "c"), 1); err == nil || errors.Is(err, broker.ErrConflict) {
		t.Fatalf("Put with a cancelled context: %v", err)
	}
	s.mustHold(t, stored)
}

func sharesNothing(t *testing.T, s *storeRoom) {
	given := fullRecord(instanceKey("i"))
	stored, err := s.Put(t.Context(), given, 0)
	if err != nil {
		t.Fatal(err)
	}
	want := fullRecord(instanceKey("i"))
	want.Revision = 1
	scribble(given)
	sameRecord(t, "what Put returned, after its argument was scribbled on", stored, want)
	for _, r := range []broker.Record{given, stored} {
		scribble(r)
		s.mustHold(t, want)
	}
	// And two readers do not share.
	one, err := s.Get(t.Context(), want.Key)
	if err != nil {
		t.Fatal(err)
	}
	scribble(one)
	s.mustHold(t, want)
}

// scribble writes over all that r points to.
func scribble(r broker.Record) {
	clear(r.Salt)
	clear(r.Parameters)
	clear(r.Context)
	r.Target.PlanID = "scribbled"
	r.Lifecycle.Finished[0].ID = "scribbled"
	r.Lifecycle.OpenCalls[0].Number = -1
}

func bareRecord(t *testing.T, s *storeRoom) {
	s.mustHold(t, s.mustPut(t, broker.Record{Key: instanceKey("i")}, 0))
	s.mustHold(t, s.mustPut(t, broker.Record{Key: bindingKey("i", "b")}, 0))
}

func lettersOfParameters(t *testing.T, s *storeRoom) {
	key := instanceKey("i")
	texts := []string{
		`{}`, ` { "b" : 1 ,` + "\n\t" + `"a":2 } `, `{"big":9007199254740993,"e":1.0e+0}`,
		`{"html":"<a>&</a>","line":"` + "\u2028" + `","esc":"\u0041\/"}`, `{"x":1,"x":2}`, `null`, `"text"`,
	}
	for i, text := range texts {
		r := ready(key, text)
		r.Parameters = json.RawMessage(text)
		s.mustPut(t, r, int64(i))
		got, err := s.Get(t.Context(), key)
		if err != nil {
			t.Fatal(err)
		}
		if string(got.Parameters) != text {
			t.Errorf("parameters %q came back as %q", text, got.Parameters)
		}
	}
}

func parametersChange(t *testing.T, s *storeRoom) {
	key := instanceKey("i")
	for i, text := range []string{"", `{"a":1}`, `{"a":1}`, `{"a":2}`, "", "", `{"a":1}`, ""} {
		r := ready(key, "t")
		r.Parameters = json.RawMessage(text)
		stored := s.mustPut(t, r, int64(i))
		s.mustHold(t, stored)
		s.mustConflict(t, r, 0, stored)
	}
}

func largeParameters(t *testing.T, s *storeRoom) {
	for _, key := range []broker.Key{instanceKey("i"), bindingKey("i", "b")} {
		r := fullRecord(key)
		r.Parameters = textOf(256 << 10)
		stored := s.mustPut(t, r, 0)
		s.mustHold(t, stored)
		s.mustConflict(t, r, 0, stored)
		r.Parameters = nil
		s.mustHold(t, s.mustPut(t, r, 1))
	}
}

// textOf is a JSON string of n bytes that does not compress.
func textOf(n int) json.RawMessage {
	b := bytes.Repeat([]byte{'"'}, n)
	state := uint32(1)
	for i := range b[1 : n-1] {
		state = state*1664525 + 1013904223
		b[i+1] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_"[state>>26]
	}
	return b
}

// tooLarge allows a store to take any of the sizes, but not to take it in part.
func tooLarge(t *testing.T, s *storeRoom) {
	key := instanceKey("i")
	stored := s.mustPut(t, fullRecord(key), 0)
	for _, n := range []int{380 << 10, 399 << 10, 400 << 10, 401 << 10, 500 << 10, 1 << 20, 3 << 20} {
		r := fullRecord(key)
		r.Parameters = textOf(n)
		got, err := s.Put(t.Context(), r, stored.Revision)
		switch {
		case err == nil:
			r.Revision = stored.Revision + 1
			sameRecord(t, "what Put returned", got, r)
			stored = r
		case !errors.Is(err, broker.ErrTooLarge):
			t.Fatalf("Put of %d bytes: %v; want nil or ErrTooLarge", n, err)
		}
		s.mustHold(t, stored)
	}
	s.mustPut(t, ready(key, "small"), stored.Revision)
}

func closedStore(t *testing.T, s *storeRoom) {
	c, ok := s.Store.(io.Closer)
	if !ok {
		t.Skip("this store cannot be closed")
	}
	s.mustPut(t, ready(instanceKey("i"), "a"), 0)
	if err := c.Close(); err != nil {
		t.Fatalf("Close: %v", err)
	}
	calls := map[string]func(context.Context) error{
		"Get":          func(ctx context.Context) error { _, err := s.Get(ctx, instanceKey("i")); return err },
		"Put":          func(ctx context.Context) error { _, err := s.Put(ctx, ready(instanceKey("i"), "b"), 1); return err },
		"Bindings":     func(ctx context.Context) error { _, err := s.Bindings(ctx, instanceKey("i")); return err },
		"Unfinished":   func(ctx context.Context) error { _, err := s.Unfinished(ctx, time.Time{}, "", 1); return err },
		"LastAudit":    func(ctx context.Context) error { _, err := s.LastAudit(ctx, "client-a"); return err },
		"PutLastAudit": func(ctx context.Context) error { return s.PutLastAudit(ctx, "client-a", storeEpoch) },
		"Catalog":      func(ctx context.Context) error { _, err := s.Catalog(ctx, "client-a"); return err },
		"PutCatalog": func(ctx context.Context) error {
			_, err := s.PutCatalog(ctx, broker.StoredCatalog{Client: "client-a"}, 0)
			return err
		},
	}
	for name, call := range calls {
		if err := call(t.Context()); err == nil || errors.Is(err, broker.ErrNotFound) || errors.Is(err, broker.ErrConflict) {
			t.Errorf("%s of a closed store: error %v; want one that says so", name, err)
		}
	}
}
