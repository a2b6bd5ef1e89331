package broker_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ferry-broker/ferry/internal/broker"
	"github.com/ferry-broker/ferry/internal/brokertest"
	"github.com/ferry-broker/ferry/internal/lifecycle"
	"github.com/ferry-broker/ferry/internal/osb"
)

// TestParametersPassThrough: law 9, Decided 14. They reach Cloud Foundry letter for letter, are dropped once it took
// them, and are in no log.
func TestParametersPassThrough(t *testing.T) {
	t.Parallel()
	const text = `{ "secret":"hunter2",  "n": 1.0e0, "big":9007199254740993 }`
	var log bytes.Buffer
	r := newRun(t, brokertest.ScheduleOptions{})
	r.Log = &log
	created, err := putOf(func(q *broker.ProvisionRequest) { q.Body.Parameters = json.RawMessage(text) }).send(r)
	if err != nil {
		t.Fatal(err)
	}
	if got := string(r.record(instanceKey()).Parameters); got != text {
		t.Errorf("stored until they are sent: %q, want %q", got, text)
	}
	r.step(created.Operation)
	if got := r.Cloud.Left()[0].Parameters; got != text {
		t.Errorf("Cloud Foundry got %q, want %q", got, text)
	}
	stored, err := json.Marshal(r.Store.All())
	if err != nil || strings.Contains(string(stored), "hunter2") {
		t.Errorf("after the POST was accepted the store has %s, %v", stored, err)
	}
	r.drive(created.Operation)
	if strings.Contains(log.String(), "hunter2") || !strings.Contains(log.String(), "operation ended") {
		t.Errorf("the log:\n%s", log.String())
	}
}

// TestParametersOfAnOrphanAreDropped: a bind whose instance was deleted before its key was asked for.
func TestParametersOfAnOrphanAreDropped(t *testing.T) {
	t.Parallel()
	r := newRun(t, brokertest.ScheduleOptions{})
	r.ready()
	late := r.Reach(r.Go("bind", func(ctx context.Context) (any, error) {
		q := bindOf(brokertest.PlanSmall)
		q.Body.Parameters = json.RawMessage(`{"secret":"hunter2"}`)
		return r.Broker.Bind(ctx, q)
	}), "Put")
	r.drive(r.accepted(r.remove()))
	r.accepted(late)
	r.refused(r.unbind(), broker.CodeGone)
	if p := r.record(bindingKey()).Parameters; len(p) != 0 {
		t.Errorf("the tombstone keeps %s", p)
	}
}

// TestPolls: OSB "Polling Last Operation", B1, B3, B9.
func TestPolls(t *testing.T) {
	t.Parallel()
	r := newRun(t, brokertest.ScheduleOptions{})
	poll := func(operation string) string {
		p, err := r.Broker.LastOperation(t.Context(), broker.PollRequest{Client: brokertest.Client, InstanceID: "i", Operation: operation})
		if err != nil {
			return string(broker.CodeOf(err))
		}
		if (p.State == osb.InProgress) != (p.RetryAfter > 0) || (p.State == osb.Succeeded) != (p.Description == "") {
			t.Errorf("poll of %q = %+v: Retry-After while in progress, a description until it has succeeded", operation, p)
		}
		if p.DeleteDone {
			return "deleted"
		}
		return string(p.State)
	}
	expect := func(when string, want map[string]string) {
		t.Helper()
		for operation, state := range want {
			if got := poll(operation); got != state {
				t.Errorf("%s: poll of %q = %s, want %s", when, operation, got, state)
			}
		}
	}
	expect("never seen", map[string]string{"": "NotFound", "create-1": "NotFound", "delete-1": "Gone"})
	created := r.accepted(r.put())
	expect("creating", map[string]string{"": "in progress", created: "in progress", "invented": "in progress"})
	gone := r.accepted(r.remove())
	expect("cancelled", map[string]string{"": "in progress", created: "failed", gone: "in progress", "invented": "in progress"})
	r.drive(gone)
	expect("gone", map[string]string{"": "deleted", created: "failed", gone: "deleted", "invented": "deleted"})
	made := r.ready()
	expect("made again", map[string]string{"": "succeeded", made: "succeeded", "invented": "succeeded", gone: "deleted"})
	r.failed(r.accepted(r.patch(brokertest.PlanLarge)))
	expect("update failed", map[string]string{"": "failed", made: "succeeded"})
	r.drive(r.accepted(r.remove()))
	r.Advance(193 * time.Hour)
	expect("forgotten", map[string]string{"": "NotFound", made: "NotFound", gone: "Gone"})
}

