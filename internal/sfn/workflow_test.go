package sfn

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/google/go-cmp/cmp"

	"github.com/ferry-broker/ferry/internal/broker"
)

const machine = "arn:aws:states:eu-central-1:123456789012:stateMachine:ferry-operation"

// reply is one answer of the fake Step Functions; the last one is repeated.
type reply struct {
	status int
	body   string
}

func started() reply {
	return reply{200, `{"executionArn":"arn:aws:states:eu-central-1:123456789012:execution:ferry-operation:x","startDate":1767225600}`}
}

func fault(status int, kind string) reply {
	return reply{status, `{"__type":"` + kind + `","message":"no"}`}
}

// transport is one that answers by itself and keeps what was sent.
type transport struct {
	mu      sync.Mutex
	replies []reply
	sent    []map[string]string
	hang    bool
	// ends is when the context of each request that hung was to end.
	ends []time.Time
}

func (w *transport) RoundTrip(r *http.Request) (*http.Response, error) {
	if w.hang {
		deadline, _ := r.Context().Deadline()
		w.mu.Lock()
		w.ends = append(w.ends, deadline)
		w.mu.Unlock()
		<-r.Context().Done()
		return nil, r.Context().Err()
	}
	var body map[string]string
	if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
		return nil, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.sent = append(w.sent, body)
	answer := w.replies[min(len(w.sent), len(w.replies))-1]
	return &http.Response{
		StatusCode: answer.status, Header: http.Header{"Content-Type": {"application/x-amz-json-1.0"}},
		Body: io.NopCloser(strings.NewReader(answer.body)), Request: r,
	}, nil
}

func newWorkflow(w *transport, timeout time.Duration) *Workflow {
	return New(Options{StateMachine: machine, Timeout: timeout, Config: aws.Config{
		Region: "eu-central-1", HTTPClient: &http.Client{Transport: w},
		Credentials: aws.CredentialsProviderFunc(fakeCredentials),
	}})
}

func start() broker.Start {
	return broker.Start{Key: broker.Key{Client: "a", InstanceID: "i-1"}, Operation: "create-0f"}
}

func TestStart(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		replies []reply
		calls   int
		fails   string
	}{
		"a start is a start": {[]reply{started()}, 1, ""},
		"the same again, while it runs, answers with its ARN": {[]reply{started(), started()}, 1, ""},
		"an execution that exists already was started":        {[]reply{fault(400, "ExecutionAlreadyExists")}, 1, ""},
		"a throttled start is repeated":                       {[]reply{fault(400, "ThrottlingException"), started()}, 2, ""},
		"a repeated start may find its own execution":         {[]reply{fault(500, "InternalFailure"), fault(400, "ExecutionAlreadyExists")}, 2, ""},
		"throttled for good is an error":                      {[]reply{fault(400, "ThrottlingException")}, 3, "ThrottlingException"},
		"a role that is too narrow is an error, asked once":   {[]reply{fault(400, "AccessDeniedException")}, 1, "AccessDeniedException"},
		"so is a state machine that is gone":                  {[]reply{fault(400, "StateMachineDoesNotExist")}, 1, "StateMachineDoesNotExist"},
		"so are too many open executions":                     {[]reply{fault(400, "ExecutionLimitExceeded")}, 1, "ExecutionLimitExceeded"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := &transport{replies: test.replies}
			err := newWorkflow(w, time.Minute).Start(t.Context(), start())
			if (err == nil) != (test.fails == "") || err != nil && !strings.Contains(err.Error(), test.fails) {
				t.Errorf("error %v, want %q", err, test.fails)
			}
			if err != nil && !strings.Contains(err.Error(), "create-0f") {
				t.Errorf("%q does not name the execution", err)
			}
			if len(w.sent) != test.calls {
				t.Errorf("%d calls, want %d", len(w.sent), test.calls)
			}
		})
	}
}

func TestStartSendsIdsAndTheFirstWaitOnly(t *testing.T) {
	t.Parallel()
	w := &transport{replies: []reply{started()}}
	s := broker.Start{
		Key:       broker.Key{Client: "a", InstanceID: "i/1\xff", BindingID: "b 1"},
		Operation: "create-0f", Restart: 2, Delay: 26*time.Second + time.Millisecond,
	}
	if err := newWorkflow(w, time.Minute).Start(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	want := []map[string]string{{
		"stateMachineArn": machine, "name": "create-0f-r2",
		"input": `{"client":"a","instance_id":"i%2F1%FF","binding_id":"b%201","operation":"create-0f","wait_seconds":27,"turn":0,"done":false,"swept":true,"handed_over":false}`,
	}}
	if diff := cmp.Diff(want, w.sent); diff != "" {
		t.Errorf("sent (-want +got):\n%s", diff)
	}
}

func TestStartGivesUpInTime(t *testing.T) {
	t.Parallel()
	err := newWorkflow(&transport{hang: true}, 20*time.Millisecond).Start(t.Context(), start())
	if err == nil {
		t.Error("a Step Functions that never answers was taken for one that did")
	}
}

func TestExecutionName(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("o", 64)
	tests := map[string]struct {
		operation string
		restart   int
		want      string
	}{
		"the operation itself":                  {"create-0f", 0, "create-0f"},
		"a restart has a name of its own":       {"create-0f", 1, "create-0f-r1"},
		"the longest operation can restart":     {long, 1_000_000, long + "-r1000000"},
		"81 characters are too many":            {strings.Repeat("o", 81), 0, ""},
		"an empty one is none":                  {"", 0, ""},
		"a space does not fit":                  {"create 0f", 0, ""},
		"a slash does not fit":                  {"create/0f", 0, ""},
		"a colon does not fit":                  {"create:0f", 0, ""},
		"a control character does not fit":      {"create\x00", 0, ""},
		"a line end does not hide at the end":   {"create-0f\n", 0, ""},
		"letters outside of ASCII do not fit":   {"créate", 0, ""},
		"what only AWS would take does not fit": {"create.0f", 0, ""},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := executionName(test.operation, test.restart)
			if got != test.want || errors.Is(err, ErrName) != (test.want == "") {
				t.Errorf("%q, %v; want %q", got, err, test.want)
			}
		})
	}
}

func TestABadNameIsNotSent(t *testing.T) {
	t.Parallel()
	w := &transport{replies: []reply{started()}}
	s := start()
	s.Operation = "create/0f"
	if err := newWorkflow(w, time.Minute).Start(t.Context(), s); !errors.Is(err, ErrName) {
		t.Errorf("error %v, want ErrName", err)
	}
	if len(w.sent) > 0 {
		t.Errorf("sent %v", w.sent)
	}
}
