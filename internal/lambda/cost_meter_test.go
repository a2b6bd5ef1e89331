package lambda

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
)

// meter is the way to AWS, as an HTTP client: it counts what goes by, passes on what is
// for DynamoDB and Secrets Manager, and is Step Functions itself.
type meter struct {
	next  *awshttp.BuildableClient
	clock *clock

	mu     sync.Mutex
	counts tally
	// items are DynamoDB's, as they were written by here.
	items map[string]attributes
	// executions were started or stopped.
	executions []order
	// away is the time that was spent outside of the functions.
	away time.Duration
}

// newMeter uses a connection for each call: on one that it kept, the stand-in loses
// answers of its own accord, and the SDK's repetitions would be counted.
func newMeter(c *clock) *meter {
	return &meter{
		clock: c, counts: newTally(), items: map[string]attributes{},
		next: awshttp.NewBuildableClient().WithTransportOptions(func(t *http.Transport) { t.DisableKeepAlives = true }),
	}
}

// question and reply are what the meter reads of DynamoDB's protocol.
type (
	question struct {
		Item, Key      attributes
		ConsistentRead bool
		IndexName      string
	}
	reply struct {
		Item  attributes
		Items []attributes
		Type  string `json:"__type"`
	}
)

// Do implements aws.HTTPClient.
func (m *meter) Do(r *http.Request) (*http.Response, error) {
	began := time.Now()
	defer func() { m.elsewhere(time.Since(began)) }()
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	service, operation, _ := strings.Cut(r.Header.Get("X-Amz-Target"), ".")
	if service == "AWSStepFunctions" {
		return m.execute(r, operation, body), nil
	}
	answer, err := m.next.Do(r)
	if err != nil {
		return nil, err
	}
	content, err := io.ReadAll(answer.Body)
	if err := errors.Join(err, answer.Body.Close()); err != nil {
		return nil, err
	}
	answer.Body = io.NopCloser(bytes.NewReader(content))
	if strings.HasPrefix(service, "DynamoDB") {
		return answer, m.item(operation, body, content)
	}
	m.count(operation)
	return answer, nil
}

func (m *meter) elsewhere(d time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.away += d
}

// count counts a call and lets the time pass that it is taken to need.
func (m *meter) count(name string) {
	m.clock.pass(assumed()[name])
	m.mu.Lock()
	defer m.mu.Unlock()
	m.counts.calls[name]++
}

// assumed is how long calls take on the way there and back. None of it was measured on
// AWS; docs/aws-cost.md says so.
func assumed() map[string]time.Duration {
	return map[string]time.Duration{
		"GetItem": 5 * time.Millisecond, "PutItem": 5 * time.Millisecond, "PutItem refused": 5 * time.Millisecond,
		"Query": 5 * time.Millisecond, "DeleteItem": 5 * time.Millisecond,
		"StartExecution": 30 * time.Millisecond, "StopExecution": 30 * time.Millisecond, "GetSecretValue": 30 * time.Millisecond,
		"CF call": 150 * time.Millisecond, "CF login": 150 * time.Millisecond,
		own: 10 * time.Millisecond,
	}
}

// own is what an invocation takes beside its calls.
const own = "our own code"

// order is what Step Functions was asked to do.
type order struct {
	operation string
	body      []byte
	at        time.Time
}

// execute takes an order.
func (m *meter) execute(r *http.Request, operation string, body []byte) *http.Response {
	m.count(operation)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.executions = append(m.executions, order{operation, body, m.clock.now()})
	const answer = `{"executionArn":"arn:aws:states:us-east-1:123456789012:execution:ferry-operation:x","startDate":1767225600,"stopDate":1767225600}`
	return &http.Response{
		StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/x-amz-json-1.0"}},
		Body: io.NopCloser(strings.NewReader(answer)), ContentLength: int64(len(answer)), Request: r,
	}
}

// item counts a call of DynamoDB and its units. What it knows of items it saw being
// written: no answer says how large the item is that refused a write.
func (m *meter) item(operation string, body, content []byte) error {
	var q question
	var a reply
	if err := errors.Join(json.Unmarshal(body, &q), json.Unmarshal(content, &a)); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	switch old := m.items[q.Item.key()]; {
	case operation == "GetItem":
		m.counts.reads += units(a.Item.size(), readUnit)
	case operation == "Query":
		m.counts.reads += queryUnits(a.Items, q.ConsistentRead)
	case operation == "PutItem" && strings.HasSuffix(a.Type, "ConditionalCheckFailedException"):
		m.counts.writes += units(old.size(), writeUnit)
		operation += " refused"
	case operation == "PutItem" && a.Type == "":
		m.counts.writes += writeUnits(old, q.Item)
		m.items[q.Item.key()] = q.Item
	case operation == "DeleteItem":
		m.counts.writes += writeUnits(m.items[q.Key.key()], nil)
		delete(m.items, q.Key.key())
	}
	m.counts.calls[operation]++
	m.clock.pass(assumed()[operation])
	return nil
}

// take returns what was counted since the last take.
func (m *meter) take() tally {
	m.mu.Lock()
	defer m.mu.Unlock()
	t := m.counts
	m.counts = newTally()
	return t
}

// invoked counts an invocation and the time that it is billed for, in whole
// milliseconds as Lambda does.
func (m *meter) invoked(name string, billed time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.counts.invoked[name]++
	billed = (billed + time.Millisecond - 1).Truncate(time.Millisecond)
	m.counts.billed[name] += billed
	if name == "poller" {
		m.counts.longest = max(m.counts.longest, billed)
	}
}

// enter counts a state that an execution entered.
func (m *meter) enter() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.counts.entered++
}

// spent is the time that was spent outside of the functions.
func (m *meter) spent() time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.away
}

// orders returns those since the last call.
func (m *meter) orders() []order {
	m.mu.Lock()
	defer m.mu.Unlock()
	all := m.executions
	m.executions = nil
	return all
}

// weights are the sizes of instances' and bindings' records, the heaviest of each.
func (m *meter) weights() (instance, binding int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, it := range m.items {
		switch sort, _ := base64.StdEncoding.DecodeString(it["sk"]["B"]); {
		case string(sort) == "instance":
			instance = max(instance, it.size())
		case strings.HasPrefix(string(sort), "binding"):
			binding = max(binding, it.size())
		}
	}
	return instance, binding
}
