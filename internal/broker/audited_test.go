package broker_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ferry-broker/ferry/internal/broker"
	"github.com/ferry-broker/ferry/internal/brokertest"
)

// TestAudit: what came into being later than any call is believed to take (docs/protocol.md section 9).
func TestAudit(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		arrange func(r *run)
		want    broker.Audited
		left    int
	}{
		"the living incarnation stays": {func(r *run) { r.ready() }, broker.Audited{Seen: 1}, 1},
		"so does it with marks of another operation": {func(r *run) {
			r.ready()
			rec := r.record(instanceKey())
			rec.Lifecycle.CreateOp.ID = "create-else"
			r.store(rec)
		}, broker.Audited{Seen: 1}, 1},
		"a row that comes after its delete ended goes": {func(r *run) {
			made := r.ready()
			seq := r.record(instanceKey()).Lifecycle.Seq
			r.drive(r.accepted(r.remove()))
			r.late("i", made, seq)
		}, broker.Audited{Seen: 1, Removed: 1}, 0},
		"so does one whose create was given up": {func(r *run) {
			created := r.accepted(r.put())
			seq := r.record(instanceKey()).Lifecycle.Seq
			r.Advance(brokertest.Deadline)
			r.step(created)
			r.late("i", created, seq)
		}, broker.Audited{Seen: 1, Removed: 1}, 0},
		"so does one whose create was cancelled before it was made": {func(r *run) {
			created := r.accepted(r.put())
			seq := r.record(instanceKey()).Lifecycle.Seq
			r.drive(r.accepted(r.remove()))
			r.late("i", created, seq)
		}, broker.Audited{Seen: 1, Removed: 1}, 0},
		"a second row of the living operation goes, the adopted one stays": {func(r *run) {
			made := r.ready()
			r.lateIn(brokertest.OfferingPlain, brokertest.PlanPlain, "i", made, r.record(instanceKey()).Lifecycle.Seq)
		}, broker.Audited{Seen: 2, Removed: 1}, 1},
		"while an operation runs, older rows are its to remove": {func(r *run) {
			made := r.ready()
			seq := r.record(instanceKey()).Lifecycle.Seq
			r.drive(r.accepted(r.remove()))
			r.accepted(r.put())
			r.late("i", made, seq)
		}, broker.Audited{Seen: 1}, 1},
		"a running operation looks after its own": {func(r *run) {
			created := r.accepted(r.put())
			r.step(created)
		}, broker.Audited{Seen: 1}, 1},
		"a row of an operation that the record does not know is only reported": {func(r *run) {
			r.ready()
			r.drive(r.accepted(r.remove()))
			r.late("i", "create-lost", 1)
		}, broker.Audited{Seen: 1, Unknown: 1}, 1},
		"so is one beside the living incarnation": {func(r *run) {
			r.ready()
			r.lateIn(brokertest.OfferingPlain, brokertest.PlanPlain, "i", "create-lost", 1)
		}, broker.Audited{Seen: 2, Unknown: 1}, 2},
		"a second row whose operation is forgotten is known by its GUID": {func(r *run) {
			r.ready()
			r.lateIn(brokertest.OfferingPlain, brokertest.PlanPlain, "i", "create-forgotten", 1)
			rec := r.record(instanceKey())
			for _, row := range r.Cloud.Left() {
				if row.GUID != rec.Lifecycle.CFGUID {
					rec.Lifecycle.GUIDs = append(rec.Lifecycle.GUIDs, row.GUID)
				}
			}
			r.store(rec)
		}, broker.Audited{Seen: 2, Removed: 1}, 1},
		"what no record knows is only reported": {func(r *run) { r.late("unknown-id", "create-x", 1) }, broker.Audited{Seen: 1, Unknown: 1}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRun(t, brokertest.ScheduleOptions{})
			test.arrange(r)
			got, err := r.Broker.Audit(t.Context(), brokertest.Client)
			if diff := cmp.Diff(test.want, got); diff != "" || err != nil {
				t.Errorf("audit (-want +got):\n%s%v", diff, err)
			}
			r.Cloud.FinishAll()
			if left := r.Cloud.Left(); len(left) != test.left {
				t.Errorf("left in Cloud Foundry: %+v, want %d", left, test.left)
			}
		})
	}
}

// late is a POST that takes effect when nobody believes in it any more.
func (r *run) late(name, operation string, seq int64) {
	r.t.Helper()
	r.lateIn(brokertest.OfferingDB, brokertest.PlanSmall, name, operation, seq)
}

// lateIn is late in the space of an offering.
func (r *run) lateIn(offering, plan, name, operation string, seq int64) {
	r.t.Helper()
	if _, err := r.Cloud.CreateInstance(r.t.Context(), broker.InstanceCall{
		Name: name, Offering: offering, PlanGUID: plan,
		Marks: broker.Marks{Client: brokertest.Client, Operation: operation, Seq: seq},
	}); err != nil {
		r.t.Fatal(err)
	}
}
