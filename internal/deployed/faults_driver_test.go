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
)

func (p storm) executionARN(name string) string {
	return strings.Replace(p.s.outputs["StateMachineArn"], ":stateMachine:", ":execution:", 1) + ":" + name
}

// caseStopped stops the execution of a create that Cloud Foundry works on for longer
// than that execution lives.
func caseStopped(t *testing.T, s *stack) {
	const plan = "faults/create-stalls"
	p := newStorm(t, s)
	id := p.newID()
	operation := p.put(id, plan, "").want(t, http.StatusAccepted).operation()
	p.until(long, "Cloud Foundry has it", func() bool { return len(s.sim.rows(p.platform, id)) == 1 })
	arn := p.executionARN(operation)
	if _, err := s.cloud.sfn.StopExecution(t.Context(), &sfn.StopExecutionInput{ExecutionArn: &arn}); err != nil {
		t.Fatal(err)
	}
	p.until(long, "what it was in the middle of has ended", func() bool { return p.quiet(arn) })
	s.sim.control(t, http.MethodPatch, "instances/"+s.sim.row(p.platform, id).GUID,
		`{"last_operation":{"type":"create","state":"succeeded","description":""},"job":"COMPLETE"}`, nil)
	if a := p.poll(at(id), operation); a.text("state") != "in progress" {
		t.Errorf("nobody drives it, and yet: %s", a.body)
	}
	p.picksUp(broker.Key{Client: p.name, InstanceID: id})
	p.restarted(operation)
	p.gets("succeeded", at(id), operation)
	same(t, "executions", p.executions(operation), map[string]string{operation: "ABORTED", operation + "-r1": "SUCCEEDED"})
	p.kept(id, plan)
}

// quiet reports whether a stopped execution has left the state that it was in: the
// stand-in, as AWS, lets the function go on that was called.
func (p storm) quiet(arn string) bool {
	p.t.Helper()
	out, err := p.s.cloud.sfn.GetExecutionHistory(p.t.Context(), &sfn.GetExecutionHistoryInput{ExecutionArn: &arn, MaxResults: 1000})
	if err != nil {
		p.t.Fatal(err)
	}
	at := slices.IndexFunc(out.Events, func(e types.HistoryEvent) bool { return e.Type == types.HistoryEventTypeExecutionAborted })
	return at >= 0 && slices.ContainsFunc(out.Events[at:], func(e types.HistoryEvent) bool {
		return strings.HasSuffix(string(e.Type), "StateExited")
	})
}

// caseBesideEachOther lets two more executions and some ticks by hand drive what the
// state machine drives.
func caseBesideEachOther(t *testing.T, s *stack) {
	p := newStorm(t, s)
	id := p.newID()
	operation := p.put(id, "postgres/async", "").want(t, http.StatusAccepted).operation()
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
	p.gets("succeeded", at(id), operation)
	p.kept(id, "postgres/async")
}

// poller calls the poller past the state machine. On a loaded machine a new process
// may not get its configuration in time, for which the state machine would repeat it.
func (p storm) poller(input string) {
	p.t.Helper()
	said, failed := p.s.cloud.invoke(p.t, p.s.outputs["PollerFunctionName"], input)
	if failed != "" && !strings.Contains(said, `"NoConfiguration"`) {
		p.t.Errorf("a tick by hand: %s %s", failed, said)
	}
}
