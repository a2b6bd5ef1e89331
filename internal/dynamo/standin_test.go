package dynamo

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/ferry-broker/ferry/internal/standin"
)

var (
	standIn = standin.Shared{Root: "../.."}
	tables  atomic.Int64
)

func TestMain(m *testing.M) { os.Exit(standIn.Main(m)) }

// credentials are what a stand-in takes.
func credentials(context.Context) (aws.Credentials, error) {
	return aws.Credentials{AccessKeyID: "test", SecretAccessKey: "test"}, nil
}

func configFor(endpoint string, client aws.HTTPClient) aws.Config {
	return aws.Config{
		Region: "us-east-1", BaseEndpoint: aws.String(endpoint), HTTPClient: client,
		Credentials: aws.CredentialsProviderFunc(credentials),
	}
}

// newTable makes an empty table of the test's own and returns its name and a client to
// look into it with.
func newTable(t testing.TB) (string, *dynamodb.Client) {
	t.Helper()
	client := dynamodb.NewFromConfig(configFor(standIn.URL(t), nil))
	name := fmt.Sprintf("ferry-%d", tables.Add(1))
	_, err := client.CreateTable(t.Context(), Table(name))
	// The stand-in loses an answer now and then; then the SDK asks for the table again.
	if _, made := errors.AsType[*types.ResourceInUseException](err); err != nil && !made {
		t.Fatal(err)
	}
	return name, client
}

// on returns a Store on the table that goes by the line.
func on(t testing.TB, table string, now func() time.Time, l *line) *Store {
	t.Helper()
	s, err := New(Options{Config: configFor("http://127.0.0.1:1", l), Endpoint: standIn.URL(t), Table: table, Now: now})
	if err != nil {
		t.Fatal(err)
	}
	s.part = shortPart
	return s
}
