package dynamo

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/ferry-broker/ferry/internal/broker"
)

// maxPage is how many entries of the index one call asks for; DynamoDB has a limit of
// a megabyte besides.
const maxPage = 1000

// Unfinished implements broker.Store. It reads the index, a query for each shard, and
// lags behind the records by what the index does.
func (s *Store) Unfinished(ctx context.Context, due time.Time, limit int) ([]broker.Unfinished, error) {
	if limit <= 0 {
		return nil, ctx.Err()
	}
	var found []broker.Unfinished
	for shard := range int64(dueShards) {
		some, err := s.unfinished(ctx, shard, due, limit)
		if err != nil {
			return nil, fmt.Errorf("unfinished operations due by %s: %w", due.UTC().Format(time.RFC3339), err)
		}
		found = append(found, some...)
	}
	slices.SortStableFunc(found, func(a, b broker.Unfinished) int { return a.Due.Compare(b.Due) })
	return found[:min(limit, len(found))], nil
}

// unfinished returns the oldest of one shard.
func (s *Store) unfinished(ctx context.Context, shard int64, due time.Time, limit int) ([]broker.Unfinished, error) {
	in := &dynamodb.QueryInput{
		TableName: s.table, IndexName: aws.String(dueIndex),
		Limit:                    aws.Int32(int32(min(limit, maxPage))),
		KeyConditionExpression:   aws.String("#shard = :shard AND #due <= :due"),
		ExpressionAttributeNames: map[string]string{"#shard": attrDueShard, "#due": attrDueAt},
		ExpressionAttributeValues: map[string]types.AttributeValue{
			":shard": number(shard), ":due": instant(due),
		},
	}
	var found []broker.Unfinished
	err := s.query(ctx, in, func(it item) (bool, error) {
		u, living, err := s.entry(it)
		if living {
			found = append(found, u)
		}
		return len(found) < limit, err
	})
	return found, err
}

// entry reads an entry of the index; not living is one whose record has expired.
func (s *Store) entry(it item) (u broker.Unfinished, living bool, err error) {
	expires, err := it.time(attrExpires)
	if err != nil || (!expires.IsZero() && !s.now().Before(expires)) {
		return broker.Unfinished{}, false, err
	}
	key, err := it.place().key()
	if err != nil {
		return broker.Unfinished{}, false, err
	}
	at, err := it.time(attrDueAt)
	return broker.Unfinished{Key: key, Operation: it.text(attrOperation), Due: at}, err == nil, err
}
