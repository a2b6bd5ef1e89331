package broker_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/ferry-broker/ferry/internal/broker"
	"github.com/ferry-broker/ferry/internal/brokertest"
	"github.com/ferry-broker/ferry/internal/lifecycle"
	"github.com/ferry-broker/ferry/internal/osb"
)

// TestLifecycleTable is the table of docs/lifecycle.md through the real verbs.
func TestLifecycleTable(t *testing.T) {
	t.Parallel()
	columns := []request{putOf(same), putOf(large), patchOf(toLarge), deleteWith("", same)}
	for state, want := range map[string][4]string{
		"absent":        {"accepted", "accepted", "NotFound", "Gone"},
		"creating":      {"running", "Conflict", "ConcurrencyError", "accepted"},
		"ready":         {"exists", "Conflict", "accepted", "accepted"},
		"updating":      {"ConcurrencyError", "ConcurrencyError", "running", "accepted"},
		"deleting":      {"ConcurrencyError", "ConcurrencyError", "ConcurrencyError", "running"},
		"create failed": {"accepted", "Conflict", "Unprocessable", "accepted"},
		"update failed": {"exists", "Conflict", "accepted", "accepted"},
		"delete failed": {"Conflict", "Conflict", "Unprocessable", "accepted"},
		"gone":          {"accepted", "accepted", "NotFound", "Gone"},
	} {
		for n, column := range []string{"PUT same", "PUT different", "PATCH", "DELETE"} {
			t.Run(state+"/"+column, func(t *testing.T) {
				t.Parallel()
				r := newRun(t, brokertest.ScheduleOptions{})
				states()[state](r)
				before := r.dump()
				got := r.outcome(columns[n])
				if got != want[n] {
					t.Errorf("got %s, want %s", got, want[n])
				}
				if got != "accepted" && got != "Gone" {
					r.unchanged(before)
				}
			})
		}
	}
}

// TestDuplicates: law 3, PROV-19, UPD-21, DEP-08, BIND-15, UNB-06.
func TestDuplicates(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		given   func(*run)
		request request
	}{
		"PROV-19 of a create": {func(*run) {}, putOf(same)},
		"UPD-21 of an update": {func(r *run) { r.ready() }, patchOf(toLarge)},
		"DEP-08 of a delete":  {func(r *run) { r.ready() }, deleteWith("", same)},
		"BIND-15 of a bind":   {func(r *run) { r.ready() }, bindWith(same)},
		"UNB-06 of an unbind": {func(r *run) { r.ready(); r.drive(r.accepted(r.bind())) }, deleteWith("b", same)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRun(t, brokertest.ScheduleOptions{})
			test.given(r)
			first, err := test.request.send(r)
			if err != nil || first.Outcome != broker.OutcomeAccepted {
				t.Fatalf("first = %+v, %v", first, err)
			}
			before := r.dump()
			for range 3 {
				again, err := test.request.send(r)
				if err != nil || again.Outcome != broker.OutcomeRunning || again.Operation != first.Operation {
					t.Errorf("duplicate = %+v, %v; want %s again", again, err, first.Operation)
				}
			}
			r.unchanged(before)
		})
	}
}

