package dynamo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/ferry-broker/ferry/internal/broker"
)

// Get implements broker.Store: one strongly consistent read.
func (s *Store) Get(ctx context.Context, key broker.Key) (broker.Record, error) {
	r, err := s.record(ctx, key)
	return r, failedGet(key, err)
}

// failedGet is the error of a read of the key; nil for nil.
func failedGet(key broker.Key, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("get %s: %w", named(key), err)
}

func (s *Store) record(ctx context.Context, key broker.Key) (broker.Record, error) {
	at, err := recordPlace(key)
	if err != nil {
		return broker.Record{}, err
	}
	it, err := s.get(ctx, at)
	if err != nil {
		return broker.Record{}, err
	}
	return s.living(it)
}

// recordPlace is where to read the record of the key; ErrNotFound for one that cannot have been stored.
func recordPlace(key broker.Key) (place, error) {
	at, err := placeOf(key)
	if errors.Is(err, broker.ErrTooLarge) {
		return place{}, broker.ErrNotFound
	}
	return at, err
}

// get returns nil for an item that is not there.
func (c *connection) get(ctx context.Context, at place) (item, error) {
	out, err := c.client.GetItem(ctx, &dynamodb.GetItemInput{
		TableName:      c.table,
		Key:            at.itemKey(),
		ConsistentRead: aws.Bool(true),
	}, c.within(ctx))
	if err != nil {
		return nil, err
	}
	return out.Item, nil
}

// living decodes an item, or returns ErrNotFound for none and an expired one.
func (s *Store) living(it item) (broker.Record, error) {
	if len(it) == 0 {
		return broker.Record{}, broker.ErrNotFound
	}
	r, err := decode(it)
	if err == nil && r.Expired(s.now()) {
		return broker.Record{}, broker.ErrNotFound
	}
	return r, err
}

// Bindings implements broker.Store: strongly consistent, a call for each megabyte. The binding id of the key is not
// looked at.
func (s *Store) Bindings(ctx context.Context, instance broker.Key) ([]broker.Record, error) {
	records, err := s.bindings(ctx, instance.Instance())
	if err != nil {
		return nil, fmt.Errorf("bindings of %s: %w", named(instance.Instance()), err)
	}
	return records, nil
}

func (s *Store) bindings(ctx context.Context, instance broker.Key) ([]broker.Record, error) {
	at, err := placeOf(instance)
	if errors.Is(err, broker.ErrTooLarge) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var records []broker.Record
	err = s.query(ctx, s.under(at.pk, bindingPrefix), func(it item) (bool, error) {
		r, err := s.living(it)
		switch {
		case err == nil:
			records = append(records, r)
		case !errors.Is(err, broker.ErrNotFound):
			return false, err
		}
		return true, nil
	})
	return records, err
}

// under asks for the items of a partition whose sort key begins with prefix.
func (s *Store) under(pk []byte, prefix string) *dynamodb.QueryInput {
	return &dynamodb.QueryInput{
		TableName:                s.table,
		ConsistentRead:           aws.Bool(true),
		KeyConditionExpression:   aws.String("#pk = :pk AND begins_with(#sk, :prefix)"),
		ExpressionAttributeNames: map[string]string{"#pk": attrPK, "#sk": attrSK},
		ExpressionAttributeValues: map[string]types.AttributeValue{
			":pk": raw(pk), ":prefix": raw([]byte(prefix)),
		},
	}
}

// query hands on item after item, page after page, until each has enough.
func (s *Store) query(ctx context.Context, in *dynamodb.QueryInput, each func(item) (more bool, err error)) error {
	for {
		page, err := s.client.Query(ctx, in, s.within(ctx))
		if err != nil {
			return err
		}
		for _, it := range page.Items {
			if more, err := each(it); err != nil || !more {
				return err
			}
		}
		if len(page.LastEvaluatedKey) == 0 {
			return nil
		}
		in.ExclusiveStartKey = page.LastEvaluatedKey
	}
}

// Unfinished implements broker.Store. It reads the index, a query for each shard, and lags behind the records by what
// the index does.
func (s *Store) Unfinished(ctx context.Context, due time.Time, after string, limit int) (broker.UnfinishedPage, error) {
	if limit <= 0 {
		return broker.UnfinishedPage{Next: after}, ctx.Err()
	}
	begin, err := newSpan(s, due, after)
	var page broker.UnfinishedPage
	if err == nil && !begin.empty() {
		page, err = begin.page(ctx, limit)
	}
	if err != nil {
		return broker.UnfinishedPage{}, fmt.Errorf("unfinished operations due by %s: %w", due.UTC().Format(time.RFC3339), err)
	}
	return page, nil
}

// span is what one call of Unfinished reads: up to due, behind after.
type span struct {
	store     *Store
	due, from time.Time
	after     *position
}

func newSpan(s *Store, due time.Time, after string) (span, error) {
	if after == "" {
		return span{store: s, due: due}, nil
	}
	var at position
	if err := json.Unmarshal([]byte(after), &at); err != nil {
		return span{}, errBadCursor
	}
	from, err := parseInstant(at.Due)
	if err != nil || len(at.PK) == 0 || len(at.SK) == 0 {
		return span{}, errBadCursor
	}
	return span{store: s, due: due, from: from, after: &at}, nil
}