// TestFetch: B10.
func TestFetch(t *testing.T) {
	t.Parallel()
	for state, want := range map[string]string{
		"absent": "NotFound", "creating": "NotFound", "ready": "found", "updating": "ConcurrencyError", "deleting": "ConcurrencyError",
		"create failed": "NotFound", "update failed": "found", "delete failed": "found", "gone": "NotFound",
	} {
		t.Run(state, func(t *testing.T) {
			t.Parallel()
			r := newRun(t, brokertest.ScheduleOptions{})
			states()[state](r)
			body, err := r.Broker.FetchInstance(t.Context(), broker.FetchRequest{Client: brokertest.Client, InstanceID: "i"})
			got := "found"
			if err != nil {
				got = string(broker.CodeOf(err))
			}
			if got != want {
				t.Errorf("got %s, want %s", got, want)
			}
			if got == "found" && (body.PlanID != brokertest.PlanID(brokertest.PlanSmall) || string(body.Parameters) != `{"size": 1}`) {
				t.Errorf("body = %+v", body)
			}
		})
	}
}

func TestFetchOfABinding(t *testing.T) {
	t.Parallel()
	r := newRun(t, brokertest.ScheduleOptions{})
	fetch := func() (broker.BindingBody, error) {
		return r.Broker.FetchBinding(t.Context(), broker.FetchRequest{Client: brokertest.Client, InstanceID: "i", BindingID: "b"})
	}
	missing := func(when string) {
		t.Helper()
		if _, err := fetch(); broker.CodeOf(err) != broker.CodeNotFound {
			t.Errorf("%s: %v, want it not found", when, err)
		}
	}
	r.ready()
	missing("absent")
	bound := r.accepted(r.bind())
	missing("while it is made")
	r.drive(bound)
	body, err := fetch()
	if err != nil || !strings.Contains(string(body.Credentials), brokertest.SecretOf("")) {
		t.Errorf("ready: %+v, %v", body, err)
	}
	gone := r.accepted(r.unbind())
	missing("while it is deleted")
	r.drive(gone)
	missing("gone")
	r.drive(r.accepted(r.bind()))
	r.Cloud.Vanish("b")
	missing("when its key has vanished")
}

// TestUpdateRules: osb-choices G, UPD-05 to UPD-33.
func TestUpdateRules(t *testing.T) {
	t.Parallel()
	params := func(text string) func(*broker.UpdateRequest) {
		return func(q *broker.UpdateRequest) { q.Body.Parameters = json.RawMessage(text) }
	}
	for name, test := range map[string]struct {
		change func(*broker.UpdateRequest)
		want   string
	}{
		"UPD-32 the plan that it has": {same[broker.UpdateRequest], "exists"},
		"UPD-06 no plan":              {func(q *broker.UpdateRequest) { q.Body.PlanID = "" }, "exists"},
		"UPD-35 null parameters":      {params(`null`), "exists"},
		"UPD-35 empty parameters":     {params(`{}`), "exists"},
		"the parameters in force":     {params(`{"size":1.0}`), "exists"},
		"other parameters":            {params(`{"size":2}`), "accepted"},
		"UPD-05 another plan":         {toLarge, "accepted"},
		"the maintenance version it has": {func(q *broker.UpdateRequest) {
			q.Body.MaintenanceInfo = &osb.MaintenanceInfo{Version: brokertest.Version}
		}, "exists"},
		"UPD-34 wrong previous values": {func(q *broker.UpdateRequest) { q.Body.PreviousValues = json.RawMessage(`{"plan_id":"x"}`) }, "exists"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRun(t, brokertest.ScheduleOptions{})
			r.ready()
			before := r.dump()
			got := r.outcome(patchOf(test.change))
			if got != test.want {
				t.Errorf("got %s, want %s", got, test.want)
			}
			if got == "exists" {
				r.unchanged(before)
			}
		})
	}
}

// TestWhatAnUpdateLedToIsInForce: a PUT compares with it, a repeated PATCH is 200.
func TestWhatAnUpdateLedToIsInForce(t *testing.T) {
	t.Parallel()
	r := newRun(t, brokertest.ScheduleOptions{})
	r.ready()
	r.drive(r.accepted(r.patch(brokertest.PlanLarge)))
	for what, got := range map[string][2]string{
		"the same PATCH":            {r.outcome(patchOf(toLarge)), "exists"},
		"a PUT of the updated plan": {r.outcome(putOf(large)), "exists"},
		"a PUT of the first plan":   {r.outcome(putOf(same)), "Conflict"},
	} {
		if got[0] != got[1] {
			t.Errorf("%s: %s, want %s", what, got[0], got[1])
		}
	}
	if left := r.left(1); left[0].Plan != brokertest.PlanLarge || left[0].Parameters != `{"size": 1}` {
		t.Errorf("the cloud has %+v", left[0])
	}
}

