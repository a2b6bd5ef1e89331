package broker_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/ferry-broker/ferry/internal/broker"
	"github.com/ferry-broker/ferry/internal/brokertest"
	"github.com/ferry-broker/ferry/internal/lifecycle"
	"github.com/ferry-broker/ferry/internal/osb"
)

// TestANewLifeHasNoGUID [FI-07] (docs/protocol.md 1): what a former life was made as is not what is being made now,
// neither for a GET nor for a bind.
func TestANewLifeHasNoGUID(t *testing.T) {
	t.Parallel()
	for name, before := range map[string]func(*run){
		"after a delete":        func(r *run) { r.ready(); r.drive(r.accepted(r.remove())) },
		"after a failed create": func(r *run) { r.failed(r.accepted(r.put())) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRun(t, brokertest.ScheduleOptions{})
			before(r)
			created := r.accepted(r.put())
			if _, err := r.fetchInstance(); broker.CodeOf(err) != broker.CodeNotFound {
				t.Errorf("GET while it is made: %v, want it not found", err)
			}
			bound := r.accepted(r.bind())
			r.step(bound)
			if r.called("CreateKey") {
				t.Error("a key was asked for before there is an instance")
			}
			r.drive(created)
			r.drive(bound)
			r.wants(bound, osb.Succeeded)
			r.left(2)
		})
	}
}

// TestTheNoteOutlivesItsRequest [3.5]: the request's time ends while its call is being answered. An unbind would have
// to wait the call out if nobody noted the answer.
func TestTheNoteOutlivesItsRequest(t *testing.T) {
	t.Parallel()
	r := newRun(t, brokertest.ScheduleOptions{})
	r.ready()
	held := r.Reach(r.heldBind(), "CreateKey")
	r.Choose(held, brokertest.Pause)
	r.Expire(held)
	r.refused(held, broker.CodeOutOfTime)
	if l := r.record(bindingKey()).Lifecycle; len(l.OpenCalls) != 0 || l.Operation.Job == "" {
		t.Errorf("open calls %+v, job %q; want the answer noted", l.OpenCalls, l.Operation.Job)
	}
}

// TestALateNoteRemovesItsOwnCallOnly [3.5]: two ticks of one update send a PATCH each. The first one's answer comes
// when the second's has been noted.
func TestALateNoteRemovesItsOwnCallOnly(t *testing.T) {
	t.Parallel()
	refuse := true
	r := newRun(t, brokertest.ScheduleOptions{Backend: func(_ *brokertest.Scheduler, b broker.Backend) broker.Backend {
		return refusesOnce{b, &refuse}
	}})
	r.ready()
	op := r.accepted(r.patch(brokertest.PlanLarge))
	one := r.Reach(r.tick(op), "UpdateInstance")
	two := r.Reach(r.tick(op), "UpdateInstance")
	r.Choose(one, brokertest.Pause) // refused, which nobody knows yet
	r.Finish(two)
	before := r.record(instanceKey()).Lifecycle
	r.Finish(one)
	after := r.record(instanceKey()).Lifecycle
	if len(before.OpenCalls) != 1 || len(after.OpenCalls) != 0 {
		t.Errorf("open calls %+v, then %+v; want the first one's removed", before.OpenCalls, after.OpenCalls)
	}
	if after.Operation != before.Operation {
		t.Errorf("the operation was %+v, and is %+v", before.Operation, after.Operation)
	}
	r.drive(op)
	r.wants(op, osb.Succeeded)
}

// refusesOnce refuses one PATCH for good.
type refusesOnce struct {
	broker.Backend
	next *bool
}

func (b refusesOnce) UpdateInstance(ctx context.Context, guid string, c broker.InstanceCall) (broker.Answer, error) {
	if *b.next {
		*b.next = false
		return broker.Answer{Reply: lifecycle.ReplyRefused, Description: "not today"}, errors.New("422")
	}
	return b.Backend.UpdateInstance(ctx, guid, c)
}

// TestAHeldBindOfWhatWasDeletedSince [7, CON-53]: it ended well, and is being unbound, or was bound again, before the
// request looked.
func TestAHeldBindOfWhatWasDeletedSince(t *testing.T) {
	t.Parallel()
	for name, since := range map[string]func(*run){
		"it is being unbound": func(r *run) { r.accepted(r.unbind()) },
		"it is gone":          func(r *run) { r.drive(r.accepted(r.unbind())) },
		"it was bound again": func(r *run) {
			r.drive(r.accepted(r.unbind()))
			r.drive(r.accepted(r.bind()))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRun(t, brokertest.ScheduleOptions{})
			r.ready()
			held := r.Reach(r.heldBind(), "Sleep")
			op := r.record(bindingKey()).Lifecycle.Operation.ID
			r.drive(op)
			r.wants(op, osb.Succeeded)
			since(r)
			r.refused(held, broker.CodeConcurrency)
		})
	}
}

// TestASlowLookIsNoOutage: a look-up has a minute, however short the time is in which a call of unknown fate may still
// take effect.
func TestASlowLookIsNoOutage(t *testing.T) {
	t.Parallel()
	cloud := &timed{}
	r := newRun(t, brokertest.ScheduleOptions{Configure: func(o *broker.Options) {
		o.SettleAfter, o.CallTimeout = 2*time.Second, 0
	}})
	cloud.Backend = r.Cloud
	r.Backend.Backend = cloud
	op := r.accepted(r.put())
	r.step(op)
	r.step(op)
	if cloud.look < 50*time.Second || cloud.call > 2*time.Second {
		t.Errorf("a look-up had %s, a call %s; want a minute, and no more than two seconds", cloud.look, cloud.call)
	}
}

// timed notes how long a look-up and a call were given.
type timed struct {
	broker.Backend
	look, call time.Duration
}

func (c *timed) FindInstances(ctx context.Context, name string, guids ...string) (broker.Look, error) {
	at, _ := ctx.Deadline()
	c.look = time.Until(at)
	return c.Backend.FindInstances(ctx, name, guids...)
}

func (c *timed) CreateInstance(ctx context.Context, q broker.InstanceCall) (broker.Answer, error) {
	at, _ := ctx.Deadline()
	c.call = time.Until(at)
	return c.Backend.CreateInstance(ctx, q)
}
