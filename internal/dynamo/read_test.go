package dynamo

import (
	"slices"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/ferry-broker/ferry/internal/broker"
	"github.com/ferry-broker/ferry/internal/lifecycle"
)

// TestUnfinishedAcrossShards is about more operations than one shard has, and about pages that end before enough living
// ones were found.
func TestUnfinishedAcrossShards(t *testing.T) {
	t.Parallel()
	table, _ := newTable(t)
	now := epoch
	s := on(t, table, func() time.Time { return now }, newLine())
	shards := map[int64]bool{}
	for n := range 24 {
		r := claimed(keyOf(string(rune('a' + n))))
		r.Lifecycle.Operation.Due = epoch.Add(time.Duration(n) * time.Second)
		if n < 12 {
			r.Lifecycle.ExpiresAt = epoch.Add(time.Minute)
		}
		at, err := placeOf(r.Key)
		if err != nil {
			t.Fatal(err)
		}
		shards[at.shard()] = true
		mustPut(t, s, r, 0)
	}
	if len(shards) != dueShards {
		t.Fatalf("the keys lie in %d shards; the test wants all %d", len(shards), dueShards)
	}
	now = epoch.Add(time.Minute)
	for _, limit := range []int{1, 2, 5, 12, 100} {
		page, err := s.Unfinished(t.Context(), epoch.Add(time.Hour), "", limit)
		got := page.Operations
		if err != nil || len(got) != min(limit, 12) {
			t.Fatalf("limit %d: %d operations, %v", limit, len(got), err)
		}
		sorted := slices.IsSortedFunc(got, func(a, b broker.Unfinished) int { return a.Due.Compare(b.Due) })
		if !sorted || got[0].Key != keyOf("m") {
			t.Errorf("limit %d begins with %q, sorted: %t; want the oldest living one, m", limit, got[0].Key.InstanceID, sorted)
		}
	}
}

// TestIndexIsLeft is about an item that is written without the index's attributes.
func TestIndexIsLeft(t *testing.T) {
	t.Parallel()
	table, client := newTable(t)
	s := on(t, table, atEpoch, newLine())
	mustPut(t, s, claimed(keyOf("i")), 0)
	mustPut(t, s, done(keyOf("i")), 1)
	tombstone := done(keyOf("i"))
	tombstone.Lifecycle.State, tombstone.Lifecycle.ExpiresAt = lifecycle.Gone, epoch.Add(time.Hour)
	mustPut(t, s, tombstone, 2)
	out, err := client.Scan(t.Context(), &dynamodb.ScanInput{TableName: aws.String(table), IndexName: aws.String(dueIndex)})
	if err != nil || len(out.Items) > 0 {
		t.Errorf("the index holds %d items, %v; want none", len(out.Items), err)
	}
}

// TestUnfinishedPassesOverWhatItCannotRead: items that no Ferry wrote, among those of the others, on whatever page they
// come.
func TestUnfinishedPassesOverWhatItCannotRead(t *testing.T) {
	t.Parallel()
	table, client := newTable(t)
	s := on(t, table, atEpoch, newLine())
	for n := range 12 {
		r := claimed(keyOf(string(rune('a' + n))))
		r.Lifecycle.Operation.Due = epoch.Add(time.Duration(n) * time.Second)
		mustPut(t, s, r, 0)
	}
	at := func(n time.Duration) types.AttributeValue { return instant(epoch.Add(n*time.Second + 1)) }
	for n, it := range []item{
		{attrPK: raw([]byte("nobody")), attrSK: raw([]byte("odd")), attrDueAt: at(0)},
		{attrPK: raw([]byte("a#b")), attrSK: raw([]byte("binding#")), attrDueAt: at(3)},
		{attrPK: raw([]byte("a#c")), attrSK: raw([]byte("instance")), attrDueAt: at(4)},
		{attrPK: raw([]byte("a#d")), attrSK: raw([]byte("instance")), attrDueAt: at(20), attrExpires: &types.AttributeValueMemberN{Value: "1e90"}},
		{attrPK: raw([]byte("a#e")), attrSK: raw([]byte("instance")), attrDueAt: &types.AttributeValueMemberN{Value: "0.0000000000001"}},
	} {
		it[attrDueShard] = number(int64(n % dueShards))
		if n != 2 {
			it.setText(attrOperation, "create-odd")
		}
		if _, err := client.PutItem(t.Context(), &dynamodb.PutItemInput{TableName: aws.String(table), Item: it}); err != nil {
			t.Fatal(err)
		}
	}
	for _, limit := range []int{1, 3, 12, 100} {
		var seen string
		after, more, unreadable := "", true, 0
		for more {
			page, err := s.Unfinished(t.Context(), epoch.Add(time.Hour), after, limit)
			if err != nil || (page.Unreadable > 0) != (page.Fault != nil) {
				t.Fatalf("%+v, %v", page, err)
			}
			for _, u := range page.Operations {
				seen += u.Key.InstanceID
			}
			unreadable += page.Unreadable
			after, more = page.Next, page.Next != ""
		}
		if seen != "abcdefghijkl" || unreadable != 5 {
			t.Errorf("pages of %d: %s, and %d that cannot be read; want a to l, and 5", limit, seen, unreadable)
		}
	}
	if _, err := s.Unfinished(t.Context(), epoch, "nonsense", 1); err == nil {
		t.Error("a place that no page gave is gone on behind")
	}
}
