package dynamo

import (
	"bytes"
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/google/go-cmp/cmp"

	"github.com/ferry-broker/ferry/internal/broker"
)

// inParts is the length of a catalog of three parts, for a Store of on, whose parts are short. The contract suite has
// one that real parts are needed for.
const (
	shortPart = 8 << 10
	inParts   = 20 << 10
)

func mustPutCatalog(t *testing.T, s *Store, c broker.StoredCatalog, revision int64) broker.StoredCatalog {
	t.Helper()
	stored, err := s.PutCatalog(t.Context(), c, revision)
	if err != nil {
		t.Fatalf("PutCatalog at revision %d: %v", revision, err)
	}
	return stored
}

// sameCatalog compares a megabyte at once, and not byte by byte as go-cmp does.
func sameCatalog(a, b broker.StoredCatalog) bool {
	return a.Client == b.Client && a.Revision == b.Revision && a.Fetched.Equal(b.Fetched) && bytes.Equal(a.Body, b.Body)
}

// sortKeys lists what the partition of the client's catalog holds.
func sortKeys(t *testing.T, client *dynamodb.Client, table string) []string {
	t.Helper()
	s := &Store{notes: notes{&connection{client: client, table: aws.String(table)}}}
	var keys []string
	err := s.query(t.Context(), s.under([]byte("cluster-a"), catalogSort), func(it item) (bool, error) {
		keys = append(keys, string(it.raw(attrSK)))
		return true, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return keys
}

func TestCatalogParts(t *testing.T) {
	t.Parallel()
	for name, clause := range map[string]func(*testing.T){
		"only the parts of the stored revision stay, and none of a small one":                 onlyStoredPartsStay,
		"a writer that dies before its header changes nothing, and its parts are swept later": writerDies,
		"a writer that is overtaken at its header takes its parts away":                       writerIsOvertaken,
		"a sweep leaves the parts of a writer that is about to follow":                        sweepLeavesTheNext,
		"a writer at another revision sends no parts":                                         noPartsAtAnotherRevision,
		"more than a catalog may be is refused without a call":                                tooLargeCatalog,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			clause(t)
		})
	}
}

func onlyStoredPartsStay(t *testing.T) {
	table, client := newTable(t)
	s := on(t, table, atEpoch, newLine())
	for revision, size := range []int{inParts, inParts, 10, inParts, 10} {
		mustHoldCatalog(t, s, mustPutCatalog(t, s, catalogOf(uint64(revision), size), int64(revision)))
		want := 1
		if size == inParts {
			want = 4
		}
		if got := sortKeys(t, client, table); len(got) != want {
			t.Errorf("revision %d leaves %d items; want %d: %q", revision+1, len(got), want, got)
		}
	}
}

func writerDies(t *testing.T) {
	table, client := newTable(t)
	s := on(t, table, atEpoch, newLine())
	stored := mustPutCatalog(t, s, catalogOf(1, inParts), 0)
	for _, dies := range []int{2, 4} { // within the parts; at the header
		l := newLine()
		l.before = func(operation string, n int) *http.Response {
			if operation == "PutItem" && n >= dies {
				return refusal(400, "AccessDeniedException")
			}
			return nil
		}
		if _, err := on(t, table, atEpoch, l).PutCatalog(t.Context(), catalogOf(2, inParts), 1); err == nil {
			t.Fatal("PutCatalog: no error")
		}
		mustHoldCatalog(t, s, stored)
	}
	if got := sortKeys(t, client, table); len(got) != 1+3+1+3 {
		t.Fatalf("%d items; the test wants the leftovers of two writers beside the catalog: %q", len(got), got)
	}
	mustHoldCatalog(t, s, mustPutCatalog(t, s, catalogOf(3, inParts), 1))
	if got := sortKeys(t, client, table); len(got) != 4 {
		t.Errorf("%d items; want 4: %q", len(got), got)
	}
}

// writerIsOvertaken: by a large catalog, whose writer sweeps, and by a small one, whose writer has no reason to.
func writerIsOvertaken(t *testing.T) {
	for items, size := range map[int]int{4: inParts, 1: 10} {
		table, client := newTable(t)
		other := on(t, table, atEpoch, newLine())
		var winner broker.StoredCatalog
		l := newLine()
		l.before = func(operation string, n int) *http.Response {
			if operation == "PutItem" && n == 4 {
				winner = mustPutCatalog(t, other, catalogOf(2, size), 0)
			}
			return nil
		}
		got, err := on(t, table, atEpoch, l).PutCatalog(t.Context(), catalogOf(1, inParts), 0)
		if !errors.Is(err, broker.ErrConflict) {
			t.Fatalf("PutCatalog: %v; want ErrConflict", err)
		}
		if !sameCatalog(winner, got) {
			t.Error("the loser was not given the winner's catalog")
		}
		if got := sortKeys(t, client, table); len(got) != items {
			t.Errorf("%d items; want %d: %q", len(got), items, got)
		}
		mustHoldCatalog(t, other, winner)
	}
}

