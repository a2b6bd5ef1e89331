package brokertest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/ferry-broker/ferry/internal/broker"
	"github.com/ferry-broker/ferry/internal/lifecycle"
)

// mustUnfinished checks the answer to one query, in order, once the store has caught up.
func (s *storeUnderTest) mustUnfinished(t *testing.T, due time.Time, limit int, want ...broker.Record) {
	t.Helper()
	var names []broker.Unfinished
	for _, r := range want {
		names = append(names, broker.Unfinished{Key: r.Key, Operation: r.Lifecycle.Operation.ID, Due: r.Due()})
	}
	eventually(t, func(ctx context.Context) string {
		got, err := s.Unfinished(ctx, due, "", limit)
		if err != nil || got.Unreadable > 0 {
			return fmt.Sprintf("Unfinished: %d unreadable, %v", got.Unreadable, err)
		}
		if d := cmp.Diff(names, got.Operations, cmpopts.EquateEmpty()); d != "" {
			return "unfinished (-want +got):\n" + d
		}
		return ""
	})
}

func (s *storeUnderTest) unfinishedCount(due time.Time, limit, want int) func(context.Context) string {
	return func(ctx context.Context) string {
		got, err := s.Unfinished(ctx, due, "", limit)
		if n := len(got.Operations); err != nil || n != want {
			return fmt.Sprintf("%d unfinished, %v; want %d", n, err, want)
		}
		return ""
	}
}

func dueIsInclusive(t *testing.T, s *storeUnderTest) {
	r := s.mustPut(t, busy(bindingKey("i", "b"), "op", storeEpoch), 0)
	s.mustPut(t, ready(instanceKey("i"), "not running"), 0)
	s.mustUnfinished(t, storeEpoch, 10, r)
	s.mustUnfinished(t, storeEpoch.Add(time.Nanosecond), 10, r)
	s.mustUnfinished(t, storeEpoch.Add(-time.Nanosecond), 10)
	s.mustUnfinished(t, storeEpoch, 0)
}

func unfinishedOrder(t *testing.T, s *storeUnderTest) {
	var want []broker.Record
	for n := range 12 {
		// Out of order in time and in key, and across the second.
		at := storeEpoch.Add(time.Duration(n*7%12) * 300 * time.Millisecond)
		r := busy(instanceKey(fmt.Sprintf("i%d", n*5%12)), fmt.Sprintf("op-%d", n), at)
		r.Lifecycle.State = []lifecycle.State{lifecycle.Creating, lifecycle.Updating, lifecycle.Deleting}[n%3]
		want = append(want, s.mustPut(t, r, 0))
	}
	ordered := make([]broker.Record, len(want))
	for n, r := range want {
		ordered[n*7%12] = r
	}
	end := storeEpoch.Add(time.Hour)
	s.mustUnfinished(t, end, 100, ordered...)
	s.mustUnfinished(t, end, 12, ordered...)
	s.mustUnfinished(t, end, 5, ordered[:5]...)
	s.mustUnfinished(t, end, 1, ordered[0])
	s.mustUnfinished(t, ordered[6].Due(), 100, ordered[:7]...)
}

func unfinishedEnds(t *testing.T, s *storeUnderTest) {
	key := instanceKey("i")
	ends := []lifecycle.State{
		lifecycle.Ready, lifecycle.CreateFailed, lifecycle.UpdateFailed, lifecycle.DeleteFailed, lifecycle.Gone,
	}
	for n, state := range ends {
		r := busy(key, fmt.Sprintf("op-%d", n), storeEpoch)
		s.mustUnfinished(t, storeEpoch, 10, s.mustPut(t, r, int64(2*n)))
		r.Lifecycle.State = state
		s.mustPut(t, r, int64(2*n)+1)
		s.mustUnfinished(t, storeEpoch.Add(time.Hour), 10)
	}
}

func unfinishedMoves(t *testing.T, s *storeUnderTest) {
	key := instanceKey("i")
	s.mustPut(t, busy(key, "op", storeEpoch), 0)
	later := s.mustPut(t, busy(key, "op", storeEpoch.Add(time.Hour)), 1)
	s.mustUnfinished(t, storeEpoch.Add(time.Minute), 10)
	s.mustUnfinished(t, storeEpoch.Add(time.Hour), 10, later)
	sooner := s.mustPut(t, busy(key, "op", storeEpoch.Add(-time.Hour)), 2)
	s.mustUnfinished(t, storeEpoch.Add(2*time.Hour), 10, sooner)
	same := s.mustPut(t, busy(key, "op", storeEpoch.Add(-time.Hour)), 3)
	s.mustUnfinished(t, storeEpoch.Add(2*time.Hour), 10, same)
}

