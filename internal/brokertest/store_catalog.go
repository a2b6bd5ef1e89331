package brokertest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ferry-broker/ferry/internal/broker"
)

func catalogOf(client, body string) broker.StoredCatalog {
	return broker.StoredCatalog{Client: client, Fetched: storeEpoch.Add(-time.Hour), Body: []byte(body)}
}

func (s *storeUnderTest) mustPutCatalog(t *testing.T, c broker.StoredCatalog, revision int64) broker.StoredCatalog {
	t.Helper()
	got, err := s.PutCatalog(t.Context(), c, revision)
	if err != nil {
		t.Fatalf("PutCatalog at revision %d: %v", revision, err)
	}
	c.Revision = revision + 1
	sameCatalog(t, got, c)
	return got
}

func (s *storeUnderTest) mustHoldCatalog(t *testing.T, want broker.StoredCatalog) {
	t.Helper()
	got, err := s.Catalog(t.Context(), want.Client)
	if err != nil {
		t.Fatalf("Catalog: %v", err)
	}
	sameCatalog(t, got, want)
}

func (s *storeUnderTest) mustLackCatalog(t *testing.T, client string) {
	t.Helper()
	if _, err := s.Catalog(t.Context(), client); !errors.Is(err, broker.ErrNotFound) {
		t.Fatalf("Catalog: %v; want ErrNotFound", err)
	}
}

func sameCatalog(t *testing.T, got, want broker.StoredCatalog) {
	t.Helper()
	if d := cmp.Diff(want, got, byContent()...); d != "" {
		t.Fatalf("catalog (-want +got):\n%.2000s", d)
	}
}

func catalogNeverPut(t *testing.T, s *storeUnderTest) {
	s.mustLackCatalog(t, "client-a")
	s.mustPutCatalog(t, catalogOf("client-a", `{}`), 0)
	s.mustLackCatalog(t, "client")
	s.mustLackCatalog(t, "client-a-b")
}

func catalogRoundTrip(t *testing.T, s *storeUnderTest) {
	a := s.mustPutCatalog(t, catalogOf("client-a", `{"offerings":[ 1 ]}`), 0)
	b := s.mustPutCatalog(t, catalogOf("client-b", "any bytes \x00\xff"), 0)
	empty := s.mustPutCatalog(t, catalogOf("client-c", ""), 0)
	for _, c := range []broker.StoredCatalog{a, b, empty} {
		s.mustHoldCatalog(t, c)
	}
	a = s.mustPutCatalog(t, catalogOf("client-a", `{"offerings":[2]}`), 1)
	s.mustHoldCatalog(t, a)
	s.mustHoldCatalog(t, b)
}

func catalogConflicts(t *testing.T, s *storeUnderTest) {
	got, err := s.PutCatalog(t.Context(), catalogOf("client-a", `x`), 1)
	if !errors.Is(err, broker.ErrConflict) || got.Revision != 0 {
		t.Fatalf("PutCatalog of an absent one at revision 1 = revision %d, %v; want 0 and ErrConflict", got.Revision, err)
	}
	s.mustLackCatalog(t, "client-a")
	s.mustPutCatalog(t, catalogOf("client-a", `a`), 0)
	stored := s.mustPutCatalog(t, catalogOf("client-a", `b`), 1)
	for _, revision := range []int64{-1, 0, 1, 3} {
		got, err := s.PutCatalog(t.Context(), catalogOf("client-a", `c`), revision)
		if !errors.Is(err, broker.ErrConflict) {
			t.Fatalf("PutCatalog at revision %d: %v; want ErrConflict", revision, err)
		}
		sameCatalog(t, got, stored)
	}
	s.mustHoldCatalog(t, stored)
}

func catalogRace(t *testing.T, s *storeUnderTest) {
	got := make([]broker.StoredCatalog, 8)
	errs := make([]error, len(got))
	var writers sync.WaitGroup
	for i := range got {
		writers.Go(func() {
			got[i], errs[i] = s.PutCatalog(t.Context(), catalogOf("client-a", fmt.Sprint("writer ", i)), 0)
		})
	}
	writers.Wait()
	won := 0
	stored, err := s.Catalog(t.Context(), "client-a")
	if err != nil {
		t.Fatal(err)
	}
	for i, err := range errs {
		if err == nil {
			won++
		} else if !errors.Is(err, broker.ErrConflict) {
			t.Errorf("writer %d: %v", i, err)
		}
		sameCatalog(t, got[i], stored)
	}
	if won != 1 {
		t.Errorf("%d writers won; want 1", won)
	}
}

func catalogLarge(t *testing.T, s *storeUnderTest) {
	large := catalogOf("client-a", string(textOf(2<<20)))
	s.mustHoldCatalog(t, s.mustPutCatalog(t, large, 0))
	large.Body = textOf(2<<20 - 1)
	s.mustHoldCatalog(t, s.mustPutCatalog(t, large, 1))
	s.mustHoldCatalog(t, s.mustPutCatalog(t, catalogOf("client-a", "small"), 2))
}

func catalogCancelled(t *testing.T, s *storeUnderTest) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.PutCatalog(ctx, catalogOf("client-a", `{}`), 0); err == nil {
		t.Fatal("PutCatalog with a cancelled context succeeded")
	}
	s.mustLackCatalog(t, "client-a")
}
