package dynamo

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/google/go-cmp/cmp"

	"github.com/ferry-broker/ferry/internal/broker"
)

// lostAt loses the answer to one call of the operation, counted from 1.
func lostAt(operation string, at int) func(string, int) bool {
	return func(o string, n int) bool { return o == operation && n == at }
}

func TestLostAnswers(t *testing.T) {
	t.Parallel()
	for name, clause := range map[string]func(*testing.T){
		"a create whose answer was lost recognises itself":                     lostCreate,
		"an update whose answer was lost recognises itself":                    lostUpdate,
		"a second write of the same record is refused, as it is not the first": sameRecordTwice,
		"a lost write that was written over is told of its successor":          lostAndWrittenOver,
		"a write whose every answer is lost is an error, and there":            lostForEver,
		"a read whose answer was lost is made again":                           lostRead,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			clause(t)
		})
	}
	t.Run("a small catalog whose answer was lost sweeps the parts of the one before it", func(t *testing.T) {
		t.Parallel()
		table, client := newTable(t)
		l := newLine()
		l.lost = lostAt("PutItem", 5) // three parts, header, and this
		s := on(t, table, atEpoch, l)
		mustPutCatalog(t, s, catalogOf(1, inParts), 0)
		mustHoldCatalog(t, s, mustPutCatalog(t, s, catalogOf(2, 10), 1))
		if got := sortKeys(t, client, table); len(got) != 1 {
			t.Errorf("%d items; want the catalog only: %q", len(got), got)
		}
	})
	for name, size := range map[string]int{"small": 100, "split": inParts} {
		t.Run("a "+name+" catalog whose answers were lost recognises itself", func(t *testing.T) {
			t.Parallel()
			table, _ := newTable(t)
			l := newLine()
			s := on(t, table, atEpoch, l)
			l.lost = func(operation string, n int) bool { return operation == "PutItem" && n%2 == 1 }
			for revision := range int64(2) {
				stored, err := s.PutCatalog(t.Context(), catalogOf(uint64(revision), size), revision)
				if err != nil || stored.Revision != revision+1 {
					t.Fatalf("PutCatalog = revision %d, %v; want %d", stored.Revision, err, revision+1)
				}
				mustHoldCatalog(t, s, stored)
			}
		})
	}
}

func lostCreate(t *testing.T) {
	table, _ := newTable(t)
	l := newLine()
	l.lost = lostAt("PutItem", 1)
	s := on(t, table, atEpoch, l)
	stored, err := s.Put(t.Context(), claimed(keyOf("i")), 0)
	if err != nil || stored.Revision != 1 {
		t.Fatalf("Put = revision %d, %v; want 1 and no error", stored.Revision, err)
	}
	if d := cmp.Diff([]string{"PutItem", "PutItem"}, l.operations()); d != "" {
		t.Errorf("calls (-want +got):\n%s", d)
	}
	mustHold(t, s, stored)
}

func lostUpdate(t *testing.T) {
	table, _ := newTable(t)
	l := newLine()
	l.lost = lostAt("PutItem", 2)
	s := on(t, table, atEpoch, l)
	mustPut(t, s, claimed(keyOf("i")), 0)
	mustHold(t, s, mustPut(t, s, done(keyOf("i")), 1))
}

func sameRecordTwice(t *testing.T) {
	table, _ := newTable(t)
	s := on(t, table, atEpoch, newLine())
	stored := mustPut(t, s, claimed(keyOf("i")), 0)
	got, err := s.Put(t.Context(), claimed(keyOf("i")), 0)
	if !errors.Is(err, broker.ErrConflict) {
		t.Fatalf("Put: %v; want ErrConflict", err)
	}
	if d := cmp.Diff(stored, got); d != "" {
		t.Errorf("-want +got:\n%s", d)
	}
}

func lostAndWrittenOver(t *testing.T) {
	table, _ := newTable(t)
	other := on(t, table, atEpoch, newLine())
	l := newLine()
	l.lost = lostAt("PutItem", 1)
	l.before = func(operation string, n int) *http.Response {
		if operation == "PutItem" && n == 2 { // between the lost answer and the repetition
			mustPut(t, other, ready(keyOf("i"), "successor"), 1)
		}
		return nil
	}
	got, err := on(t, table, atEpoch, l).Put(t.Context(), claimed(keyOf("i")), 0)
	if !errors.Is(err, broker.ErrConflict) || got.Token != "successor" || got.Revision != 2 {
		t.Errorf("Put = token %q, revision %d, %v; want the successor and ErrConflict", got.Token, got.Revision, err)
	}
}

