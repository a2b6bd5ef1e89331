package dynamo

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
)

// line is the way to DynamoDB, as an HTTP client. It takes note of what goes by, and
// its hooks make it fail.
type line struct {
	// before returns an answer that the call gets instead of DynamoDB's; n counts the
	// calls of the operation from 1. nil goes on.
	before func(operation string, n int) *http.Response
	// lost says that DynamoDB does what it was asked to and its answer never arrives.
	lost func(operation string, n int) bool
	// metered asks for the capacity units of each call.
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

// newLine uses a connection for each call: on one that it kept, the stand-in loses
// answers of its own accord, and calls could not be counted. The contract suite keeps
// its connections, and bears that.
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
	if err == nil && l.metered {
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
	c := &call{operation: operation, consistent: asked["ConsistentRead"] == true}
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