func TestAnUpdateThatThePlanForbids(t *testing.T) {
	t.Parallel()
	r := newRun(t, brokertest.ScheduleOptions{})
	created, err := putOf(func(q *broker.ProvisionRequest) {
		q.Body.ServiceID, q.Body.PlanID = brokertest.ServicePlain, brokertest.PlanID(brokertest.PlanPlain)
	}).send(r)
	if err != nil {
		t.Fatal(err)
	}
	r.drive(created.Operation)
	before := r.dump()
	_, err = patchOf(func(q *broker.UpdateRequest) {
		q.Body.ServiceID, q.Body.PlanID = brokertest.ServicePlain, brokertest.PlanID(brokertest.PlanOther)
	}).send(r)
	e, ok := errors.AsType[*broker.Error](err)
	if !ok || e.Code != broker.CodeUnprocessable || e.UpdateRepeatable == nil || *e.UpdateRepeatable {
		t.Errorf("UPD-33: %v; want 422 with update_repeatable false", err)
	}
	r.unchanged(before)
}

// TestTheContextOfAnUpdateIsKept: G6, also when there is nothing to carry out.
func TestTheContextOfAnUpdateIsKept(t *testing.T) {
	t.Parallel()
	r := newRun(t, brokertest.ScheduleOptions{})
	r.ready()
	const text = `{"platform":"cloudfoundry","instance_name":"new"}`
	got := r.outcome(patchOf(func(q *broker.UpdateRequest) { q.Body.Context = json.RawMessage(text) }))
	if kept := string(r.record(instanceKey()).Context); got != "exists" || kept != text {
		t.Errorf("%s, context %s", got, kept)
	}
	if n := r.Cloud.EffectsOf("i").Patches; n != 0 {
		t.Errorf("%d PATCHes were sent", n)
	}
}

// down is a Cloud Foundry that nobody can reach.
type down struct{ broker.Backend }

func (down) FindInstances(context.Context, string, ...string) (broker.Look, error) {
	return broker.Look{}, errors.New("no route to host")
}

func (down) CreateInstance(context.Context, broker.InstanceCall) (broker.Answer, error) {
	return broker.Answer{Reply: lifecycle.ReplyUnknown}, errors.New("no route to host")
}

// TestAnOutageIsNoFailure: laws 8 and 10.
func TestAnOutageIsNoFailure(t *testing.T) {
	t.Parallel()
	r := newRun(t, brokertest.ScheduleOptions{})
	up := r.Backend.Backend
	r.Backend.Backend = down{Backend: up}
	op := r.accepted(r.put())
	for range 20 {
		r.step(op)
		r.Advance(5 * time.Minute)
	}
	r.wants(op, osb.InProgress)
	r.Backend.Backend = up
	r.drive(op)
	r.wants(op, osb.Succeeded)
}

func TestAClientThatLeftTheConfiguration(t *testing.T) {
	t.Parallel()
	var backends map[string]broker.Backend
	r := newRun(t, brokertest.ScheduleOptions{Configure: func(o *broker.Options) { backends = o.Backends }})
	op := r.accepted(r.put())
	backend := backends[brokertest.Client]
	delete(backends, brokertest.Client)
	for range 3 {
		if step := r.step(op); step.Done || step.Wait <= 0 {
			t.Errorf("step = %+v; want the operation to wait for its client", step)
		}
	}
	backends[brokertest.Client] = backend
	r.drive(op)
	r.wants(op, osb.Succeeded)
	r.left(1)
}

// deaf is a workflow that cannot be started.
type deaf struct{}

func (deaf) Start(context.Context, broker.Start) error { return errors.New("throttled") }

// TestAWorkflowThatDoesNotStart: the request is accepted all the same, and the janitor starts the workflow later.
func TestAWorkflowThatDoesNotStart(t *testing.T) {
	t.Parallel()
	r := newRun(t, brokertest.ScheduleOptions{})
	workflow := r.Workflow.Workflow
	r.Workflow.Workflow = deaf{}
	op := r.accepted(r.put())
	r.Workflow.Workflow = workflow
	restart := func(want int) {
		t.Helper()
		if round, err := r.Broker.Restart(t.Context(), 1); err != nil || round != (broker.Round{Restarted: want}) {
			t.Errorf("Restart = %+v, %v; want %d", round, err, want)
		}
	}
	restart(0)
	r.Advance(3 * time.Minute)
	restart(1)
	restart(0)
	want := []broker.Start{{Key: instanceKey(), Operation: op, Restart: 1}}
	if diff := cmp.Diff(want, r.Started); diff != "" {
		t.Errorf("starts (-want +got):\n%s", diff)
	}
	r.drive(op)
	r.Advance(time.Hour)
	restart(0)
}

// TestResume: a process that takes a store over drives what it finds, once each.
func TestResume(t *testing.T) {
	t.Parallel()
	r := newRun(t, brokertest.ScheduleOptions{})
	r.ready()
	op := r.accepted(r.bind())
	r.Started = nil
	before := r.Store.All()
	n, err := r.Broker.Resume(t.Context())
	if err != nil || n != 1 {
		t.Errorf("Resume = %d, %v; want 1", n, err)
	}
	if diff := cmp.Diff([]broker.Start{{Key: bindingKey(), Operation: op}}, r.Started); diff != "" {
		t.Errorf("starts (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(before, r.Store.All()); diff != "" {
		t.Errorf("Resume wrote (-before +after):\n%s", diff)
	}
}
