package deployed

import (
	"encoding/json"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ferry-broker/ferry/internal/broker"
	"github.com/ferry-broker/ferry/internal/osbtest"
	"github.com/ferry-broker/ferry/internal/sfn"
)

const (
	putAction    = "DynamoDB.PutItem"
	startAction  = "StepFunctions.StartExecution"
	secretAction = "SecretsManager.GetSecretValue"

	fromAPI     = "ApiFunction"
	fromPoller  = "PollerFunction"
	fromJanitor = "JanitorFunction"
)

// long is how long an operation may take that a dead driver's lease, or a round, has to be waited for.
const long = 4 * time.Minute

// platform is a platform of the stack in one case.
type platform struct {
	osbtest.Tenant
	t *testing.T
	s *stack
	// checks are what is seen at the end of a case (afterwards).
	checks *checks
}

type checks struct {
	mu  sync.Mutex
	all []func(platform)
}

func newPlatform(t *testing.T, s *stack) platform {
	t.Helper()
	p := platform{s.tenant(t, "stormy"), t, s, &checks{}}
	p.Client.Clock.Patience = long
	return p
}

// in is the same platform in a subtest.
func (p platform) in(t *testing.T) platform {
	p.t, p.Tenant = t, p.Tenant.In(t)
	return p
}

// afterwards leaves a check to the end of the case, when its operation has had its time.
func (p platform) afterwards(check func(platform)) {
	p.checks.mu.Lock()
	defer p.checks.mu.Unlock()
	p.checks.all = append(p.checks.all, check)
}

// finish makes the checks that were left to the end, beside each other.
func (p platform) finish() {
	var all sync.WaitGroup
	for _, check := range p.checks.all {
		all.Go(func() { p.t.Run("all goes on", func(t *testing.T) { check(p.in(t)) }) })
	}
	all.Wait()
}

// order orders a fault for calls about an id.
func (p platform) order(action, about, from string, skip, times int, do disturbance) *ordered {
	p.t.Helper()
	return p.s.gate.order(p.t, fault{Action: action, About: about, From: from, Skip: skip, Times: times, Do: do})
}

// driven checks that a round drives the operation of an instance, and starts no execution for it.
func (p platform) driven(id, operation string) {
	p.t.Helper()
	p.Eventually("a round drives "+operation, func() bool { return p.count(putAction, id, fromJanitor) > 0 })
	if n := p.count(startAction, operation+"-r1", ""); n != 0 {
		p.t.Errorf("%s was started again %d times, want never", operation, n)
	}
}

// beginRound begins one beside those of the schedule, and does not wait for its end: it goes on for most of a minute
// while anything runs.
func (p platform) beginRound() {
	p.t.Helper()
	p.s.cloud.begin(p.t, p.s.outputs["JanitorFunctionName"], `{"task":"round"}`)
}

// janitor begins a round unless one is at it that looks again in a moment.
func (p platform) janitor() {
	p.t.Helper()
	note, err := p.s.table(p.t).LastRound(p.t.Context())
	if err != nil {
		p.t.Fatal(err)
	}
	if !note.Repeats || time.Since(note.Began) > broker.RoundTime-looksEvery {
		p.beginRound()
	}
}

// kept checks the promise: one thing in Cloud Foundry, made once and right answers about it; then takes it away and
// checks that nothing is left.
func (p platform) kept(id, plan string) {
	p.t.Helper()
	p.Provision(id, plan, "").Want(http.StatusOK)
	if row := p.Row(id); row.Annotations["ferry-operation"] == "" {
		p.t.Errorf("the instance has no mark: %v", row.Annotations)
	}
	p.AskedFor(1, "provision", id, "")
	p.Deleted(id, plan)
	p.gone(id, plan)
}

// gone checks that a delete has left nothing.
func (p platform) gone(id, plan string) {
	p.t.Helper()
	p.Deprovision(id, plan).Want(http.StatusGone)
	p.NothingLeft(id)
	p.AskedFor(1, "deprovision", id, "")
}

// count is how often an action was asked about an id by a function.
func (p platform) count(action, about, from string) int {
	n := 0
	for _, c := range p.s.gate.calls(about) {
		if c.Action == action && strings.Contains(c.From, from) {
			n++
		}
	}
	return n
}

// knows ends the test early, on systems where nobody can tell who sent a call.
func (p platform) knows() platform {
	p.t.Helper()
	requireProcesses(p.t)
	return p
}

// tick is the input of the poller for an operation of an instance.
func (p platform) tick(id, operation string) string {
	p.t.Helper()
	text, err := json.Marshal(sfn.NewTick(broker.Start{Key: broker.Key{Client: p.Name, InstanceID: id}, Operation: operation}))
	if err != nil {
		p.t.Fatal(err)
	}
	return string(text)
}
