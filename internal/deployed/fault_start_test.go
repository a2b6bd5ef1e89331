package deployed

import (
	"maps"
	"net/http"
	"slices"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/sfn"

	"github.com/ferry-broker/ferry/internal/broker"
)

// caseStartRefused waits for what the other cases hasten: that the operation is due.
func caseStartRefused(t *testing.T, s *stack) {
	unstarted(t, s, refuse, func(p storm, _, operation string) { p.overdue(operation) })
}

func caseStartThrottled(t *testing.T, s *stack) {
	unstarted(t, s, throttle, func(p storm, id, operation string) {
		p.picksUp(broker.Key{Client: p.name, InstanceID: id})
		p.restarted(operation)
	})
}

// unstarted: the api cannot start the execution, and accepts the create all the same.
func unstarted(t *testing.T, s *stack, do deed, janitor func(p storm, id, operation string)) {
	p := newStorm(t, s).knows()
	id := p.newID()
	o := p.order(startAction, id, fromAPI, 0, 0, do)
	operation := p.put(id, small, "").want(t, http.StatusAccepted).operation()
	if o.count() == 0 {
		t.Fatal("no start was disturbed")
	}
	if again := p.put(id, small, "").want(t, http.StatusAccepted).operation(); again != operation {
		t.Errorf("a duplicate has the operation %s, want %s", again, operation)
	}
	janitor(p, id, operation)
	p.gets("succeeded", at(id), operation)
	s.gate.lift(o)
	p.kept(id, small)
}

func caseStartLost(t *testing.T, s *stack) {
	p := newStorm(t, s)
	id := p.newID()
	o := p.order(startAction, id, "", 0, 1, lose)
	operation := p.put(id, small, "").want(t, http.StatusAccepted).operation()
	if n := o.count(); n != 1 {
		t.Fatalf("%d answers were lost, want one", n)
	}
	p.gets("succeeded", at(id), operation)
	if n := len(p.executions(operation)); n != 1 {
		t.Errorf("%d executions of %s, want one", n, operation)
	}
	p.kept(id, small)
}

// executions returns the names that the state machine has had for an operation, with
// what became of them, once none runs any more.
func (p storm) executions(operation string) map[string]string {
	p.t.Helper()
	found := map[string]string{}
	p.until(long, "the executions end", func() bool {
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
