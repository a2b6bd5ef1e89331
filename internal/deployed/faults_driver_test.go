package deployed

import (
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/sfn"
	"github.com/aws/aws-sdk-go-v2/service/sfn/types"

	"github.com/ferry-broker/ferry/internal/broker"
	"github.com/ferry-broker/ferry/internal/osbtest"
)

// driverFaults hit what drives an operation, at each write of its record.
func driverFaults() []testCase {
	return []testCase{
		{"a poller killed before its intent", func(t *testing.T, s *stack) { killedInCreate(t, s, 0, 0) }},
		{"a poller killed between the POST and its note", func(t *testing.T, s *stack) { killedInCreate(t, s, 1, 1) }},
		{"a poller killed within an update", killedInUpdate},
		{"a poller killed within a delete, after its intent", func(t *testing.T, s *stack) { killedInDelete(t, s, 0, killAfter) }},
		{"a poller killed within a delete, after the DELETE", func(t *testing.T, s *stack) { killedInDelete(t, s, 1, killBefore) }},
		{"an execution stopped by hand is followed by a round", stopped},
		{"executions and ticks beside each other do one thing", besideEachOther},
		{"a create while Cloud Foundry is away is accepted and done later", cloudAway},
		{"the client library of Kubernetes drives it", clientLibrary},
	}
}

// killedInCreate: the first tick of a create writes the intent with the open call, sends the POST, and notes the
// answer. A poller is killed at a write, with as many rows in Cloud Foundry as there are then.
func killedInCreate(t *testing.T, s *stack, skip, rows int) {
	p := newPlatform(t, s).knows()
	id := p.NewID()
	o := p.order(putAction, id, fromPoller, skip, 1, holdThenKill)
	operation := p.Provision(id, small, "").Want(http.StatusAccepted).Operation()
	o.awaits(t, long)
	if got := len(p.Rows(id)); got != rows {
		t.Errorf("Cloud Foundry has %d instances when the poller is killed, want %d", got, rows)
	}
	o.release()
	p.Succeeds(at(id), operation)
	p.kept(id, small)
}

// killedInUpdate kills one poller after its intent, and one after the PATCH.
func killedInUpdate(t *testing.T, s *stack) {
	p := newPlatform(t, s).knows()
	id := p.Ready(small, "")
	for skip, plan := range []string{"postgres/large", small} {
		o := p.order(putAction, id, fromPoller, skip, 1, []disturbance{killAfter, killBefore}[skip])
		p.Updated(id, small, `"plan_id":`+osbtest.Quoted(p.Plan(plan).PlanID))
		if o.count() != 1 {
			t.Errorf("%d pollers were killed, want one", o.count())
		}
		if row := p.Row(id); "postgres/"+row.Plan != plan {
			t.Errorf("the instance has the plan %s, want %s", row.Plan, plan)
		}
	}
	p.kept(id, small)
}

func killedInDelete(t *testing.T, s *stack, skip int, do disturbance) {
	p := newPlatform(t, s).knows()
	id := p.Ready(small, "")
	o := p.order(putAction, id, fromPoller, skip, 1, do)
	p.Succeeds(at(id), p.Deprovision(id, small).Want(http.StatusAccepted).Operation())
	if o.count() != 1 {
		t.Errorf("%d pollers were killed, want one", o.count())
	}
	p.gone(id, small)
}

func (p platform) executionARN(name string) string {
	return strings.Replace(p.s.outputs["StateMachineArn"], ":stateMachine:", ":execution:", 1) + ":" + name
}

// stopped stops the execution of a create that Cloud Foundry works on for longer than that execution lives.
func stopped(t *testing.T, s *stack) {
	p := newPlatform(t, s).knows()
	id := p.NewID()
	operation := p.Provision(id, stalls, "").Want(http.StatusAccepted).Operation()
	p.Eventually("Cloud Foundry has it", func() bool { return len(p.Rows(id)) == 1 })
	arn := p.executionARN(operation)
	if _, err := s.cloud.sfn.StopExecution(t.Context(), &sfn.StopExecutionInput{ExecutionArn: &arn}); err != nil {
		t.Fatal(err)
	}
	p.Eventually("what it was in the middle of has ended", func() bool { return p.quiet(arn) })
	p.Force(p.Row(id).GUID, "create", "succeeded", "COMPLETE")
	p.picksUp(broker.Key{Client: p.Name, InstanceID: id})
	p.driven(id, operation)
	p.Succeeds(at(id), operation)
	same(t, "executions", p.executions(operation), map[string]string{operation: "ABORTED"})
	p.kept(id, stalls)
}

// quiet reports whether a stopped execution has left the state that it was in: the stand-in, as AWS, lets the function
// go on that was called.
func (p platform) quiet(arn string) bool {
	p.t.Helper()
	events := p.history(arn)
	at := slices.IndexFunc(events, func(e types.HistoryEvent) bool { return e.Type == types.HistoryEventTypeExecutionAborted })
	return at >= 0 && slices.ContainsFunc(events[at:], func(e types.HistoryEvent) bool {
		return strings.HasSuffix(string(e.Type), "StateExited")
	})
}

// besideEachOther lets two more executions and some ticks by hand drive what the state machine drives.
func besideEachOther(t *testing.T, s *stack) {
	p := newPlatform(t, s)
	id := p.NewID()
	operation := p.Provision(id, "postgres/async", "").Want(http.StatusAccepted).Operation()
	input := p.tick(id, operation)
	for _, name := range []string{operation + "-by-hand-1", operation + "-by-hand-2"} {
		_, err := s.cloud.sfn.StartExecution(t.Context(), &sfn.StartExecutionInput{
			StateMachineArn: new(s.outputs["StateMachineArn"]), Name: new(name), Input: &input,
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	var ticks sync.WaitGroup
	for range 4 {
		ticks.Go(func() {
			for range 3 {
				p.poller(input)
			}
		})
	}
	ticks.Wait()
	p.Succeeds(at(id), operation)
	p.kept(id, "postgres/async")
}

// poller calls the poller past the state machine. On a loaded machine a new process may not get its configuration in
// time, for which the state machine would repeat it.
func (p platform) poller(input string) {
	p.t.Helper()
	said, failed := p.s.cloud.invoke(p.t, p.s.outputs["PollerFunctionName"], input)
	if failed != "" && !strings.Contains(said, `"NoConfiguration"`) {
		p.t.Errorf("a tick by hand: %s %s", failed, said)
	}
}

// cloudAway disturbs the calls about one instance: the fault is taken away again by its hits, since clearing it would
// clear everybody's.
func cloudAway(t *testing.T, s *stack) {
	p := newPlatform(t, s)
	id := p.NewID()
	p.Disturb(osbtest.Fault{Match: id, Page: "gorouter-502"}.On("*", "*", 3))
	p.Succeeds(at(id), p.Provision(id, small, "").Want(http.StatusAccepted).Operation())
	p.kept(id, small)
}
