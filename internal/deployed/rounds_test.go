package deployed

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/sfn"
	"github.com/aws/aws-sdk-go-v2/service/sfn/types"

	"github.com/ferry-broker/ferry/internal/broker"
)

// stalls is a plan whose creates work until a test ends them.
const stalls = "faults/create-stalls"

// roundFaults are about the janitor's rounds, and about how executions leave operations to them.
func roundFaults() []testCase {
	return []testCase{
		{"a round killed between what it read and its first write, and one between its intent and the POST", killedRounds},
		{"two rounds at once do one thing", twoRounds},
		{"an operation that takes longer is handed over, and a round ends it", handedOver},
		{"an execution of an earlier version goes on until its operation has ended", earlierExecution},
	}
}

// waiting is a create that nobody drives: its execution was not started.
type waiting struct {
	broker.Key
	plan, operation string
}

func (p platform) waits(plan string) waiting {
	p.t.Helper()
	w := waiting{Key: broker.Key{Client: p.Name, InstanceID: p.NewID()}, plan: plan}
	o := p.order(startAction, w.InstanceID, fromAPI, 0, 0, refuse)
	defer p.s.gate.lift(o)
	w.operation = p.Provision(w.InstanceID, plan, "").Want(http.StatusAccepted).Operation()
	if o.count() == 0 {
		p.t.Fatal("no start was disturbed")
	}
	return w
}

// areDriven checks that rounds end the operations, and that each was carried out once.
func (p platform) areDriven(all ...waiting) {
	p.t.Helper()
	for _, w := range all {
		p.driven(w.InstanceID, w.operation)
		p.Succeeds(at(w.InstanceID), w.operation)
	}
	for _, w := range all {
		p.kept(w.InstanceID, w.plan)
	}
}

// killedRounds kills rounds, one after the other, at the first write about one of two operations that are due. The
// other operation may be at any point then.
func killedRounds(t *testing.T, s *stack) {
	p := newPlatform(t, s).knows()
	var all []waiting
	for _, do := range []disturbance{killBefore, killAfter} {
		one, other := p.waits(small), p.waits(small)
		o := s.gate.order(t, fault{Action: putAction, From: fromJanitor, Times: 1, Do: do, Fits: func(c call) bool {
			return slices.Contains(c.About, one.InstanceID) || slices.Contains(c.About, other.InstanceID)
		}})
		p.due(one.Key)
		p.due(other.Key)
		p.beginRound()
		o.awaits(t, long)
		all = append(all, one, other)
	}
	p.beginRound()
	p.areDriven(all...)
}

func twoRounds(t *testing.T, s *stack) {
	p := newPlatform(t, s).knows()
	var all []waiting
	for _, plan := range []string{small, "postgres/async", small, "postgres/async"} {
		all = append(all, p.waits(plan))
	}
	for _, w := range all {
		p.due(w.Key)
	}
	p.beginRound()
	p.beginRound()
	p.areDriven(all...)
}

// handedOver: the execution leaves the create to rounds, one of which is at it, and Cloud Foundry ends it only then.
func handedOver(t *testing.T, s *stack) {
	p := newPlatform(t, s).knows()
	id := p.NewID()
	operation := p.Provision(id, stalls, "").Want(http.StatusAccepted).Operation()
	p.picksUp(broker.Key{Client: p.Name, InstanceID: id})
	oneExecution(p, id, operation)
	if passed := p.passed(operation); passed[len(passed)-1] != "Handed over" {
		t.Errorf("the execution passed %q, want that it handed the operation over", passed)
	}
	p.Poll(at(id), operation).Has("state", `"in progress"`)
	before := p.count(putAction, id, fromPoller)
	p.Force(p.Row(id).GUID, "create", "succeeded", "COMPLETE")
	p.Succeeds(at(id), operation)
	p.driven(id, operation)
	if n := p.count(putAction, id, fromPoller); n != before {
		t.Errorf("the poller wrote %d times after it had handed the operation over", n-before)
	}
	p.kept(id, stalls)
}

// earlierExecution starts one with the input that versions wrote which did not know of rounds. A round is at it, and
// Cloud Foundry ends the create when another execution would have handed it over.
func earlierExecution(t *testing.T, s *stack) {
	p := newPlatform(t, s).knows()
	w := p.waits(stalls)
	input := fmt.Sprintf(`{"client":%q,"instance_id":%q,"operation":%q,"wait_seconds":0,"turn":0,"done":false}`, w.Client, w.InstanceID, w.operation)
	_, err := s.cloud.sfn.StartExecution(t.Context(), &sfn.StartExecutionInput{
		StateMachineArn: new(s.outputs["StateMachineArn"]), Name: new(w.operation), Input: &input,
	})
	if err != nil {
		t.Fatal(err)
	}
	p.picksUp(w.Key)
	p.Eventually("it was left to rounds, or goes on", func() bool {
		passed := p.passed(w.operation)
		return slices.Contains(passed, "Wait") || slices.Contains(passed, "Handed over")
	})
	p.Force(p.Row(w.InstanceID).GUID, "create", "succeeded", "COMPLETE")
	p.Succeeds(at(w.InstanceID), w.operation)
	oneExecution(p, w.InstanceID, w.operation)
	if passed := p.passed(w.operation); passed[len(passed)-1] != "Ended" {
		t.Errorf("the execution passed %q, want that it ended with its operation", passed)
	}
	p.kept(w.InstanceID, w.plan)
}

// passed returns the names of the states that an execution has left, in their order.
func (p platform) passed(execution string) (states []string) {
	p.t.Helper()
	for _, e := range p.history(p.executionARN(execution)) {
		if e.StateExitedEventDetails != nil {
			states = append(states, *e.StateExitedEventDetails.Name)
		}
	}
	return states
}

func (p platform) history(arn string) []types.HistoryEvent {
	p.t.Helper()
	out, err := p.s.cloud.sfn.GetExecutionHistory(p.t.Context(), &sfn.GetExecutionHistoryInput{ExecutionArn: &arn, MaxResults: 1000})
	if err != nil {
		p.t.Fatal(err)
	}
	return out.Events
}

// roundsSay reads what the metric of overdue operations is made of.
func roundsSay(t *testing.T, s *stack) {
	rounds, driven, begun := 0, 0, 0
	for _, l := range s.logs(t, "JanitorLogs") {
		var said struct {
			Msg               string
			Restarted, Driven *int
		}
		if !strings.Contains(l.Message, `"janitor round"`) || json.Unmarshal([]byte(l.Message), &said) != nil || said.Msg != "janitor round" {
			continue
		}
		if said.Restarted == nil || said.Driven == nil || *said.Restarted > *said.Driven {
			t.Errorf("a round says %s", l.Message)
			continue
		}
		rounds, driven, begun = rounds+1, driven+*said.Driven, begun+*said.Restarted
	}
	if begun == 0 {
		t.Errorf("%d rounds drove %d operations, none of which had been lost", rounds, driven)
	}
	t.Logf("%d rounds drove operations %d times, and began %d of them", rounds, driven, begun)
}