// TestSameProvision: what counts in a PUT ("Duplicates and requests that meet" in docs/osb-choices.md). Numbers in
// parameters are compared exactly.
func TestSameProvision(t *testing.T) {
	t.Parallel()
	asItIs := same[broker.ProvisionRequest]
	params := func(text string) func(*broker.ProvisionRequest) {
		return func(q *broker.ProvisionRequest) { q.Body.Parameters = json.RawMessage(text) }
	}
	kubernetes := func(namespace, cluster string) func(*broker.ProvisionRequest) {
		return func(q *broker.ProvisionRequest) {
			q.Body.OrganizationGUID = cluster
			q.Body.Context = json.RawMessage(fmt.Sprintf(
				`{"platform":"kubernetes","namespace":%q,"clusterid":%q}`, namespace, cluster))
		}
	}
	maintenance := func(version string) func(*broker.ProvisionRequest) {
		return func(q *broker.ProvisionRequest) { q.Body.MaintenanceInfo = &osb.MaintenanceInfo{Version: version} }
	}
	for name, test := range map[string]struct {
		first, second func(*broker.ProvisionRequest)
		want          string
	}{
		"equal numbers written otherwise": {params(`{"n":1.0,"m":{"a":1,"b":2}}`), params(`{"m":{"b":2,"a":1e0}, "n":1}`), "exists"},
		"numbers that floats cannot tell": {params(`{"n":9007199254740993}`), params(`{"n":9007199254740992}`), "Conflict"},
		"absent and null":                 {params(``), params(`null`), "exists"},
		"null and {}":                     {params(`null`), params(`{}`), "exists"},
		"{} and something":                {params(`{}`), params(`{"a":null}`), "Conflict"},
		"lists in another order":          {params(`{"l":[1,2]}`), params(`{"l":[2,1]}`), "Conflict"},
		"PROV-12 another cluster id":      {kubernetes("blue", "one"), kubernetes("blue", "two"), "exists"},
		"another namespace":               {kubernetes("blue", "one"), kubernetes("red", "one"), "Conflict"},
		"kubernetes and another platform": {kubernetes("blue", "one"), asItIs, "Conflict"},
		"another organization":            {asItIs, func(q *broker.ProvisionRequest) { q.Body.OrganizationGUID = "x" }, "Conflict"},
		"another space":                   {asItIs, func(q *broker.ProvisionRequest) { q.Body.SpaceGUID = "x" }, "Conflict"},
		"another maintenance version":     {maintenance(brokertest.Version), maintenance("9.9.9"), "exists"},
		"another name and identity": {asItIs, func(q *broker.ProvisionRequest) {
			q.OriginatingIdentity = "x"
			q.Body.Context = json.RawMessage(`{"instance_name":"n"}`)
		}, "exists"},
		"without the flag once it is ready":  {asItIs, func(q *broker.ProvisionRequest) { q.AcceptsIncomplete = false }, "exists"},
		"another plan":                       {asItIs, large, "Conflict"},
		"another plan that was never listed": {asItIs, func(q *broker.ProvisionRequest) { q.Body.PlanID = "x" }, "Conflict"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRun(t, brokertest.ScheduleOptions{})
			created, err := putOf(test.first).send(r)
			if err != nil {
				t.Fatal(err)
			}
			r.drive(created.Operation)
			before := r.dump()
			if got := r.outcome(putOf(test.second)); got != test.want {
				t.Errorf("the second PUT: %s, want %s", got, test.want)
			}
			r.unchanged(before)
		})
	}
}