func unfinishedSuperseded(t *testing.T, s *storeUnderTest) {
	key := instanceKey("i")
	s.mustPut(t, busy(key, "create-1", storeEpoch), 0)
	r := busy(key, "delete-2", storeEpoch)
	r.Lifecycle.State = lifecycle.Deleting
	r = s.mustPut(t, r, 1)
	s.mustUnfinished(t, storeEpoch, 10, r)
}

// unfinishedExpired is about a record that no rule makes, so that no rule is needed for it either.
func unfinishedExpired(t *testing.T, s *storeUnderTest) {
	odd := busy(instanceKey("i"), "op", storeEpoch)
	odd.Lifecycle.ExpiresAt = storeEpoch.Add(time.Hour)
	odd = s.mustPut(t, odd, 0)
	other := s.mustPut(t, busy(instanceKey("j"), "op-j", storeEpoch.Add(time.Minute)), 0)
	s.mustUnfinished(t, storeEpoch.Add(time.Hour), 10, odd, other)
	s.clock.advance(time.Hour)
	s.mustUnfinished(t, storeEpoch.Add(time.Hour), 10, other)
	s.mustUnfinished(t, storeEpoch.Add(time.Hour), 1, other)
}

// pages follows the pages of what is due until the last, and returns the operations in order. between is called after
// each page.
func (s *storeUnderTest) pages(t *testing.T, due time.Time, limit int, between func(seen int)) []string {
	t.Helper()
	var seen []string
	for after := ""; ; {
		page, err := s.Unfinished(t.Context(), due, after, limit)
		if err != nil || page.Unreadable > 0 || len(page.Operations) > limit {
			t.Fatalf("%d operations of at most %d, %d unreadable, %v", len(page.Operations), limit, page.Unreadable, err)
		}
		for _, u := range page.Operations {
			seen = append(seen, u.Operation)
		}
		if page.Next == "" {
			return seen
		}
		if page.Next == after || len(seen) > 1000 {
			t.Fatalf("the pages do not end: %q follows %q", page.Next, after)
		}
		between(len(seen))
		after = page.Next
	}
}

// unfinishedPages is about more operations than a page holds, many of them due at the same instant.
func unfinishedPages(t *testing.T, s *storeUnderTest) {
	end := storeEpoch.Add(time.Hour)
	const many = 40
	for n := range many {
		r := busy(bindingKey(fmt.Sprintf("i%d", n%7), fmt.Sprintf("b\xff%d", n)), fmt.Sprintf("op-%02d", n), storeEpoch.Add(time.Duration(n/10)*time.Second))
		s.mustPut(t, r, 0)
	}
	s.mustPut(t, busy(instanceKey("later"), "later", end.Add(time.Nanosecond)), 0)
	eventually(t, s.unfinishedCount(end, 100, many))
	for _, limit := range []int{1, 7, many - 1, many, many + 1} {
		seen := s.pages(t, end, limit, func(int) {})
		tens := ""
		for _, operation := range seen {
			tens += operation[3:4]
		}
		slices.Sort(seen)
		if n := len(slices.Compact(seen)); n != many || tens != strings.Repeat("0", 10)+strings.Repeat("1", 10)+strings.Repeat("2", 10)+strings.Repeat("3", 10) {
			t.Errorf("pages of %d: %d different operations of %d, by the tens of their due times %s", limit, n, many, tens)
		}
	}
}

// unfinishedGoesOn: what was on a page is moved by whoever works on it.
func unfinishedGoesOn(t *testing.T, s *storeUnderTest) {
	end := storeEpoch.Add(time.Hour)
	var all []string
	for n := range 12 {
		operation := fmt.Sprintf("op-%02d", n)
		s.mustPut(t, busy(instanceKey(operation), operation, storeEpoch.Add(time.Duration(n/4)*time.Second)), 0)
		all = append(all, operation)
	}
	eventually(t, s.unfinishedCount(end, 100, len(all)))
	moved := map[string]bool{}
	seen := s.pages(t, end, 3, func(int) {
		page, err := s.Unfinished(t.Context(), end, "", 3)
		if err != nil {
			t.Fatal(err)
		}
		for _, u := range page.Operations {
			if !moved[u.Operation] && len(moved) < 3 {
				moved[u.Operation] = true
				s.mustPut(t, busy(u.Key, u.Operation, end.Add(time.Hour)), 1)
			}
		}
		eventually(t, s.unfinishedCount(end, 100, len(all)-len(moved)))
	})
	slices.Sort(seen)
	if d := cmp.Diff(all, seen); d != "" || len(moved) != 3 {
		t.Errorf("%d moved; operations on the pages (-want +got):\n%s", len(moved), d)
	}
}

