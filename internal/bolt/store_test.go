package bolt

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"go.etcd.io/bbolt"

	"github.com/ferry-broker/ferry/internal/broker"
	"github.com/ferry-broker/ferry/internal/brokertest"
	"github.com/ferry-broker/ferry/internal/lifecycle"
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

func mustPut(t *testing.T, s *Store, r broker.Record, revision int64) broker.Record {
	t.Helper()
	got, err := s.Put(t.Context(), r, revision)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// updateRaw writes beside the committer, as another Ferry may have done. The sum stays that of the commit before.
func updateRaw(t *testing.T, s *Store, update func(*bbolt.Tx) error) {
	t.Helper()
	if err := s.db.Update(update); err != nil {
		t.Fatal(err)
	}
	last, err := lastCommit(s.db)
	if err != nil {
		t.Fatal(err)
	}
	s.durable.reach(last)
}

// until waits for what a goroutine of the store will bring about.
func until(t *testing.T, what string, holds func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for !holds() {
		select {
		case <-ctx.Done():
			t.Fatalf("%s: not so within 10 s", what)
		case <-tick.C:
		}
	}
}

// bindingOf is the key of the n-th record of these tests.
func bindingOf(n int) broker.Key {
	return broker.Key{Client: "client", InstanceID: "instance", BindingID: fmt.Sprintf("b%d", n)}
}

// plain is a record that runs an operation and holds the given parameters.
func plain(key broker.Key, token, parameters string) broker.Record {
	return broker.Record{
		Key: key, Token: token, Parameters: json.RawMessage(parameters),
		Lifecycle: lifecycle.Record{
			Kind: key.Kind(), State: lifecycle.Creating,
			Operation: lifecycle.Operation{ID: "create-" + token, Due: time.Unix(1e9, 0)},
		},
	}
}