// TestRefusals: law 4. Each refusal has its code and leaves no trace.
func TestRefusals(t *testing.T) {
	t.Parallel()
	absent, ready := func(*run) {}, func(r *run) { r.ready() }
	bound := func(r *run) { r.ready(); r.drive(r.accepted(r.bind())) }
	for name, test := range map[string]struct {
		given   func(*run)
		request request
		want    broker.Code
	}{
		"PROV-05 an unknown offering":      {absent, putOf(func(q *broker.ProvisionRequest) { q.Body.ServiceID = "x" }), broker.CodeBadRequest},
		"PROV-06 a plan of another one":    {absent, putOf(func(q *broker.ProvisionRequest) { q.Body.PlanID = brokertest.PlanID(brokertest.PlanPlain) }), broker.CodeBadRequest},
		"the catalog before the flag":      {absent, putOf(func(q *broker.ProvisionRequest) { q.Body.PlanID = "x"; q.AcceptsIncomplete = false }), broker.CodeBadRequest},
		"PROV-23 without the flag":         {absent, putOf(func(q *broker.ProvisionRequest) { q.AcceptsIncomplete = false }), broker.CodeAsyncRequired},
		"PROV-24 another version":          {absent, putOf(func(q *broker.ProvisionRequest) { q.Body.MaintenanceInfo = &osb.MaintenanceInfo{Version: "0"} }), broker.CodeMaintenanceInfoConflict},
		"PROV-13 parameters not an object": {absent, putOf(func(q *broker.ProvisionRequest) { q.Body.Parameters = json.RawMessage(`[1]`) }), broker.CodeBadRequest},
		"a key that occurs twice":          {absent, putOf(func(q *broker.ProvisionRequest) { q.Body.Parameters = json.RawMessage(`{"a":1,"a":1}`) }), broker.CodeBadRequest},
		"a duplicate without the flag":     {func(r *run) { r.accepted(r.put()) }, putOf(func(q *broker.ProvisionRequest) { q.AcceptsIncomplete = false }), broker.CodeAsyncRequired},
		"an update of nothing":             {absent, patchOf(toLarge), broker.CodeNotFound},
		"UPD-36 another service_id":        {ready, patchOf(func(q *broker.UpdateRequest) { q.Body.ServiceID = brokertest.ServicePlain }), broker.CodeBadRequest},
		"UPD-04 an unknown plan":           {ready, patchOf(func(q *broker.UpdateRequest) { q.Body.PlanID = "x" }), broker.CodeBadRequest},
		"UPD-23 without the flag":          {ready, patchOf(func(q *broker.UpdateRequest) { toLarge(q); q.AcceptsIncomplete = false }), broker.CodeAsyncRequired},
		"without effect or flag":           {ready, patchOf(func(q *broker.UpdateRequest) { q.AcceptsIncomplete = false }), broker.CodeAsyncRequired},
		"UPD-24 another version":           {ready, patchOf(func(q *broker.UpdateRequest) { q.Body.MaintenanceInfo = &osb.MaintenanceInfo{Version: "0"} }), broker.CodeMaintenanceInfoConflict},
		"DEP-11 a delete without the flag": {ready, deleteWith("", syncDelete), broker.CodeAsyncRequired},
		"of an absent one as well":         {absent, deleteWith("", syncDelete), broker.CodeAsyncRequired},
		"a bind to nothing":                {absent, bindWith(same), broker.CodeNotFound},
		"a bind of another offering":       {ready, bindWith(func(q *broker.BindRequest) { q.Body.ServiceID = "x" }), broker.CodeBadRequest},
		"BIND-43 a bind of no known plan":  {ready, bindWith(func(q *broker.BindRequest) { q.Body.PlanID = "x" }), broker.CodeBadRequest},
		"BIND-18 a bind for another app":   {bound, bindWith(func(q *broker.BindRequest) { q.Body.AppGUID = "x" }), broker.CodeConflict},
		"BIND-18 other parameters":         {bound, bindWith(func(q *broker.BindRequest) { q.Body.Parameters = json.RawMessage(`{"a":1}`) }), broker.CodeConflict},
		"a bind while deleting":            {func(r *run) { r.ready(); r.accepted(r.remove()) }, bindWith(same), broker.CodeConcurrency},
		"a bind after a failed create":     {func(r *run) { r.failed(r.accepted(r.put())) }, bindWith(same), broker.CodeNotFound},
		"UNB-03 an unbind without its ids": {bound, deleteWith("b", func(q *broker.DeleteRequest) { q.ServiceID = "" }), broker.CodeBadRequest},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRun(t, brokertest.ScheduleOptions{})
			test.given(r)
			before := r.dump()
			if got := r.outcome(test.request); got != string(test.want) {
				t.Errorf("got %s, want %s", got, test.want)
			}
			r.unchanged(before)
		})
	}
}

