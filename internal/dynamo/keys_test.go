package dynamo

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/ferry-broker/ferry/internal/broker"
)

func TestKeys(t *testing.T) {
	t.Parallel()
	t.Run("keys are what they are in tables out there", func(t *testing.T) {
		t.Parallel()
		for key, want := range map[broker.Key][2]string{
			{Client: "c", InstanceID: "i"}:                            {"c#i", "instance"},
			{Client: "c", InstanceID: "i", BindingID: "b"}:            {"c#i", "binding#b"},
			{Client: "c", InstanceID: "#i#", BindingID: "#"}:          {"c##i#", "binding##"},
			{Client: "c", InstanceID: "\xff\x00", BindingID: "\xfe/"}: {"c#\xff\x00", "binding#\xfe/"},
			{Client: "c"}: {"c#", "instance"},
		} {
			at, err := placeOf(key)
			if err != nil || string(at.pk) != want[0] || string(at.sk) != want[1] {
				t.Errorf("placeOf(%v) = %q, %q, %v; want %q", key, at.pk, at.sk, err, want)
			}
			if got, err := at.key(); err != nil || got != key {
				t.Errorf("%q read back: %v, %v; want %v", want, got, err, key)
			}
		}
	})
	t.Run("shards are what they are in tables out there", func(t *testing.T) {
		t.Parallel()
		for id, want := range map[string]int64{"a": 0, "b": 1, "c": 2, "d": 3} {
			at, err := placeOf(keyOf(id))
			if got := at.shard(); err != nil || got != want {
				t.Errorf("%q is in shard %d, %v; want %d", id, got, err, want)
			}
		}
	})
	t.Run("what is no key of a record is refused", func(t *testing.T) {
		t.Parallel()
		for _, at := range [][2]string{{"", "instance"}, {"c", "instance"}, {"#i", "instance"}, {"c#i", ""}, {"c#i", "binding#"}, {"c", "catalog"}} {
			if k, err := (place{pk: []byte(at[0]), sk: []byte(at[1])}).key(); !errors.Is(err, errBadKey) {
				t.Errorf("%q: %v, %v; want errBadKey", at, k, err)
			}
		}
	})
	t.Run("a client's name that would make keys ambiguous reaches no table", func(t *testing.T) {
		t.Parallel()
		s := offlineStore(t, offline(t, func(string, int) *http.Response { return nil }))
		for _, name := range []string{"", "a#b"} {
			key := broker.Key{Client: name, InstanceID: "i"}
			_, put := s.Put(t.Context(), ready(key, "t"), 0)
			_, get := s.Get(t.Context(), key)
			_, list := s.Bindings(t.Context(), key)
			_, catalog := s.Catalog(t.Context(), name)
			_, putCatalog := s.PutCatalog(t.Context(), broker.StoredCatalog{Client: name}, 0)
			for _, err := range []error{put, get, list, catalog, putCatalog} {
				if !errors.Is(err, errClientName) {
					t.Errorf("client %q: %v; want errClientName", name, err)
				}
			}
		}
	})
	t.Run("ids longer than keys may be are too large to put, and not there, without a call", func(t *testing.T) {
		t.Parallel()
		s := offlineStore(t, offline(t, func(string, int) *http.Response { return nil }))
		for _, key := range []broker.Key{
			keyOf(strings.Repeat("i", maxPartitionBytes)),
			{Client: "c", InstanceID: "i", BindingID: strings.Repeat("b", maxSortBytes)},
		} {
			if _, err := s.Put(t.Context(), ready(key, "t"), 0); !errors.Is(err, broker.ErrTooLarge) {
				t.Errorf("Put: %v; want ErrTooLarge", err)
			}
			if _, err := s.Get(t.Context(), key); !errors.Is(err, broker.ErrNotFound) {
				t.Errorf("Get: %v; want ErrNotFound", err)
			}
		}
		if got, err := s.Bindings(t.Context(), keyOf(strings.Repeat("i", maxPartitionBytes))); len(got) > 0 || err != nil {
			t.Errorf("Bindings = %v, %v; want none", got, err)
		}
	})
}
