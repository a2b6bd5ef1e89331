package dynamo

import (
	"bytes"
	"context"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/ferry-broker/ferry/internal/broker"
)

// revisionPrefix begins the sort keys of all parts of a revision, of the write that
// won it and of those that lost. Revisions sort by their number.
func revisionPrefix(revision int64) string {
	return fmt.Sprintf("%s%s%020d%s", catalogSort, separator, revision, separator)
}

func (h header) partPrefix() string {
	return fmt.Sprintf("%s%x%s", revisionPrefix(h.revision), h.write, separator)
}

// putParts stores the parts, which no header names yet. It looks first whether the
// header can be written at all: with parts, losing is dear. Refused: what is stored
// and ErrConflict.
func (s *Store) putParts(ctx context.Context, client string, h header, parts [][]byte, revision int64) (item, error) {
	stored, err := s.get(ctx, catalogPlace(client))
	if err != nil {
		return nil, err
	}
	if at, err := stored.number(attrRevision); err != nil || at != revision {
		return stored, fmt.Errorf("%w (%d)", broker.ErrConflict, at)
	}
	for n, part := range parts {
		it := item{
			attrPK: raw([]byte(client)), attrSK: raw(fmt.Appendf(nil, "%s%04d", h.partPrefix(), n)),
			attrFormat: number(format1), attrBody: raw(part),
		}
		if _, err := s.client.PutItem(ctx, &dynamodb.PutItemInput{TableName: s.table, Item: it}, s.within(ctx)); err != nil {
			return nil, err
		}
	}
	return nil, nil
}

// parts reads what the header names, all of it or errReplaced.
func (s *Store) parts(ctx context.Context, client string, h header) ([]byte, error) {
	var packed []byte
	found := int64(0)
	err := s.query(ctx, s.under([]byte(client), h.partPrefix()), func(it item) (bool, error) {
		packed = append(packed, it.raw(attrBody)...)
		found++
		return true, nil
	})
	if err == nil && found != h.parts {
		err = errReplaced
	}
	return packed, err
}

// discard deletes the parts that a query finds, but those whose sort keys begin with
// keep. None of them has a header any more, or will have one; whoever still reads them
// finds that out. What it does not get to, the next one does, so a fault is nobody's.
func (s *Store) discard(ctx context.Context, in *dynamodb.QueryInput, keep []byte) {
	in.ConsistentRead = nil
	in.ProjectionExpression = aws.String("#pk, #sk")
	_ = s.query(ctx, in, func(it item) (bool, error) {
		if keep != nil && bytes.HasPrefix(it.raw(attrSK), keep) {
			return true, nil
		}
		_, err := s.client.DeleteItem(ctx, &dynamodb.DeleteItemInput{
			TableName: s.table, Key: map[string]types.AttributeValue{attrPK: it[attrPK], attrSK: it[attrSK]},
		}, s.within(ctx))
		return true, err
	})
}

// upTo asks for the client's parts of all revisions up to one, of which no write can
// win any more once that one is stored.
func (s *Store) upTo(client string, revision int64) *dynamodb.QueryInput {
	return &dynamodb.QueryInput{
		TableName:                s.table,
		KeyConditionExpression:   aws.String("#pk = :pk AND #sk BETWEEN :first AND :last"),
		ExpressionAttributeNames: map[string]string{"#pk": attrPK, "#sk": attrSK},
		ExpressionAttributeValues: map[string]types.AttributeValue{
			":pk":    raw([]byte(client)),
			":first": raw([]byte(revisionPrefix(0))),
			":last":  raw([]byte(revisionPrefix(revision) + "\xff")),
		},
	}
}
