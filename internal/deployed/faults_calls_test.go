package deployed

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/sfn"

	"github.com/ferry-broker/ferry/internal/broker"
	"github.com/ferry-broker/ferry/internal/osbtest"
)

const small = "postgres/small"

// callFaults disturb the calls of a function to AWS that are about one instance.
func callFaults() []testCase {
	return []testCase{
		{"a claim that is throttled once is made all the same", disturbed{putAction, fromAPI, 1, throttle, func(p platform, id, _ string) {
			if n := p.count(putAction, id, fromAPI); n != 2 {
				p.t.Errorf("%d writes were asked for, want 2", n)
			}
		}}.play},
		{"a claim whose answer was lost counts as won", disturbed{putAction, "", 1, lose, func(p platform, _, operation string) {
			if n := p.count(startAction, operation, ""); n != 1 {
				p.t.Errorf("%d executions were asked for, want one", n)
			}
		}}.play},
		{"an execution whose start was lost runs once", disturbed{startAction, "", 1, lose, oneExecution}.play},
		{"a tick throttled for a while goes on", disturbed{putAction, fromPoller, 7, throttle, oneExecution}.play},
		{"a poller that crashes is followed by another", disturbed{putAction, fromPoller, 2, crash, oneExecution}.play},
		{"a poller killed between its intent and the POST", disturbed{putAction, fromPoller, 1, killAfter, nil}.play},
		{"a claim that is throttled for long is refused with 503, and nothing is half done", func(t *testing.T, s *stack) { unwritable(t, s, throttle) }},
		{"a claim that fails for long is refused with 503, and nothing is half done", func(t *testing.T, s *stack) { unwritable(t, s, fail500) }},
		{"a create whose execution may not be started is driven by a round when it is due", func(t *testing.T, s *stack) { unstarted(t, s, refuse) }},
		{"a create whose execution is throttled is driven by a round", func(t *testing.T, s *stack) { unstarted(t, s, throttle) }},
		{"an api killed between claim and start", apiKilledAfterClaim},
		{"an api killed between start and answer", apiKilledAfterStart},
		{"an api killed while it holds a bind", apiKilledHolding},
		{"parameters leave the table once Cloud Foundry has taken them", parametersLeave},
	}
}

// disturbed is a create whose first calls of an action meet a fault, so many times. It is made all the same, and once.
type disturbed struct {
	action, from string
	times        int
	do           disturbance
	// check may look at what was called until the create has ended.
	check func(p platform, id, operation string)
}

func (d disturbed) play(t *testing.T, s *stack) {
	p := newPlatform(t, s).knows()
	id := p.NewID()
	o := p.order(d.action, id, d.from, 0, d.times, d.do)
	operation := p.Provision(id, small, "").Want(http.StatusAccepted).Operation()
	p.Succeeds(at(id), operation)
	if n := o.count(); n != d.times {
		t.Errorf("%d calls met the fault, want %d", n, d.times)
	}
	if d.check != nil {
		d.check(p, id, operation)
	}
	p.kept(id, small)
}

func oneExecution(p platform, _, operation string) {
	p.t.Helper()
	same(p.t, "executions", p.executions(operation), map[string]string{operation: "SUCCEEDED"})
}

// unwritable: the table takes no claim for longer than a request repeats it.
func unwritable(t *testing.T, s *stack, do disturbance) {
	p := newPlatform(t, s)
	id := p.NewID()
	o := p.order(putAction, id, "", 0, 0, do)
	refused := p.Provision(id, small, "").Want(http.StatusServiceUnavailable)
	if refused.RetryAfter() == 0 {
		t.Errorf("503 without Retry-After: %v", refused.Header)
	}
	if tries := o.count(); tries < 2 || tries > 5 {
		t.Errorf("the claim was sent %d times, want some, and not many", tries)
	}
	p.Fetch(at(id)).Want(http.StatusNotFound)
	if n := p.count(startAction, id, ""); n != 0 {
		t.Errorf("%d executions of what was never claimed", n)
	}
	p.NothingLeft(id)
	s.gate.lift(o)
	p.Succeeds(at(id), p.Provision(id, small, "").Want(http.StatusAccepted).Operation())
	p.kept(id, small)
}

// beginning is how long rounds leave a new operation to its execution.
const beginning = 20 * time.Second

// unstarted: the api cannot start the execution, and accepts the create all the same. Rounds leave it alone until it is
// due, for which nobody waits here: the record says when that is, and then that it is now.
func unstarted(t *testing.T, s *stack, do disturbance) {
	p := newPlatform(t, s).knows()
	id, began := p.NewID(), time.Now()
	o := p.order(startAction, id, fromAPI, 0, 0, do)
	operation := p.Provision(id, small, "").Want(http.StatusAccepted).Operation()
	if o.count() == 0 {
		t.Fatal("no start was disturbed")
	}
	if again := p.Provision(id, small, "").Want(http.StatusAccepted).Operation(); again != operation {
		t.Errorf("a duplicate has the operation %s, want %s", again, operation)
	}
	key := broker.Key{Client: p.Name, InstanceID: id}
	p.isDue(key, began, beginning)
	p.picksUp(key)
	p.driven(id, operation)
	p.Succeeds(at(id), operation)
	s.gate.lift(o)
	p.kept(id, small)
}