func sweepLeavesTheNext(t *testing.T) {
	table, client := newTable(t)
	partsSent, swept := make(chan struct{}), make(chan struct{})
	next := newLine()
	next.before = func(operation string, n int) *http.Response {
		if operation == "PutItem" && n == 4 { // its header
			close(partsSent)
			<-swept
		}
		return nil
	}
	var followed sync.WaitGroup
	l := newLine()
	l.before = func(operation string, n int) *http.Response {
		if operation == "Query" && n == 1 { // its sweep
			followed.Go(func() {
				if _, err := on(t, table, atEpoch, next).PutCatalog(t.Context(), catalogOf(2, inParts), 1); err != nil {
					t.Errorf("the writer that follows: %v", err)
				}
			})
			<-partsSent
		}
		return nil
	}
	s := on(t, table, atEpoch, l)
	mustPutCatalog(t, s, catalogOf(1, inParts), 0)
	close(swept)
	followed.Wait()
	want := catalogOf(2, inParts)
	want.Revision = 2
	mustHoldCatalog(t, s, want)
	if got := sortKeys(t, client, table); len(got) != 4 {
		t.Errorf("%d items; want 4: %q", len(got), got)
	}
}

func noPartsAtAnotherRevision(t *testing.T) {
	table, _ := newTable(t)
	l := newLine()
	s := on(t, table, atEpoch, l)
	mustPutCatalog(t, s, catalogOf(1, 10), 0)
	l.drain()
	if _, err := s.PutCatalog(t.Context(), catalogOf(2, inParts), 5); !errors.Is(err, broker.ErrConflict) {
		t.Errorf("PutCatalog: %v; want ErrConflict", err)
	}
	if d := cmp.Diff([]string{"GetItem"}, l.operations()); d != "" {
		t.Errorf("calls (-want +got):\n%s", d)
	}
}

func tooLargeCatalog(t *testing.T) {
	s := offlineStore(t, offline(t, func(string, int) *http.Response { return nil }))
	c := broker.StoredCatalog{Client: "cluster-a", Body: []byte(strings.Repeat("x", MaxCatalogBytes+1))}
	if _, err := s.PutCatalog(t.Context(), c, 0); !errors.Is(err, broker.ErrTooLarge) {
		t.Errorf("PutCatalog: %v; want ErrTooLarge", err)
	}
}

func TestCatalogReaders(t *testing.T) {
	t.Parallel()
	for name, clause := range map[string]func(*testing.T){
		"a reader whose catalog is replaced between header and parts reads the new one": replacedUnderReader,
		"a catalog whose parts are gone for good is an error after a few looks":         partsGoneForGood,
		"readers beside a writer of changing catalogs never see a half":                 neverHalf,
		"parts of different writes do not pass for a catalog":                           mixedParts,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			clause(t)
		})
	}
}

func replacedUnderReader(t *testing.T) {
	for name, size := range map[string]int{"split": inParts, "small": 10} {
		table, _ := newTable(t)
		other := on(t, table, atEpoch, newLine())
		mustPutCatalog(t, other, catalogOf(1, inParts), 0)
		var newer broker.StoredCatalog
		l := newLine()
		l.before = func(operation string, n int) *http.Response {
			if operation == "Query" && n == 1 {
				newer = mustPutCatalog(t, other, catalogOf(2, size), 1)
			}
			return nil
		}
		got, err := on(t, table, atEpoch, l).Catalog(t.Context(), "cluster-a")
		if err != nil {
			t.Fatal(err)
		}
		if !sameCatalog(newer, got) {
			t.Errorf("%s: it read something else", name)
		}
	}
}

func partsGoneForGood(t *testing.T) {
	table, client := newTable(t)
	l := newLine()
	s := on(t, table, atEpoch, l)
	stored := mustPutCatalog(t, s, catalogOf(1, inParts), 0)
	part := sortKeys(t, client, table)[2]
	_, err := client.DeleteItem(t.Context(), &dynamodb.DeleteItemInput{
		TableName: aws.String(table), Key: item{attrPK: raw([]byte("cluster-a")), attrSK: raw([]byte(part))},
	})
	if err != nil {
		t.Fatal(err)
	}
	l.drain()
	if _, err := s.Catalog(t.Context(), stored.Client); !errors.Is(err, errReplaced) {
		t.Errorf("Catalog: %v; want errReplaced", err)
	}
	if n := len(l.drain()); n != 2*catalogReads {
		t.Errorf("%d calls; want %d", n, 2*catalogReads)
	}
}

func neverHalf(t *testing.T) {
	table, _ := newTable(t)
	s := on(t, table, atEpoch, newLine())
	const seeds = 6
	mustPutCatalog(t, s, catalogOf(0, inParts), 0)
	var all sync.WaitGroup
	for range 2 {
		all.Go(func() {
			for seen := uint64(0); seen < seeds-1; {
				c, err := s.Catalog(t.Context(), "cluster-a")
				if err != nil {
					t.Error(err)
					return
				}
				seed, err := noiseOf(c.Body, seeds)
				if err != nil || len(c.Body) != inParts || seed < seen || c.Revision != int64(seed)+1 {
					t.Errorf("revision %d with the content of %d, %v, after %d was seen", c.Revision, seed+1, err, seen+1)
					return
				}
				seen = seed
			}
		})
	}
	for seed := range uint64(seeds - 1) {
		mustPutCatalog(t, s, catalogOf(seed+1, inParts), int64(seed)+1)
	}
	all.Wait()
}

func mixedParts(t *testing.T) {
	one, err := pack(noise(1, 1000))
	if err != nil {
		t.Fatal(err)
	}
	two, err := pack(noise(2, 1000))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := unpack(slices.Concat(one[:500], two[500:])); !errors.Is(err, errBadItem) {
		t.Errorf("unpack: %v; want errBadItem", err)
	}
}