func lastAudit(t *testing.T, s *storeUnderTest) {
	ctx := t.Context()
	for _, step := range []struct {
		client    string
		put, want time.Time
	}{
		{"client-a", time.Time{}, time.Time{}},
		{"client-a", storeEpoch, storeEpoch},
		{"client-b", time.Time{}, time.Time{}},
		{"client-a", storeEpoch.Add(time.Hour), storeEpoch.Add(time.Hour)},
		{"client-a", storeEpoch, storeEpoch.Add(time.Hour)},
		{"client-a", storeEpoch.Add(time.Hour), storeEpoch.Add(time.Hour)},
		{"client-b", storeEpoch.Add(-time.Hour), storeEpoch.Add(-time.Hour)},
	} {
		if !step.put.IsZero() {
			if err := s.PutLastAudit(ctx, step.client, step.put); err != nil {
				t.Fatal(err)
			}
		}
		if got, err := s.LastAudit(ctx, step.client); err != nil || !got.Equal(step.want) {
			t.Errorf("%+v: %v, %v", step, got, err)
		}
	}
	cancelled, cancel := context.WithCancel(ctx)
	cancel()
	if err := s.PutLastAudit(cancelled, "client-a", storeEpoch.Add(2*time.Hour)); err == nil {
		t.Error("written with a context that was over")
	}
	if got, err := s.LastAudit(ctx, "client-a"); err != nil || !got.Equal(storeEpoch.Add(time.Hour)) {
		t.Errorf("after that: %v, %v", got, err)
	}
}

// manyAtOnce are more than a store may read in one call, in no order of their own. A quarter is absent, a quarter has
// expired, and one cannot be stored at all.
func manyAtOnce(t *testing.T, s *storeUnderTest) {
	end := s.clock.now().Add(time.Hour)
	keys := []broker.Key{instanceKey(strings.Repeat("x", 4<<10))}
	want := map[broker.Key]broker.Record{}
	for n := range 250 {
		key := instanceKey(fmt.Sprintf("i-%d", n*7%250))
		if n%8 > 3 {
			key = bindingKey(key.InstanceID, "b")
		}
		keys = append(keys, key)
		switch n % 4 {
		case 0:
			s.mustPut(t, gone(key, "expired", end), 0)
		case 1:
			want[key] = s.mustPut(t, fullRecord(key), 0)
		case 2:
			want[key] = s.mustPut(t, gone(key, "not yet", end.Add(time.Nanosecond)), 0)
		default: // it is absent
		}
	}
	s.clock.advance(time.Hour)
	s.mustHoldAll(t, keys, want)
	s.mustHoldAll(t, keys[100:101], want)
}

func manyJustWritten(t *testing.T, s *storeUnderTest) {
	keys := []broker.Key{instanceKey("i"), bindingKey("i", "b")}
	want := map[broker.Key]broker.Record{}
	for revision := range int64(10) {
		for n, key := range keys {
			want[key] = s.mustPut(t, ready(key, fmt.Sprintf("token-%d-%d", n, revision)), revision)
			s.mustHoldAll(t, keys, want)
		}
	}
}

func manyOfNone(t *testing.T, s *storeUnderTest) {
	s.mustPut(t, ready(instanceKey("i"), "a"), 0)
	s.mustHoldAll(t, nil, nil)
}

func manyTooLate(t *testing.T, s *storeUnderTest) {
	s.mustPut(t, ready(instanceKey("i"), "a"), 0)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if all, err := s.GetAll(ctx, []broker.Key{instanceKey("i"), instanceKey("j")}); !errors.Is(err, context.Canceled) {
		t.Errorf("GetAll = %v, %v; want the context's error", all, err)
	}
}