// isDue checks that rounds leave the operation that runs on a record alone for so long after it began.
func (p platform) isDue(key broker.Key, began time.Time, after time.Duration) {
	p.t.Helper()
	record, err := p.s.table(p.t).Get(p.t.Context(), key)
	if err != nil {
		p.t.Fatal(err)
	}
	if due := record.Lifecycle.Operation.Due; due.Before(began.Add(after)) || due.After(time.Now().Add(after)) {
		p.t.Errorf("it is due %s after its beginning, want %s", due.Sub(began), after)
	}
}

// executions returns the names that the state machine has had for an operation, with what became of them, once none
// runs any more.
func (p platform) executions(operation string) map[string]string {
	p.t.Helper()
	found := map[string]string{}
	p.Eventually("the executions end", func() bool {
		clear(found)
		for _, name := range []string{operation, operation + "-r1", operation + "-r2"} {
			arn := p.executionARN(name)
			if out, err := p.s.cloud.sfn.DescribeExecution(p.t.Context(), &sfn.DescribeExecutionInput{ExecutionArn: &arn}); err == nil {
				found[name] = string(out.Status)
			}
		}
		return !slices.Contains(slices.Collect(maps.Values(found)), "RUNNING")
	})
	return found
}

func apiKilledAfterClaim(t *testing.T, s *stack) {
	p := newPlatform(t, s).knows()
	id := p.NewID()
	p.order(putAction, id, fromAPI, 0, 1, killAfter)
	p.loses(at(id)+"?accepts_incomplete=true", p.InstanceBody(small, ""))
	operation := p.Provision(id, small, "").Want(http.StatusAccepted).Operation()
	if n := p.count(startAction, id, fromAPI); n != 0 {
		t.Errorf("a duplicate started %d executions", n)
	}
	p.picksUp(broker.Key{Client: p.Name, InstanceID: id})
	p.driven(id, operation)
	p.Succeeds(at(id), operation)
	p.kept(id, small)
}

func apiKilledAfterStart(t *testing.T, s *stack) {
	p := newPlatform(t, s).knows()
	id := p.NewID()
	p.order(startAction, id, fromAPI, 0, 1, killAfter)
	p.loses(at(id)+"?accepts_incomplete=true", p.InstanceBody("postgres/async", ""))
	operation := p.Provision(id, "postgres/async", "").Want(http.StatusAccepted).Operation()
	p.Succeeds(at(id), operation)
	oneExecution(p, id, operation)
	p.kept(id, "postgres/async")
}

// loses sends a PUT whose function is killed: the answer is anybody's, or there is none.
func (p platform) loses(path, body string) {
	p.t.Helper()
	if a, err := p.Try(p.t.Context(), http.MethodPut, path, body); err == nil && a.Status < 500 {
		p.t.Fatalf("PUT %s: %d, though the function was killed", path, a.Status)
	}
}

// apiKilledHolding kills the api once the key is asked for and before anybody knows the answer. The platform does what
// platforms do: it sends the same bind again.
func apiKilledHolding(t *testing.T, s *stack) {
	const plan = "postgres/async-bindings"
	p := newPlatform(t, s).knows()
	id, binding := p.Ready(plan, ""), p.NewID()
	o := p.order(putAction, binding, fromAPI, 2, 1, killBefore) // after claim and intent
	began := time.Now()
	p.loses(bindingAt(id, binding), p.InstanceBody(plan, ""))
	o.awaits(t, long)
	p.isDue(broker.Key{Client: p.Name, InstanceID: id, BindingID: binding}, began, requestBudget)
	var again osbtest.Answer
	p.Eventually("the bind succeeds", func() bool {
		again = p.Bind(id, binding, plan, "")
		return again.Status == http.StatusOK || again.Status == http.StatusCreated
	})
	if again.Credentials() == "" {
		t.Errorf("%s: no credentials", again.Request)
	}
	p.HasKeys(id, binding)
	p.AskedFor(1, "bind", id, binding)
	if n := p.count(startAction, binding, ""); n != 0 {
		t.Errorf("%d executions were asked for, want none: the request is held, and rounds follow it", n)
	}
	p.Eventually("the unbind succeeds", func() bool { return p.Unbind(id, binding, plan).Status == http.StatusGone })
	p.AskedFor(1, "unbind", id, binding)
	p.kept(id, plan)
}

// parametersLeave shows both: they are there while they are needed, so that the search at the end would find them, and
// then they are not.
func parametersLeave(t *testing.T, s *stack) {
	p := newPlatform(t, s)
	id := p.NewID()
	secret := "marked-until-accepted-" + id
	p.Disturb(osbtest.Fault{Match: secret, Page: "gorouter-503-no-endpoints"}.On("POST", osbtest.Instances, 1))
	op := p.Provision(id, small, fmt.Sprintf(`{"word":%q}`, secret)).Want(http.StatusAccepted).Operation()
	if !s.tableHolds(t, secret) {
		t.Error("parameters that Cloud Foundry has not taken are not in the table; can the search find them?")
	}
	p.Succeeds(at(id), op)
	if s.tableHolds(t, secret) {
		t.Error("parameters are still in the table")
	}
	p.Gone(id, small)
}
