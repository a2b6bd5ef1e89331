package dynamo

import (
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// The attributes of items. Their names are in tables out there: they never change.
const (
	attrPK        = "pk"
	attrSK        = "sk"
	attrFormat    = "format"
	attrRevision  = "revision"
	attrWrite     = "write"      // the number of the write that left the item so
	attrExpires   = "expires"    // exact; absent for the living
	attrTTL       = "expires_at" // the next full second, for DynamoDB's TTL
	attrDueShard  = "due_shard"  // this and the next two: while an operation runs
	attrDueAt     = "due_at"
	attrOperation = "operation"
	attrBody      = "body"
	attrContext   = "context"
	attrIdentity  = "identity"
	attrLocation  = "api_info_location"
	attrParams    = "parameters"
	attrFetched   = "fetched" // this and the next: of catalogs
	attrParts     = "parts"
	attrAudited   = "audited" // when the last audit of a client was completed
)

const dueIndex = "due"

// Table is the definition of the table that a Store expects: two binary keys, the
// sparse index of operations that run, billed by request. Whoever creates the table
// by other means (template.yaml) has to agree with it and with TimeToLive.
func Table(name string) *dynamodb.CreateTableInput {
	return &dynamodb.CreateTableInput{
		TableName:   aws.String(name),
		BillingMode: types.BillingModePayPerRequest,
		AttributeDefinitions: []types.AttributeDefinition{
			{AttributeName: aws.String(attrPK), AttributeType: types.ScalarAttributeTypeB},
			{AttributeName: aws.String(attrSK), AttributeType: types.ScalarAttributeTypeB},
			{AttributeName: aws.String(attrDueShard), AttributeType: types.ScalarAttributeTypeN},
			{AttributeName: aws.String(attrDueAt), AttributeType: types.ScalarAttributeTypeN},
		},
		KeySchema: keySchema(attrPK, attrSK),
		GlobalSecondaryIndexes: []types.GlobalSecondaryIndex{{
			IndexName: aws.String(dueIndex),
			KeySchema: keySchema(attrDueShard, attrDueAt),
			Projection: &types.Projection{
				ProjectionType:   types.ProjectionTypeInclude,
				NonKeyAttributes: []string{attrOperation, attrExpires},
			},
		}},
	}
}

// TimeToLive lets DynamoDB delete what has expired. A Store is right without it; the
// table only grows.
func TimeToLive(name string) *dynamodb.UpdateTimeToLiveInput {
	return &dynamodb.UpdateTimeToLiveInput{
		TableName: aws.String(name),
		TimeToLiveSpecification: &types.TimeToLiveSpecification{
			AttributeName: aws.String(attrTTL), Enabled: aws.Bool(true),
		},
	}
}

func keySchema(hash, sort string) []types.KeySchemaElement {
	return []types.KeySchemaElement{
		{AttributeName: aws.String(hash), KeyType: types.KeyTypeHash},
		{AttributeName: aws.String(sort), KeyType: types.KeyTypeRange},
	}
}
