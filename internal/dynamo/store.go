// Package dynamo keeps Ferry's records in one DynamoDB table: broker.Store and broker.CatalogStore for a broker that
// runs as many short-lived processes.
//
// # The table
//
// docs/adr/0013-one-table-on-dynamodb.md has its definition. pk is client#instance_id and sk is "instance" or
// binding#binding_id, so that a query reads the bindings of an instance. Both are of type B: ids are any bytes, and
// bytes need no escaping that would outgrow the key limits. Client names have no '#', so the first one divides; a
// partition without any belongs to a client as a whole and holds its catalog.
//
// An item has the attributes that conditions, the index and DynamoDB's TTL ask for, and the rest of the record as JSON
// in body. What a record holds letter for letter stays outside of the JSON, in attributes of type B.
//
// # Writes
//
// Every write of a record is one PutItem on condition of the stored revision. A refused one comes back with the item
// that refused it, at no further call. Each carries a fresh number in the attribute write, by which a write that the
// SDK repeated, because its answer was lost, recognises itself and counts as won.
//
// DynamoDB may delete what has expired days late, so expires, the exact time, is part of every condition and checked on
// every read; expires_at is for the TTL only. The index due is read by Unfinished and by nothing else: it lags behind.
// The same page has the reasons.
package dynamo

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/ferry-broker/ferry/internal/broker"
)

// Options say where the table is and what a Store may use.
type Options struct {
	// Config has region, credentials and, from AWS_ENDPOINT_URL, the address of a stand-in. An HTTP client of the SDK
	// gets a time limit for each try; one of another make is used as it is. A Retryer in it is not used.
	Config aws.Config
	// Endpoint overrides the address of DynamoDB; empty means Config's.
	Endpoint string
	// Table is the name of the table. Required.
	Table string
	// Now is the clock that records expire by. Required.
	Now func() time.Time
	// Deadlines is the clock that the deadlines of contexts are set by; nil means Now.
	Deadlines func() time.Time
	// Random is what writes are numbered from; nil means crypto/rand.
	Random io.Reader
}

// Store is a broker.Store and broker.CatalogStore in a DynamoDB table. Any number of goroutines may call its methods,
// and any number of Stores may share a table. It has nothing to close.
//
// Throttling, faults of the service and of the network are tried again, a few times and not beyond the context's
// deadline. An error that is none of package broker's then leaves open whether a write happened.
type Store struct {
	notes
	now    func() time.Time
	random io.Reader
	part   int // bytes of a catalog in one item
}

var (
	_ broker.Store        = (*Store)(nil)
	_ broker.CatalogStore = (*Store)(nil)
)

// connection is the way to the table.
type connection struct {
	client    *dynamodb.Client
	table     *string
	deadlines func() time.Time
}

// New returns a Store without calling anybody: whether the table is there shows at the first use, or with Ping.
func New(o Options) (*Store, error) {
	if o.Table == "" || o.Now == nil {
		return nil, errors.New("store on DynamoDB: table and clock must be given")
	}
	if o.Random == nil {
		o.Random = rand.Reader
	}
	if o.Deadlines == nil {
		o.Deadlines = o.Now
	}
	client := dynamodb.NewFromConfig(o.Config, func(c *dynamodb.Options) {
		c.Retryer = newRetryer()
		c.RetryMaxAttempts = 0 // newRetryer's word counts, not the environment's
		c.HTTPClient = limited(o.Config.HTTPClient)
		if o.Endpoint != "" {
			c.BaseEndpoint = aws.String(o.Endpoint)
		}
	})
	c := &connection{client: client, table: aws.String(o.Table), deadlines: o.Deadlines}
	return &Store{notes: notes{c}, now: o.Now, random: o.Random, part: partBytes}, nil
}

// limited keeps what a client of the SDK was built with: AWS_CA_BUNDLE among others.
func limited(c aws.HTTPClient) aws.HTTPClient {
	if c == nil {
		c = awshttp.NewBuildableClient()
	}
	if b, ok := c.(*awshttp.BuildableClient); ok && b.GetTimeout() == 0 {
		return b.WithTimeout(attemptTimeout)
	}
	return c
}

// Ping returns nil when the table answers a read. It writes nothing.
func (s *Store) Ping(ctx context.Context) error {
	_, err := s.get(ctx, place{pk: []byte("ping"), sk: []byte("ping")})
	if err != nil {
		return fmt.Errorf("ping table %s: %w", *s.table, err)
	}
	return nil
}

// within is for each call: its tries end with the context's budget.
func (c *connection) within(ctx context.Context) func(*dynamodb.Options) {
	end, limited := ctx.Deadline()
	return func(o *dynamodb.Options) {
		if whole, ok := o.Retryer.(aws.RetryerV2); ok && limited {
			o.Retryer = untilDeadline{RetryerV2: whole, now: c.deadlines, end: end}
		}
	}
}

// writeNumber makes the number that a write is recognised by.
func (s *Store) writeNumber() ([]byte, error) {
	n := make([]byte, 16)
	if _, err := io.ReadFull(s.random, n); err != nil {
		return nil, fmt.Errorf("number a write: %w", err)
	}
	return n, nil
}

const (
	// maxAttempts and maxBackoff bound what a call can cost beyond its own time: with the pauses of the SDK, at most
	// four times a second.
	maxAttempts = 5
	maxBackoff  = time.Second
	// attemptTimeout is when a try that got no answer is given up for the next one; DynamoDB answers in milliseconds.
	attemptTimeout = 4 * time.Second
	// timeForAnother is what has to be left of a budget after a pause: a try, and the answer to the platform.
	timeForAnother = 250 * time.Millisecond
)

// newRetryer is the SDK's own, with its quota for all calls together. The adaptive mode stays off: it delays calls
// before anything was refused.
func newRetryer() aws.RetryerV2 {
	return retry.NewStandard(func(o *retry.StandardOptions) {
		o.MaxAttempts, o.MaxBackoff = maxAttempts, maxBackoff
	})
}

// untilDeadline gives up while there is time left to say so, instead of sleeping into the end of the call's context.
type untilDeadline struct {
	aws.RetryerV2
	now func() time.Time
	end time.Time
}

// RetryDelay returns the pause before the next try, or the fault when the deadline is too near for one.
func (d untilDeadline) RetryDelay(attempt int, fault error) (time.Duration, error) {
	pause, err := d.RetryerV2.RetryDelay(attempt, fault)
	if err != nil {
		return 0, err
	}
	if d.end.Sub(d.now()) <= pause+timeForAnother {
		return 0, fmt.Errorf("no time for another try: %w", fault)
	}
	return pause, nil
}