// TestGoneMovesOnlyCounters: UNB-12. A 410 needs neither ids nor flag for a binding, and is itself a write.
func TestGoneMovesOnlyCounters(t *testing.T) {
	t.Parallel()
	r := newRun(t, brokertest.ScheduleOptions{})
	bare := func(q *broker.DeleteRequest) { q.ServiceID, q.PlanID, q.AcceptsIncomplete = "", "", false }
	for n := int64(1); n < 3; n++ {
		if got := r.outcome(deleteWith("b", bare)); got != string(broker.CodeGone) {
			t.Errorf("got %s, want Gone", got)
		}
		if l := r.record(bindingKey()).Lifecycle; l.Life != n || l.State != lifecycle.Ghost {
			t.Errorf("after %d 410s the record is %q with life %d", n, l.State, l.Life)
		}
	}
	r.Advance(193 * time.Hour)
	if left := r.Store.All(); len(left) != 0 {
		t.Errorf("the ghost outlives its time: %+v", left)
	}
}

// TestASlowStore: a request whose time is over before anything has begun for it is sent again, and leaves no trace;
// only one that is held may have begun something.
func TestASlowStore(t *testing.T) {
	t.Parallel()
	poll := func(r *run) *brokertest.Actor {
		return r.Go("poll", func(ctx context.Context) (any, error) {
			return r.Broker.LastOperation(ctx, broker.PollRequest{Client: brokertest.Client, InstanceID: "i"})
		})
	}
	patch := func(r *run) *brokertest.Actor { return r.patch(brokertest.PlanLarge) }
	for name, test := range map[string]struct {
		request func(*run) *brokertest.Actor
		calls   int // of the store, that are answered in time
	}{
		"PUT": {(*run).put, 0}, "poll": {poll, 0},
		"DELETE": {(*run).remove, 0}, "DELETE before its claim": {(*run).remove, 1},
		"PATCH": {patch, 0}, "PATCH before its claim": {patch, 1},
		"bind": {(*run).bind, 0}, "bind that knows no instance yet": {(*run).bind, 1}, "bind before its claim": {(*run).bind, 2},
		"held bind": {(*run).heldBind, 0}, "held bind before its claim": {(*run).heldBind, 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newReady(t, brokertest.ScheduleOptions{})
			before := r.dump()
			a := test.request(r)
			for range test.calls {
				r.Choose(a, brokertest.Proceed)
			}
			r.Expire(a)
			r.Choose(a, brokertest.Drop)
			r.Finish(a)
			var e *broker.Error
			if !errors.As(a.Err, &e) || e.Code != broker.CodeUnavailable || e.RetryAfter == 0 {
				t.Errorf("%v, want it unavailable, with Retry-After", a.Err)
			}
			r.unchanged(before)
		})
	}
}

// TestRetryAfterEndsWithTheOperation ("Retry-After" in docs/osb-choices.md): until the deadline the time to wait does
// not lead beyond it, and after it the end is due at any moment.
func TestRetryAfterEndsWithTheOperation(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		deadline, elapsed time.Duration
		want              int
	}{
		"a deadline far away":         {168 * time.Hour, 2 * time.Hour, 300},
		"shortly before the deadline": {90 * time.Second, 80 * time.Second, 10},
		"an hour before":              {3 * time.Hour, 3*time.Hour - 70*time.Second, 70},
		"less than a second before":   {90 * time.Second, 89900 * time.Millisecond, 1},
		"after the deadline":          {3 * time.Hour, 3*time.Hour + time.Second, 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRun(t, brokertest.ScheduleOptions{Deadline: test.deadline})
			op := r.accepted(r.put())
			r.Advance(test.elapsed)
			again, err := putOf(same).send(r)
			p, pollErr := r.polled(op)
			if err != nil || pollErr != nil || p.RetryAfter != test.want || again.RetryAfter != test.want {
				t.Errorf("a poll says %d (%v), a duplicate %d (%v), want %d", p.RetryAfter, pollErr, again.RetryAfter, err, test.want)
			}
		})
	}
}
