package dynamo

import (
	"context"
	"errors"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/ferry-broker/ferry/internal/broker"
)

// Get implements broker.Store: one strongly consistent read.
func (s *Store) Get(ctx context.Context, key broker.Key) (broker.Record, error) {
	r, err := s.record(ctx, key)
	if err != nil {
		return broker.Record{}, fmt.Errorf("get %s: %w", named(key), err)
	}
	return r, nil
}

func (s *Store) record(ctx context.Context, key broker.Key) (broker.Record, error) {
	at, err := placeOf(key)
	if errors.Is(err, broker.ErrTooLarge) {
		return broker.Record{}, broker.ErrNotFound // it cannot have been stored
	}
	if err != nil {
		return broker.Record{}, err
	}
	it, err := s.get(ctx, at)
	if err != nil {
		return broker.Record{}, err
	}
	return s.living(it)
}

// get returns nil for an item that is not there.
func (s *Store) get(ctx context.Context, at place) (item, error) {
	out, err := s.client.GetItem(ctx, &dynamodb.GetItemInput{
		TableName:      s.table,
		Key:            map[string]types.AttributeValue{attrPK: raw(at.pk), attrSK: raw(at.sk)},
		ConsistentRead: aws.Bool(true),
	}, s.within(ctx))
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

// Bindings implements broker.Store: strongly consistent, a call for each megabyte.
// The binding id of the key is not looked at.
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