func lostForEver(t *testing.T) {
	table, _ := newTable(t)
	l := newLine()
	l.lost = func(operation string, _ int) bool { return operation == "PutItem" }
	s := on(t, table, atEpoch, l)
	_, err := s.Put(t.Context(), claimed(keyOf("i")), 0)
	if err == nil || errors.Is(err, broker.ErrConflict) {
		t.Fatalf("Put: %v; want an error that leaves it open", err)
	}
	got, err := s.Get(t.Context(), keyOf("i"))
	if err != nil || got.Token != claimed(keyOf("i")).Token {
		t.Errorf("Get = token %q, %v; want the write's", got.Token, err)
	}
}

func lostRead(t *testing.T) {
	table, _ := newTable(t)
	l := newLine()
	l.lost = lostAt("GetItem", 1)
	s := on(t, table, atEpoch, l)
	mustHold(t, s, mustPut(t, s, claimed(keyOf("i")), 0))
}

// TestDroppedParameters are in no item of the table once the write that dropped them has returned.
func TestDroppedParameters(t *testing.T) {
	t.Parallel()
	const marked = "hunter2-MARKED-SECRET"
	table, client := newTable(t)
	s := on(t, table, atEpoch, newLine())
	found := func() (n int) {
		t.Helper()
		out, err := client.Scan(t.Context(), &dynamodb.ScanInput{TableName: aws.String(table)})
		if err != nil || len(out.Items) != 3 {
			t.Fatalf("%d items, %v; want 3", len(out.Items), err)
		}
		for _, it := range out.Items {
			n += strings.Count(fmt.Sprint(plainly(it)), marked)
		}
		return n
	}
	secret := claimed(keyOf("dropped"))
	secret.Parameters = []byte(`{"password":"` + marked + `"}`)
	mustPut(t, s, secret, 0)
	secret.Key = keyOf("replaced")
	mustPut(t, s, secret, 0)
	expiring := done(keyOf("expired"))
	expiring.Parameters, expiring.Lifecycle.ExpiresAt = secret.Parameters, epoch
	mustPut(t, s, expiring, 0)
	if n := found(); n != 3 {
		t.Fatalf("the parameters are found %d times before they are dropped, want 3: the test sees nothing", n)
	}
	mustPut(t, s, running(keyOf("dropped")), 1)
	mustPut(t, s, claimed(keyOf("replaced")), 1)
	mustPut(t, s, running(keyOf("expired")), 0)
	if n := found(); n != 0 {
		t.Errorf("the parameters are found %d times", n)
	}
}

// plainly is all that an item says.
func plainly(it item) (words []string) {
	for name, value := range it {
		words = append(words, name, string(it.raw(name)), it.text(name))
		if n, ok := value.(*types.AttributeValueMemberN); ok {
			words = append(words, n.Value)
		}
	}
	return words
}

func mustPut(t *testing.T, s *Store, r broker.Record, revision int64) broker.Record {
	t.Helper()
	stored, err := s.Put(t.Context(), r, revision)
	if err != nil {
		t.Fatalf("Put at revision %d: %v", revision, err)
	}
	return stored
}

func mustHold(t *testing.T, s *Store, want broker.Record) {
	t.Helper()
	got, err := s.Get(t.Context(), want.Key)
	if err != nil {
		t.Fatalf("Get: %v", err)
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Fatalf("-want +got:\n%s", d)
	}
}

func mustHoldCatalog(t *testing.T, s *Store, want broker.StoredCatalog) {
	t.Helper()
	got, err := s.Catalog(t.Context(), want.Client)
	if err != nil {
		t.Fatalf("Catalog: %v", err)
	}
	if !sameCatalog(got, want) {
		t.Fatalf("Catalog = revision %d of %v, %d bytes; want revision %d of %v, %d bytes, or other content",
			got.Revision, got.Fetched, len(got.Body), want.Revision, want.Fetched, len(want.Body))
	}
}
