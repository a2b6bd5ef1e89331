package dynamo

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/ferry-broker/ferry/internal/broker"
)

// notes keep what concerns no record: when audits were completed, and when rounds look.
type notes struct{ *connection }

var (
	_ broker.AuditStore = (*notes)(nil)
	_ broker.RoundStore = (*notes)(nil)
)

// auditPlace is beside the client's catalog.
func auditPlace(client string) place { return place{pk: []byte(client), sk: []byte(auditSort)} }

// LastAudit implements broker.AuditStore: one strongly consistent read. The time comes back in UTC.
func (n notes) LastAudit(ctx context.Context, client string) (time.Time, error) {
	at, err := n.lastAudit(ctx, client)
	if err != nil {
		return time.Time{}, fmt.Errorf("last audit of %.64q: %w", client, err)
	}
	return at, nil
}

func (n notes) lastAudit(ctx context.Context, client string) (time.Time, error) {
	if err := checkClient(client); err != nil {
		return time.Time{}, err
	}
	it, err := n.get(ctx, auditPlace(client))
	if err != nil || len(it) == 0 {
		return time.Time{}, err
	}
	if err := checkFormat(it); err != nil {
		return time.Time{}, err
	}
	return it.time(attrAudited)
}

// PutLastAudit implements broker.AuditStore: one conditional write.
func (n notes) PutLastAudit(ctx context.Context, client string, at time.Time) error {
	if err := checkClient(client); err != nil {
		return fmt.Errorf("put last audit: %w", err)
	}
	where := auditPlace(client)
	_, err := n.client.PutItem(ctx, &dynamodb.PutItemInput{
		TableName: n.table,
		Item: item{
			attrPK: raw(where.pk), attrSK: raw(where.sk), attrFormat: number(format1), attrAudited: instant(at),
		},
		ConditionExpression:       aws.String("attribute_not_exists(#audited) OR #audited < :at"),
		ExpressionAttributeNames:  map[string]string{"#audited": attrAudited},
		ExpressionAttributeValues: map[string]types.AttributeValue{":at": instant(at)},
	}, n.within(ctx))
	if _, older := errors.AsType[*types.ConditionalCheckFailedException](err); older {
		return nil
	}
	if err != nil {
		return fmt.Errorf("put last audit of %.64q: %w", client, err)
	}
	return nil
}

// roundPlace is that of no client: their names are not empty.
func roundPlace() place { return place{pk: []byte(separator + roundSort), sk: []byte(roundSort)} }

// LastRound implements broker.RoundStore: one strongly consistent read.
func (n notes) LastRound(ctx context.Context) (broker.RoundNote, error) {
	it, err := n.get(ctx, roundPlace())
	if err == nil && len(it) > 0 {
		err = checkFormat(it)
	}
	if err != nil || len(it) == 0 {
		return broker.RoundNote{}, wrapped("last round", err)
	}
	began, err := it.time(attrBegan)
	return broker.RoundNote{Began: began, Repeats: it[attrRepeats] != nil}, wrapped("last round", err)
}

// PutRound implements broker.RoundStore: one conditional write.
func (n notes) PutRound(ctx context.Context, note broker.RoundNote) error {
	where := roundPlace()
	it := item{attrPK: raw(where.pk), attrSK: raw(where.sk), attrFormat: number(format1), attrBegan: instant(note.Began)}
	if note.Repeats {
		it[attrRepeats] = number(1)
	}
	_, err := n.client.PutItem(ctx, &dynamodb.PutItemInput{
		TableName: n.table, Item: it,
		ConditionExpression:       aws.String("attribute_not_exists(#began) OR #began <= :began"),
		ExpressionAttributeNames:  map[string]string{"#began": attrBegan},
		ExpressionAttributeValues: map[string]types.AttributeValue{":began": instant(note.Began)},
	}, n.within(ctx))
	if _, older := errors.AsType[*types.ConditionalCheckFailedException](err); older {
		return nil
	}
	return wrapped("put the note of a round", err)
}

// wrapped says what failed; nil stays nil.
func wrapped(what string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", what, err)
}
