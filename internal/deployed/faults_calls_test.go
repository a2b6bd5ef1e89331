package deployed

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/ferry-broker/ferry/internal/broker"
	"github.com/ferry-broker/ferry/internal/sfn"
)

// faultCases may run beside each other: what they disturb is about their own ids.
func faultCases() []testCase {
	return []testCase{
		{"a claim that is throttled once is made all the same", caseThrottledOnce},
		{"a claim that is throttled for long is refused with 503, and nothing is half done", caseThrottled},
		{"a claim that fails for long is refused with 503, and nothing is half done", caseStoreFails},
		{"a claim whose answer was lost counts as won", caseClaimLost},
		{"an execution that may not be started is started by the janitor", caseStartRefused},
		{"an execution that is throttled is started by the janitor", caseStartThrottled},
		{"an execution whose start was lost runs once", caseStartLost},
		{"a tick throttled for a while goes on", caseTickThrottled},
		{"a poller that crashes is followed by another", casePollerCrashes},
		{"a poller killed before its intent", casePollerKilledBeforeIntent},
		{"a poller killed between its intent and the POST", casePollerKilledBeforePost},
		{"a poller killed between the POST and its note", casePollerKilledBeforeNote},
		{"a poller killed within an update", casePollerKilledInUpdate},
		{"a poller killed within a delete", casePollerKilledInDelete},
		{"an api killed between claim and start", caseAPIKilledAfterClaim},
		{"an api killed between start and answer", caseAPIKilledAfterStart},
		{"an api killed while it holds a bind", caseAPIKilledHolding},
		{"an execution stopped by hand is followed by the janitor's", caseStopped},
		{"executions and ticks beside each other do one thing", caseBesideEachOther},
		{"a create while Cloud Foundry is away is accepted and done later", caseCloudAway},
	}
}

// aloneCases disturb everybody.
func aloneCases() []testCase {
	return []testCase{
		{"Cloud Foundry answers nothing at all for a while", caseCloudDown},
		{"a secret that cannot be read any more", caseSecretUnreadable},
		{"a secret with a text that is no configuration", caseSecretWrong},
		{"a password that is rotated", caseSecretRotated},
		{"roles that are too narrow", caseRolesTooNarrow},
		{"a resource that is another one", caseOtherResource},
	}
}

const (
	putAction    = "DynamoDB.PutItem"
	startAction  = "StepFunctions.StartExecution"
	secretAction = "SecretsManager.GetSecretValue"

	fromAPI    = "ApiFunction"
	fromPoller = "PollerFunction"

	// long is how long an operation may take that a dead driver's lease, or the
	// janitor, has to be waited for.
	long = 4 * time.Minute
	// overdueAfter is how long the janitor leaves a new operation to its workflow.
	overdueAfter = 2 * time.Minute
)

// storm is one platform on the stack of one case.
type storm struct {
	platform
	s *stack
	// left are instances that clear takes away.
	left *[]string
}

func newStorm(t *testing.T, s *stack) storm {
	t.Helper()
	return storm{s.platform(t, "stormy"), s, new([]string)}
}

// in is the same platform in a subtest.
func (p storm) in(t *testing.T) storm {
	p.t = t
	return p
}

// order orders a fault for calls about an id.
func (p storm) order(action, about, from string, skip, times int, do deed) *ordered {
	p.t.Helper()
	return p.s.gate.order(p.t, fault{Action: action, About: about, From: from, Skip: skip, Times: times, Do: do})
}

// until polls at the pace of a platform, and ends the test after limit.
func (p storm) until(limit time.Duration, what string, holds func() bool) {
	p.t.Helper()
	deadline, tick := time.NewTimer(limit), time.NewTicker(500*time.Millisecond)
	defer deadline.Stop()
	defer tick.Stop()
	for !holds() {
		select {
		case <-tick.C:
		case <-deadline.C:
			p.t.Fatalf("it did not come true in %s: %s", limit, what)
		}
	}
}

// gets polls an operation to its end, however long it takes.
func (p storm) gets(state, path, operation string) {
	p.t.Helper()
	var a answer
	p.until(long, operation+" ends", func() bool {
		a = p.poll(path, operation)
		return a.status != http.StatusOK || a.text("state") != "in progress"
	})
	if a.text("state") != state {
		p.t.Fatalf("%s of %s: %d %s, want %s", operation, path, a.status, a.body, state)
	}
}

