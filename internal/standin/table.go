package standin

import (
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// Table is the table that internal/dynamo works on, for tests that make one: two binary keys, the sparse index of
// operations that run, billed by request. A test of internal/stack compares template.yaml with it.
func Table(name string) *dynamodb.CreateTableInput {
	return &dynamodb.CreateTableInput{
		TableName:   aws.String(name),
		BillingMode: types.BillingModePayPerRequest,
		AttributeDefinitions: []types.AttributeDefinition{
			{AttributeName: aws.String("pk"), AttributeType: types.ScalarAttributeTypeB},
			{AttributeName: aws.String("sk"), AttributeType: types.ScalarAttributeTypeB},
			{AttributeName: aws.String("due_shard"), AttributeType: types.ScalarAttributeTypeN},
			{AttributeName: aws.String("due_at"), AttributeType: types.ScalarAttributeTypeN},
		},
		KeySchema: keySchema("pk", "sk"),
		GlobalSecondaryIndexes: []types.GlobalSecondaryIndex{{
			IndexName: aws.String("due"),
			KeySchema: keySchema("due_shard", "due_at"),
			Projection: &types.Projection{
				ProjectionType:   types.ProjectionTypeInclude,
				NonKeyAttributes: []string{"operation", "expires"},
			},
		}},
	}
}

func keySchema(hash, sort string) []types.KeySchemaElement {
	return []types.KeySchemaElement{
		{AttributeName: aws.String(hash), KeyType: types.KeyTypeHash},
		{AttributeName: aws.String(sort), KeyType: types.KeyTypeRange},
	}
}