// TestRoundStore holds a RoundStore that keeps no note yet to its contract.
func TestRoundStore(t *testing.T, s broker.RoundStore) {
	t.Helper()
	first, later := broker.RoundNote{Began: storeEpoch}, broker.RoundNote{Began: storeEpoch.Add(time.Minute), Repeats: true}
	for n, step := range []struct{ put, want broker.RoundNote }{
		{broker.RoundNote{}, broker.RoundNote{}},
		{first, first},
		{later, later},
		{first, later},
		{broker.RoundNote{Began: later.Began}, broker.RoundNote{Began: later.Began}},
	} {
		if !step.put.Began.IsZero() {
			if err := s.PutRound(t.Context(), step.put); err != nil {
				t.Fatal(err)
			}
		}
		if got, err := s.LastRound(t.Context()); err != nil || !got.Began.Equal(step.want.Began) || got.Repeats != step.want.Repeats {
			t.Errorf("step %d: %+v, %v; want %+v", n, got, err, step.want)
		}
	}
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.PutRound(cancelled, later); err == nil {
		t.Error("written with a context that was over")
	}
}

// awkward are ids that a clumsy key would confuse: prefixes of each other, separators, words that stores use
// themselves, bytes that are no text.
var awkward = []string{
	"a", "aa", "a#", "#", "#a", "a/b", "/", "//", ".", "..", " ", "a ", "\t\n",
	"\x00", "a\x00", "a\x00\x00", "\x00a", "\x01", "\xff", "\xff\xff", "a\xff", "\xc3\x28", "\xed\xa0\x80",
	"instance", "binding", "binding#a", "binding#", "a#binding#a", "client-a", "client-a#a",
	"é", "e\u0301", "🚢", "🚢🚢", "\u202e", "\ufffd", `"`, `\`, "%", "%00", "A", "9", "10",
}

// awkwardIDs stores each id as an instance and as a binding, for two clients.
func awkwardIDs(t *testing.T, s *storeUnderTest) {
	var records []broker.Record
	for n, id := range awkward {
		records = append(records,
			ready(broker.Key{Client: "client-a", InstanceID: id}, fmt.Sprintf("a instance %d", n)),
			ready(broker.Key{Client: "client-a-b", InstanceID: id}, fmt.Sprintf("b instance %d", n)),
			ready(broker.Key{Client: "client-a", InstanceID: "a", BindingID: id}, fmt.Sprintf("binding of a %d", n)),
			ready(broker.Key{Client: "client-a", InstanceID: id, BindingID: "a#"}, fmt.Sprintf("binding a# %d", n)),
		)
	}
	s.keepApart(t, records)
}

// keepApart stores the records, leaving out keys met twice, and checks each one.
func (s *storeUnderTest) keepApart(t *testing.T, records []broker.Record) {
	t.Helper()
	stored := map[broker.Key]broker.Record{}
	for _, r := range records {
		if _, twice := stored[r.Key]; !twice {
			stored[r.Key] = s.mustPut(t, r, 0)
		}
	}
	s.mustHoldAll(t, slices.Collect(maps.Keys(stored)), stored)
	instances := map[broker.Key][]broker.Record{}
	for key, r := range stored {
		s.mustHold(t, r)
		instances[key.Instance()] = append(instances[key.Instance()], r)
	}
	for instance, of := range instances {
		var bindings []broker.Record
		for _, r := range of {
			if r.Key.BindingID != "" {
				bindings = append(bindings, r)
			}
		}
		s.mustList(t, instance, bindings...)
	}
}

func longIDs(t *testing.T, s *storeUnderTest) {
	long := strings.Repeat("ab\xff\x00", 225)
	client := strings.Repeat("c", 40)
	var records []broker.Record
	for n, id := range []string{long, long[:899], long[:899] + "x", "x" + long[1:]} {
		records = append(records,
			busy(broker.Key{Client: client, InstanceID: id}, fmt.Sprintf("instance-%d", n), storeEpoch),
			busy(broker.Key{Client: client, InstanceID: long, BindingID: id}, fmt.Sprintf("binding-%d", n), storeEpoch),
			gone(broker.Key{Client: client, InstanceID: id, BindingID: long}, fmt.Sprintf("gone-%d", n), storeEpoch.Add(1)),
		)
	}
	s.keepApart(t, records)
	eventually(t, s.unfinishedCount(storeEpoch, 100, 8))
}

// mustList checks the bindings of an instance, in any order.
func (s *storeUnderTest) mustList(t *testing.T, instance broker.Key, want ...broker.Record) {
	t.Helper()
	got, err := s.Bindings(t.Context(), instance)
	if err != nil {
		t.Fatalf("Bindings: %v", err)
	}
	byID := cmpopts.SortSlices(func(a, b broker.Record) bool { return a.Key.BindingID < b.Key.BindingID })
	if d := cmp.Diff(want, got, append(byContent(), byID)...); d != "" {
		t.Fatalf("the bindings of %q (-want +got):\n%.4000s", instance.InstanceID, d)
	}
}

func bindingsAreOwn(t *testing.T, s *storeUnderTest) {
	s.mustPut(t, ready(instanceKey("i"), "instance"), 0)
	one := s.mustPut(t, fullRecord(bindingKey("i", "one")), 0)
	two := s.mustPut(t, ready(bindingKey("i", "two"), "two"), 0)
	for _, other := range []string{"", "i", "ii", "i#", "i\x00", "h"} {
		if other != "i" {
			s.mustPut(t, ready(bindingKey(other+"x", "one"), "other"), 0)
		}
		s.mustPut(t, ready(broker.Key{Client: "client-b", InstanceID: other + "i", BindingID: "one"}, "b"), 0)
	}
	s.mustList(t, instanceKey("i"), one, two)
	two = s.mustPut(t, fullRecord(two.Key), 1)
	s.mustList(t, instanceKey("i"), one, two)
}

func noBindings(t *testing.T, s *storeUnderTest) {
	s.mustList(t, instanceKey("i"))
	s.mustPut(t, ready(instanceKey("i"), "a"), 0)
	s.mustList(t, instanceKey("i"))
}

// manyBindings are more than fit into one page of an answer.
func manyBindings(t *testing.T, s *storeUnderTest) {
	var want []broker.Record
	for n := range 100 {
		r := ready(bindingKey("i", fmt.Sprintf("b-%03d", n)), "t")
		r.Context = textOf(16 << 10)
		want = append(want, s.mustPut(t, r, 0))
	}
	s.mustList(t, instanceKey("i"), want...)
}

// life is how long tombstones live in these clauses.
const life = 8 * 24 * time.Hour

func expiredGet(t *testing.T, s *storeUnderTest) {
	key := instanceKey("i")
	stored := s.mustPut(t, gone(key, "a", s.clock.now().Add(life)), 0)
	s.clock.advance(life - time.Nanosecond)
	s.mustHold(t, stored)
	s.clock.advance(time.Nanosecond)
	s.mustLack(t, key)
	s.clock.advance(life)
	s.mustLack(t, key)
}

func expiredBinding(t *testing.T, s *storeUnderTest) {
	short := s.mustPut(t, gone(bindingKey("i", "short"), "a", s.clock.now().Add(time.Hour)), 0)
	long := s.mustPut(t, gone(bindingKey("i", "long"), "a", s.clock.now().Add(2*time.Hour)), 0)
	s.mustList(t, instanceKey("i"), short, long)
	s.clock.advance(time.Hour)
	s.mustList(t, instanceKey("i"), long)
}

func expiredCreate(t *testing.T, s *storeUnderTest) {
	key := instanceKey("i")
	old := fullRecord(key)
	old.Lifecycle.ExpiresAt = s.clock.now().Add(time.Hour)
	s.mustPut(t, old, 0)
	s.mustPut(t, old, 1)
	s.clock.advance(time.Hour)
	s.mustHold(t, s.mustPut(t, ready(key, "new"), 0))
	s.clock.advance(100 * life)
	s.mustUnfinished(t, s.clock.now(), 10)
	got, err := s.Get(t.Context(), key)
	if err != nil || got.Token != "new" || got.Revision != 1 {
		t.Fatalf("Get = token %q revision %d, %v; want the new record", got.Token, got.Revision, err)
	}
}

func expiredUpdate(t *testing.T, s *storeUnderTest) {
	key := bindingKey("i", "b")
	s.mustPut(t, gone(key, "a", s.clock.now().Add(time.Hour)), 0)
	s.clock.advance(time.Hour)
	s.mustConflict(t, ready(key, "b"), 1, broker.Record{})
	s.mustLack(t, key)
	s.mustList(t, key)
}

func expiryMoves(t *testing.T, s *storeUnderTest) {
	key := instanceKey("i")
	s.mustPut(t, gone(key, "a", s.clock.now().Add(time.Hour)), 0)
	later := s.mustPut(t, gone(key, "b", s.clock.now().Add(3*time.Hour)), 1)
	s.clock.advance(2 * time.Hour)
	s.mustHold(t, later)
	living := s.mustPut(t, ready(key, "c"), 2)
	s.clock.advance(2 * time.Hour)
	s.mustHold(t, living)
	ghost := gone(key, "d", s.clock.now().Add(time.Hour))
	ghost.Lifecycle.State = lifecycle.Ghost
	s.mustHold(t, s.mustPut(t, ghost, 3))
	s.clock.advance(time.Hour)
	s.mustLack(t, key)
}