// overdue waits until the janitor has started the operation again when it is due, and
// not before; the schedule may be quicker than we are.
func (p storm) overdue(operation string) {
	p.t.Helper()
	began := time.Now()
	p.until(long, "the janitor starts "+operation, func() bool {
		if time.Since(began) > overdueAfter {
			p.janitor()
		}
		return p.count(startAction, operation+"-r1", "") > 0
	})
	if took := time.Since(began); took < overdueAfter-5*time.Second {
		p.t.Errorf("%s was started again after %s, want %s", operation, took, overdueAfter)
	}
	p.restarted(operation)
}

// restarted checks that the janitor has started the operation again, once.
func (p storm) restarted(operation string) {
	p.t.Helper()
	p.until(long, "the janitor starts "+operation, func() bool { return p.count(startAction, operation+"-r1", "") > 0 })
	if n := p.count(startAction, operation+"-r1", "JanitorFunction"); n != 1 {
		p.t.Errorf("the janitor started %s %d times again, want once", operation, n)
	}
}

func (p storm) janitor() {
	p.t.Helper()
	if answer, failed := p.s.cloud.invoke(p.t, p.s.outputs["JanitorFunctionName"], `{"task":"round"}`); failed != "" {
		p.t.Logf("the janitor: %s %s", failed, answer)
	}
}

// kept checks the promise: one thing in Cloud Foundry, made once and right answers
// about it; then takes it away and checks that nothing is left.
func (p storm) kept(id, plan string) {
	p.t.Helper()
	p.made(id, plan)
	p.gets("succeeded", at(id), p.delete(id, plan).want(p.t, http.StatusAccepted).operation())
	p.gone(id, plan)
}

func (p storm) made(id, plan string) {
	p.t.Helper()
	p.put(id, plan, "").want(p.t, http.StatusOK)
	if row := p.s.sim.row(p.platform, id); row.Annotations["ferry-operation"] == "" {
		p.t.Errorf("the instance has no mark: %v", row.Annotations)
	}
	p.s.sim.askedOnce(p.platform, "provision", id, "")
}

// leave is the first half of kept; clear is the second, for all that were left.
func (p storm) leave(id string) {
	p.t.Helper()
	p.made(id, small)
	*p.left = append(*p.left, id)
}

func (p storm) clear() {
	p.t.Helper()
	operations := map[string]string{}
	for _, id := range *p.left {
		operations[id] = p.delete(id, small).want(p.t, http.StatusAccepted).operation()
	}
	for id, operation := range operations {
		p.gets("succeeded", at(id), operation)
		p.gone(id, small)
	}
}

// gone checks that a delete has left nothing.
func (p storm) gone(id, plan string) {
	p.t.Helper()
	p.delete(id, plan).want(p.t, http.StatusGone)
	p.s.sim.nothingLeft(p.platform, id)
	p.s.sim.askedOnce(p.platform, "deprovision", id, "")
}

// count is how often an action was asked about an id by a function.
func (p storm) count(action, about, from string) int {
	n := 0
	for _, c := range p.s.gate.calls(about) {
		if c.Action == action && strings.Contains(c.From, from) {
			n++
		}
	}
	return n
}

// knows ends the test early, on systems where nobody can tell who sent a call.
func (p storm) knows() storm {
	p.t.Helper()
	requireProcesses(p.t)
	return p
}

// roughly sends a request whose answer may be anybody's: the function may be dead.
func (p storm) roughly(method, path, body string) int {
	p.t.Helper()
	req, err := http.NewRequest(method, p.url+path, strings.NewReader(body))
	if err != nil {
		p.t.Fatal(err)
	}
	req.SetBasicAuth(p.user, p.token)
	req.Header.Set("X-Broker-API-Version", "2.17")
	req.Header.Set("Content-Type", "application/json")
	resp, err := p.http.Do(req)
	if err != nil {
		return 0
	}
	defer func() { _ = resp.Body.Close() }()
	_, _ = io.Copy(io.Discard, resp.Body)
	return resp.StatusCode
}

// tick is the input of the poller for an operation of an instance.
func (p storm) tick(id, operation string) string {
	p.t.Helper()
	text, err := json.Marshal(sfn.NewTick(broker.Start{Key: broker.Key{Client: p.name, InstanceID: id}, Operation: operation}))
	if err != nil {
		p.t.Fatal(err)
	}
	return string(text)
}
