package dynamo

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/ferry-broker/ferry/internal/broker"
	"github.com/ferry-broker/ferry/internal/lifecycle"
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

// newTable makes an empty table of the test's own and returns its name and a client to look into it with.
func newTable(t testing.TB) (string, *dynamodb.Client) {
	t.Helper()
	client := dynamodb.NewFromConfig(configFor(standIn.URL(t), nil))
	name := fmt.Sprintf("ferry-%d", tables.Add(1))
	_, err := client.CreateTable(t.Context(), standin.Table(name))
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

// line is the way to DynamoDB, as an HTTP client. It takes note of what goes by, and its hooks make it fail.
type line struct {
	// before returns an answer that the call gets instead of DynamoDB's; n counts the calls of the operation from 1.
	// nil goes on.
	before func(operation string, n int) *http.Response
	// lost says that DynamoDB does what it was asked to and its answer never arrives.
	lost func(operation string, n int) bool
	// metered asks for the capacity units of each write.
	metered bool

	next  *awshttp.BuildableClient
	mu    sync.Mutex
	calls []*call
}

// call is one try of one operation.
type call struct {
	operation  string
	consistent bool
	index      string
	units      float64
}

var errAnswerLost = errors.New("connection reset by peer")

// newLine uses a connection for each call: on one that it kept, the stand-in loses answers of its own accord, and calls
// could not be counted. The contract suite keeps its connections, and bears that.
func newLine() *line {
	return &line{next: awshttp.NewBuildableClient().WithTransportOptions(func(t *http.Transport) { t.DisableKeepAlives = true })}
}

// Do implements aws.HTTPClient.
func (l *line) Do(r *http.Request) (*http.Response, error) {
	c, n, err := l.note(r)
	if err != nil {
		return nil, err
	}
	if l.before != nil {
		if answer := l.before(c.operation, n); answer != nil {
			answer.Request = r
			return answer, nil
		}
	}
	answer, err := l.next.Do(r)
	if err == nil && l.metered && c.operation == "PutItem" {
		err = l.meter(c, answer)
	}
	if err == nil && l.lost != nil && l.lost(c.operation, n) {
		return nil, errors.Join(errAnswerLost, answer.Body.Close())
	}
	return answer, err
}

// note reads the request's body and puts another in its place.
func (l *line) note(r *http.Request) (*call, int, error) {
	asked := map[string]any{}
	body, err := io.ReadAll(r.Body)
	if err := errors.Join(err, json.Unmarshal(body, &asked)); err != nil {
		return nil, 0, err
	}
	if l.metered {
		asked["ReturnConsumedCapacity"] = "TOTAL"
		if body, err = json.Marshal(asked); err != nil {
			return nil, 0, err
		}
	}
	r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	_, operation, _ := strings.Cut(r.Header.Get("X-Amz-Target"), ".")
	c := &call{operation: operation, consistent: bytes.Contains(body, []byte(`"ConsistentRead":true`))}
	c.index, _ = asked["IndexName"].(string)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.calls = append(l.calls, c)
	n := 0
	for _, earlier := range l.calls {
		if earlier.operation == operation {
			n++
		}
	}
	return c, n, nil
}

func (l *line) meter(c *call, answer *http.Response) error {
	body, err := io.ReadAll(answer.Body)
	if err := errors.Join(err, answer.Body.Close()); err != nil {
		return err
	}
	answer.Body = io.NopCloser(bytes.NewReader(body))
	var told struct {
		ConsumedCapacity struct{ CapacityUnits float64 }
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	err = json.Unmarshal(body, &told)
	c.units = told.ConsumedCapacity.CapacityUnits
	return err
}

// drain returns the calls since the last drain.
func (l *line) drain() []*call {
	l.mu.Lock()
	defer l.mu.Unlock()
	calls := l.calls
	l.calls = nil
	return calls
}

// operations returns the names of the calls since the last drain.
func (l *line) operations() []string {
	var names []string
	for _, c := range l.drain() {
		names = append(names, c.operation)
	}
	return names
}

// refusal is an error of DynamoDB's.
func refusal(status int, code string) *http.Response {
	return answerOf(status, `{"__type":"com.amazonaws.dynamodb.v20120810#`+code+`","message":"as the test wants it"}`)
}

func answerOf(status int, body string) *http.Response {
	return &http.Response{
		StatusCode: status, Header: http.Header{"Content-Type": {"application/x-amz-json-1.0"}},
		Body: io.NopCloser(strings.NewReader(body)), ContentLength: int64(len(body)),
	}
}

// offline returns a line with nobody at its end: every call has to be answered by before.
func offline(t testing.TB, before func(operation string, n int) *http.Response) *line {
	t.Helper()
	return &line{before: func(operation string, n int) *http.Response {
		if answer := before(operation, n); answer != nil {
			return answer
		}
		t.Errorf("call %d of %s was not expected", n, operation)
		return refusal(http.StatusBadRequest, "ValidationException")
	}}
}

// epoch lies ahead, so that the stand-in's TTL has nothing to do.
var epoch = time.Date(2061, time.May, 4, 10, 20, 30, 400, time.UTC)

func atEpoch() time.Time { return epoch }

func keyOf(id string) broker.Key { return broker.Key{Client: "cluster-a", InstanceID: id} }

func ready(key broker.Key, token string) broker.Record {
	return broker.Record{Key: key, Token: token, Lifecycle: lifecycle.Record{Kind: key.Kind(), State: lifecycle.Ready, Seq: 1}}
}

const guid = "0b4ddf28-1a5c-4d2e-9a47-6f1a2b3c4d5e"

// claimed is a create as the broker claims it: everything as long as it is in life.
func claimed(key broker.Key) broker.Record {
	digest := strings.Repeat("d", 43)
	op := lifecycle.Operation{
		ID: "create-" + strings.Repeat("x", 26), Seq: 2881736430, Verb: lifecycle.Create, IDWasFree: true,
		Started: epoch, Deadline: epoch.Add(7 * 24 * time.Hour), Due: epoch.Add(2 * time.Minute),
	}
	return broker.Record{
		Key: key, Token: strings.Repeat("t", 26),
		Lifecycle: lifecycle.Record{
			Kind: key.Kind(), State: lifecycle.Creating, Seq: op.Seq, Operation: op,
			CreateOp: lifecycle.Reference{ID: op.ID, Seq: op.Seq},
		},
		Attributes: broker.Attributes{
			ServiceID: guid, PlanID: guid, OfferingName: "postgres", PlanGUID: guid, Parameters: digest, Owner: digest,
		},
		Salt:       []byte(strings.Repeat("s", 16)),
		Parameters: []byte(`{"size":"small","version":16}`),
		Context: []byte(`{"platform":"kubernetes","namespace":"team-blue","clusterid":"` + guid +
			`","instance_name":"my-database"}`),
		OriginatingIdentity: "kubernetes " + strings.Repeat("eyJ1c2Vy", 20),
	}
}

// running is the record between two looks of the poller; done when it ended.
func running(key broker.Key) broker.Record {
	r := claimed(key)
	r.Parameters = nil
	op := &r.Lifecycle.Operation
	op.Calls, op.Answered, op.Job, op.Due = 1, 1, guid, op.Due.Add(time.Minute)
	op.Lease = lifecycle.Lease{Holder: strings.Repeat("h", 26), Until: epoch.Add(time.Minute)}
	return r
}

func done(key broker.Key) broker.Record {
	r := running(key)
	l := &r.Lifecycle
	l.State, l.CFGUID, l.Operation.Lease = lifecycle.Ready, guid, lifecycle.Lease{}
	l.Finished = []lifecycle.Finished{{ID: l.Operation.ID, Verb: lifecycle.Create, Succeeded: true, EndedAt: epoch}}
	r.DashboardURL = "https://dashboard.example.org/" + guid
	return r
}

// noise is n bytes that do not compress, the same for the same seed.
func noise(seed uint64, n int) []byte {
	b := make([]byte, n)
	_, _ = rand.NewChaCha8([32]byte{byte(seed)}).Read(b) // it never fails
	return b
}

func catalogOf(seed uint64, n int) broker.StoredCatalog {
	return broker.StoredCatalog{Client: "cluster-a", Fetched: epoch, Body: noise(seed, n)}
}

// noiseOf reports whose noise it is, or that it is nobody's.
func noiseOf(b []byte, seeds uint64) (uint64, error) {
	for seed := range seeds {
		if bytes.Equal(b, noise(seed, len(b))) {
			return seed, nil
		}
	}
	return 0, fmt.Errorf("%d bytes that nobody wrote", len(b))
}
