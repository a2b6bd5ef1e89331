package dynamo

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/ferry-broker/ferry/internal/broker"
)

// Put implements broker.Store: one conditional write, which a refusal comes back from with the record that refused it.
// ErrTooLarge, before anything is sent, above MaxRecordBytes and for ids longer than keys may be.
func (s *Store) Put(ctx context.Context, record broker.Record, revision int64) (broker.Record, error) {
	stored, err := s.put(ctx, record, revision)
	if err != nil {
		return stored, fmt.Errorf("put %s at revision %d: %w", named(record.Key), revision, err)
	}
	return stored, nil
}

func (s *Store) put(ctx context.Context, r broker.Record, revision int64) (broker.Record, error) {
	write, err := s.writeNumber()
	if err != nil {
		return broker.Record{}, err
	}
	r.Revision = revision + 1
	it, err := encode(r, write)
	if err != nil {
		return broker.Record{}, err
	}
	if it.size() > MaxRecordBytes {
		return broker.Record{}, &broker.LimitError{Bytes: MaxRecordBytes}
	}
	now := s.now()
	_, winner, err := s.write(ctx, s.newPut(it, revision, now))
	if errors.Is(err, broker.ErrConflict) {
		return s.refused(r.Key, winner, now)
	}
	if err != nil {
		return broker.Record{}, err
	}
	return decode(it)
}

// refused answers a write whose condition did not hold with what was there.
func (s *Store) refused(key broker.Key, winner item, now time.Time) (broker.Record, error) {
	if len(winner) == 0 {
		return broker.Record{Key: key}, broker.ErrConflict
	}
	r, err := decode(winner)
	if err != nil {
		return broker.Record{}, err
	}
	if r.Expired(now) {
		return broker.Record{Key: key}, broker.ErrConflict
	}
	return r, broker.ErrConflict
}

// newPut is to put the item in the place of the one with the given revision.
func (s *Store) newPut(it item, revision int64, now time.Time) *dynamodb.PutItemInput {
	in := &dynamodb.PutItemInput{
		TableName: s.table, Item: it,
		ReturnValuesOnConditionCheckFailure: types.ReturnValuesOnConditionCheckFailureAllOld,
	}
	condition(in, revision, now)
	return in
}

// write sends it. Refused: the item that is there instead, nil for none, and ErrConflict. A write that finds itself
// there was made by a try whose answer was lost: it won, and there is no answer to return.
func (s *Store) write(ctx context.Context, in *dynamodb.PutItemInput) (answer *dynamodb.PutItemOutput, winner item, err error) {
	answer, err = s.client.PutItem(ctx, in, s.within(ctx))
	refusal, refused := errors.AsType[*types.ConditionalCheckFailedException](err)
	if !refused {
		return answer, nil, err
	}
	winner = refusal.Item
	if bytes.Equal(winner.raw(attrWrite), item(in.Item).raw(attrWrite)) {
		return nil, nil, nil
	}
	return nil, winner, broker.ErrConflict
}

// condition holds when the stored item, absent and expired counting as revision 0, has the revision.
func condition(in *dynamodb.PutItemInput, revision int64, now time.Time) {
	in.ExpressionAttributeValues = map[string]types.AttributeValue{":now": instant(now)}
	if revision == 0 {
		in.ConditionExpression = aws.String("attribute_not_exists(#pk) OR #expires <= :now")
		in.ExpressionAttributeNames = map[string]string{"#pk": attrPK, "#expires": attrExpires}
		return
	}
	in.ConditionExpression = aws.String("#revision = :revision AND (attribute_not_exists(#expires) OR #expires > :now)")
	in.ExpressionAttributeNames = map[string]string{"#revision": attrRevision, "#expires": attrExpires}
	in.ExpressionAttributeValues[":revision"] = number(revision)
}