func (b span) empty() bool { return b.after != nil && b.from.After(b.due) }

// maxPage is how many entries of the index one call asks for; DynamoDB has a limit of a megabyte besides.
const maxPage = 1000

var errBadCursor = errors.New("the place to go on behind is none that this store gave")

// position is where an entry lies in the order of Unfinished: by due time, then by shard, then as the index has it. Its
// JSON is what a page's Next holds.
type position struct {
	Due   string `json:"due"` // as DynamoDB writes the number
	Shard int64  `json:"shard"`
	PK    []byte `json:"pk"`
	SK    []byte `json:"sk"`
}

// entry is one of the index. One with a fault names no operation.
type entry struct {
	broker.Unfinished
	at    position
	fault error
}

// page reads every shard, and takes the oldest of all.
func (b span) page(ctx context.Context, limit int) (broker.UnfinishedPage, error) {
	var found []entry
	more := false
	for shard := range int64(dueShards) {
		some, cut, err := b.shard(ctx, shard, limit)
		if err != nil {
			return broker.UnfinishedPage{}, err
		}
		found, more = append(found, some...), more || cut
	}
	slices.SortStableFunc(found, func(a, b entry) int { return a.Due.Compare(b.Due) })
	return pageOf(found, more, limit)
}

// shard returns the oldest of one shard, and whether there may be more behind them.
func (b span) shard(ctx context.Context, shard int64, limit int) (found []entry, cut bool, err error) {
	operations, due := 0, b.from
	err = b.store.query(ctx, b.query(shard, limit), func(it item) (bool, error) {
		e, living := b.entry(it, shard, due)
		due = e.Due
		if !living || b.passed(shard, e) {
			return true, nil
		}
		found = append(found, e)
		if e.fault == nil {
			operations++
		}
		cut = operations >= limit
		return !cut, nil
	})
	return found, cut, err
}

func (b span) query(shard int64, limit int) *dynamodb.QueryInput {
	in := &dynamodb.QueryInput{
		TableName: b.store.table, IndexName: aws.String(dueIndex),
		Limit:                    aws.Int32(int32(min(limit, maxPage))),
		KeyConditionExpression:   aws.String("#shard = :shard AND #due <= :due"),
		ExpressionAttributeNames: map[string]string{"#shard": attrDueShard, "#due": attrDueAt},
		ExpressionAttributeValues: map[string]types.AttributeValue{
			":shard": number(shard), ":due": instant(b.due),
		},
	}
	switch {
	case b.after == nil:
	case shard == b.after.Shard:
		in.ExclusiveStartKey = map[string]types.AttributeValue{
			attrDueShard: number(shard), attrDueAt: &types.AttributeValueMemberN{Value: b.after.Due},
			attrPK: raw(b.after.PK), attrSK: raw(b.after.SK),
		}
	default:
		in.KeyConditionExpression = aws.String("#shard = :shard AND #due BETWEEN :from AND :due")
		in.ExpressionAttributeValues[":from"] = instant(b.from)
	}
	return in
}

// passed reports whether the entry of a shard was on an earlier page. The query of a shard before the one of the last
// entry begins with what was due at the same time.
func (b span) passed(shard int64, e entry) bool {
	return b.after != nil && shard < b.after.Shard && !e.Due.After(b.from)
}

// entry reads an entry of the index; not living is one whose record has expired. One whose due time cannot be read
// counts as due with the one before it, and is no place to go on behind.
func (b span) entry(it item, shard int64, before time.Time) (e entry, living bool) {
	at, err := it.time(attrDueAt)
	if err != nil {
		return entry{Unfinished: broker.Unfinished{Due: before}, fault: err}, true
	}
	place := it.place()
	e.Due, e.at = at, position{Shard: shard, PK: place.pk, SK: place.sk}
	if n, ok := it[attrDueAt].(*types.AttributeValueMemberN); ok {
		e.at.Due = n.Value
	}
	expires, err := it.time(attrExpires)
	if err == nil {
		e.Key, err = place.key()
	}
	if e.Operation = it.text(attrOperation); err == nil && e.Operation == "" {
		err = fmt.Errorf("%w: an entry of the index without an operation", errBadItem)
	}
	e.fault = err
	return e, err != nil || expires.IsZero() || b.store.now().Before(expires)
}

// pageOf takes entries until it has enough operations.
func pageOf(found []entry, more bool, limit int) (broker.UnfinishedPage, error) {
	var page broker.UnfinishedPage
	var last position
	n := 0
	for ; n < len(found) && len(page.Operations) < limit; n++ {
		e := found[n]
		if e.at.Due != "" {
			last = e.at
		}
		if e.fault == nil {
			page.Operations = append(page.Operations, e.Unfinished)
			continue
		}
		page.Unreadable++
		if page.Fault == nil {
			page.Fault = e.fault
		}
	}
	if n == len(found) && !more {
		return page, nil
	}
	next, err := json.Marshal(last)
	page.Next = string(next)
	return page, err
}
