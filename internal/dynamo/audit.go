package dynamo

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// auditPlace is beside the client's catalog.
func auditPlace(client string) place { return place{pk: []byte(client), sk: []byte(auditSort)} }

// LastAudit implements broker.AuditStore: one strongly consistent read. The time comes
// back in UTC.
func (s *Store) LastAudit(ctx context.Context, client string) (time.Time, error) {
	at, err := s.lastAudit(ctx, client)
	if err != nil {
		return time.Time{}, fmt.Errorf("last audit of %.64q: %w", client, err)
	}
	return at, nil
}

func (s *Store) lastAudit(ctx context.Context, client string) (time.Time, error) {
	if err := checkClient(client); err != nil {
		return time.Time{}, err
	}
	it, err := s.get(ctx, auditPlace(client))
	if err != nil || len(it) == 0 {
		return time.Time{}, err
	}
	if err := checkFormat(it); err != nil {
		return time.Time{}, err
	}
	return it.time(attrAudited)
}

// PutLastAudit implements broker.AuditStore: one conditional write.
func (s *Store) PutLastAudit(ctx context.Context, client string, at time.Time) error {
	if err := checkClient(client); err != nil {
		return fmt.Errorf("put last audit: %w", err)
	}
	where := auditPlace(client)
	_, err := s.client.PutItem(ctx, &dynamodb.PutItemInput{
		TableName: s.table,
		Item: item{
			attrPK: raw(where.pk), attrSK: raw(where.sk), attrFormat: number(format1), attrAudited: instant(at),
		},
		ConditionExpression:       aws.String("attribute_not_exists(#audited) OR #audited < :at"),
		ExpressionAttributeNames:  map[string]string{"#audited": attrAudited},
		ExpressionAttributeValues: map[string]types.AttributeValue{":at": instant(at)},
	}, s.within(ctx))
	if _, older := errors.AsType[*types.ConditionalCheckFailedException](err); older {
		return nil
	}
	if err != nil {
		return fmt.Errorf("put last audit of %.64q: %w", client, err)
	}
	return nil
}
