package broker_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/ferry-broker/ferry/internal/broker"
	"github.com/ferry-broker/ferry/internal/brokertest"
	"github.com/ferry-broker/ferry/internal/lifecycle"
)

const readonly = `{"role": "readonly"}`

// successor is a bind that may name a predecessor and parameters.
func successor(id, from, parameters string) request {
	return bindWith(func(q *broker.BindRequest) {
		q.BindingID, q.Body.PredecessorBindingID = id, from
		if parameters != "" {
			q.Body.Parameters = json.RawMessage(parameters)
		}
	})
}

// binds makes the binding, which must become ready.
func (r *run) binds(id string, q request) {
	r.t.Helper()
	op, key := r.accepted(r.begin("bind "+id, q)), bindingKey()
	key.BindingID = id
	for n := 0; n < 20 && r.record(key).Lifecycle.Running(op); n++ {
		r.Finish(r.Go("tick", func(ctx context.Context) (any, error) { return r.Broker.Advance(ctx, key, op) }))
		r.Cloud.FinishAll()
		r.Advance(time.Second)
	}
	if s := r.record(key).Lifecycle.State; s != lifecycle.Ready {
		r.t.Fatalf("%s is %q", id, s)
	}
}

// keyHas fails unless the newest key of this name was made with the parameters.
func (r *run) keyHas(name, want string) {
	r.t.Helper()
	got := "no key"
	for _, row := range r.Cloud.Left() {
		if row.Instance != "" && row.Name == name {
			got = row.Parameters
		}
	}
	if got != want {
		r.t.Errorf("the key %s was made with %q, want %q", name, got, want)
	}
}

// TestARotationKeepsTheParameters [7, ROT-08]: over any number of rotations, and as they are when the successor is
// claimed.
func TestARotationKeepsTheParameters(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]func(*run){
		"of a binding that was itself rotated":         rotatedAgain,
		"none, where the first had none":               rotatedWithout,
		"of a successor of before that was recorded":   rotatedOfBefore,
		"of today's instance, held over a former life": rotatedOverAHold,
		"of today's instance, over a lost claim":       rotatedOverALostClaim,
		"which are not asked for while it is held":     rotationHeld,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newReady(t, brokertest.ScheduleOptions{})
			test(r)
		})
	}
}

func rotatedAgain(r *run) {
	r.binds("b", successor("b", "", readonly))
	for n, id := range []string{"b2", "b3", "b4"} {
		r.binds(id, successor(id, []string{"b", "b2", "b3"}[n], ""))
		r.keyHas(id, readonly)
	}
	stored, err := json.Marshal(r.Store.All())
	if err != nil || strings.Contains(string(stored), "readonly") {
		r.t.Errorf("law 9: parameters are in the store: %s, %v", stored, err)
	}
}

func rotatedWithout(r *run) {
	r.Backend.Backend = mute{Backend: r.Cloud, err: broker.ErrNotRetrievable}
	r.binds("b", successor("b", "", ""))
	r.binds("b2", successor("b2", "b", ""))
	r.binds("b3", successor("b3", "b2", ""))
	r.keyHas("b3", "")
}

// rotatedOfBefore: such a record does not tell whether there were parameters.
func rotatedOfBefore(r *run) {
	r.binds("b", successor("b", "", readonly))
	r.binds("b2", successor("b2", "b", ""))
	key := bindingKey()
	key.BindingID = "b2"
	old := r.record(key)
	old.Inherited = ""
	r.store(old)
	r.binds("b3", successor("b3", "b2", ""))
	r.keyHas("b3", readonly)
}

// rotatedOverAHold: a rotation waits for an update of its instance. Meanwhile instance and predecessor are deleted and
// made again.
func rotatedOverAHold(r *run) {
	r.binds("b", successor("b", "", `{"secret": "of the first life"}`))
	r.accepted(r.patch(brokertest.PlanLarge))
	held := r.Reach(r.heldRotation(), "Sleep")
	r.drive(r.accepted(r.remove()))
	r.ready()
	r.binds("b", successor("b", "", `{"secret": "of the second life"}`))
	if result, err := r.settled(held); err != nil || result.Outcome != broker.OutcomeCreated {
		r.t.Errorf("rotation = %+v, %v", result, err)
	}
	r.keyHas("next", `{"secret": "of the second life"}`)
}

// rotatedOverALostClaim: a rotation has read the parameters, and loses its claim to the note of a late answer.
// Meanwhile instance and predecessor are deleted and made again.
func rotatedOverALostClaim(r *run) {
	r.binds("b", successor("b", "", `{"secret": "of the first life"}`))
	next := bindingKey()
	next.BindingID = "next"
	failed := r.record(bindingKey())
	failed.Key, failed.Lifecycle.State, failed.Lifecycle.InstanceCreateOp = next, lifecycle.CreateFailed, "of before"
	r.store(failed)
	late := r.Reach(r.heldRotation(), "Put")
	r.progress(next)
	r.drive(r.accepted(r.remove()))
	r.ready()
	r.binds("b", successor("b", "", `{"secret": "of the second life"}`))
	if result, err := r.settled(late); err != nil || result.Outcome != broker.OutcomeCreated {
		r.t.Errorf("rotation = %+v, %v", result, err)
	}
	r.keyHas("next", `{"secret": "of the second life"}`)
}

func (r *run) heldRotation() *brokertest.Actor {
	return r.begin("held rotation", bindWith(func(q *broker.BindRequest) {
		q.AcceptsIncomplete, q.BindingID, q.Body.PredecessorBindingID = false, "next", "b"
	}))
}

func rotationHeld(r *run) {
	r.binds("b", successor("b", "", readonly))
	op := r.accepted(r.patch(brokertest.PlanLarge))
	asked := 0
	r.Backend.Backend = mute{Backend: r.Backend.Backend, asked: &asked}
	held := r.Reach(r.heldRotation(), "Sleep")
	for range 5 {
		r.Choose(held, brokertest.Proceed)
		r.Reach(held, "Sleep")
	}
	if asked != 0 {
		r.t.Errorf("a held rotation asked %d times for parameters", asked)
	}
	r.drive(op)
	if _, err := r.settled(held); err != nil || asked != 1 {
		r.t.Errorf("once the instance is there: %v, asked %d times, want once", err, asked)
	}
}

// mute is a Cloud Foundry whose backing broker does not tell parameters: it says err, or what told holds, or, with
// neither, the truth.
type mute struct {
	broker.Backend
	err   error
	told  string
	asked *int
}

func (m mute) say(ctx context.Context, guid string, ask func(context.Context, string) (json.RawMessage, error)) (json.RawMessage, error) {
	if m.asked != nil {
		*m.asked++
	}
	if m.err != nil || m.told != "" {
		return json.RawMessage(m.told), m.err
	}
	return ask(ctx, guid)
}

func (m mute) KeyParameters(ctx context.Context, guid string) (json.RawMessage, error) {
	return m.say(ctx, guid, m.Backend.KeyParameters)
}

func (m mute) InstanceParameters(ctx context.Context, guid string) (json.RawMessage, error) {
	return m.say(ctx, guid, m.Backend.InstanceParameters)
}

// TestARotationThatCannotReadTheParameters is refused with a sentence and leaves no trace: a successor with other
// rights would be worse than none.
func TestARotationThatCannotReadTheParameters(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		cloud mute
		want  broker.Code
	}{
		"not offered":   {mute{err: broker.ErrNotRetrievable}, broker.CodeBadRequest},
		"kept back":     {mute{told: `{}`}, broker.CodeBadRequest},
		"not an object": {mute{told: `[1]`}, broker.CodeBadRequest},
		"refused":       {mute{err: errors.New("502")}, broker.CodeUnavailable},
		"busy":          {mute{err: fmt.Errorf("409: %w", broker.ErrBusy)}, broker.CodeConcurrency},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newReady(t, brokertest.ScheduleOptions{})
			r.binds("b", successor("b", "", readonly))
			r.binds("b2", successor("b2", "b", ""))
			test.cloud.Backend = r.Cloud
			r.Backend.Backend = test.cloud
			before := r.dump()
			for _, predecessor := range []string{"b", "b2"} {
				_, err := successor("next", predecessor, "").send(r)
				if broker.CodeOf(err) != test.want || !strings.Contains(err.Error(), "parameters") {
					t.Errorf("rotation of %s: %v, want %s that names the parameters", predecessor, err, test.want)
				}
			}
			r.unchanged(before)
			r.binds("next", successor("next", "b2", `{"role": "writer"}`)) // they need not be read
			r.keyHas("next", `{"role": "writer"}`)
		})
	}
}

// errMayNotWait is what the border says to a request that may not wait.
var errMayNotWait = errors.New("nobody else may wait")

// waiter is a broker.Waiter that asks the function.
type waiter func() error

// BeginWaiting implements broker.Waiter.
func (w waiter) BeginWaiting() error { return w() }

// full sends a request while nobody else may wait.
func full(q request) request {
	return func(ctx context.Context, b *broker.Broker) (broker.Result, error) {
		ctx, cancel := context.WithTimeout(ctx, 10*time.Second) // for one that waits unasked
		defer cancel()
		return q(broker.WithWaiter(ctx, waiter(func() error { return errMayNotWait })), b)
	}
}

// fetching is a fetch of the binding, of the instance without one.
func fetching(binding string) request {
	return func(ctx context.Context, b *broker.Broker) (result broker.Result, err error) {
		q := broker.FetchRequest{Client: brokertest.Client, InstanceID: "i", BindingID: binding}
		if binding == "" {
			_, err = b.FetchInstance(ctx, q)
		} else {
			_, err = b.FetchBinding(ctx, q)
		}
		return result, err
	}
}

// Law 10 and law 4: what would wait for Cloud Foundry asks first, and is refused without a trace; what is answered from
// the record, or later, never asks.
func TestOnlyWhatWaitsForCloudFoundryAsksToWait(t *testing.T) {
	t.Parallel()
	for _, claimFirst := range []bool{false, true} {
		r := newRun(t, brokertest.ScheduleOptions{Cloud: &brokertest.CloudOptions{}, ClaimFirst: claimFirst})
		refused := func(what string, q request) {
			t.Helper()
			before := r.dump()
			if _, err := full(q).send(r); !errors.Is(err, errMayNotWait) {
				t.Errorf("%s: %v, want it refused", what, err)
			}
			r.unchanged(before)
		}
		answered := func(what string, q request) broker.Result {
			t.Helper()
			result, err := full(q).send(r)
			if errors.Is(err, errMayNotWait) {
				t.Errorf("%s is refused", what)
			}
			return result
		}

		with := func(held bool) request {
			return bindWith(func(q *broker.BindRequest) { q.AcceptsIncomplete, q.Body.Parameters = !held, []byte(`{"size":1}`) })
		}
		heir := bindWith(func(q *broker.BindRequest) { q.BindingID, q.Body.PredecessorBindingID = "next", "b" })

		create := answered("a create", putOf(same)).Operation
		refused("a bind that waits for its instance", with(true))
		r.drive(create)
		answered("a create that exists", putOf(same))
		answered("an update", patchOf(same))
		refused("a held bind", with(true))
		bind := answered("a bind in the background", with(false)).Operation
		answered("the same bind while it runs", with(false))
		refused("a held one of the same binding", with(true))
		answered("a bind that is wrong", bindWith(func(q *broker.BindRequest) { q.Body.ServiceID = "other" }))
		r.drive(bind)
		refused("a bind that hands out credentials", with(false))
		refused("a successor that takes the parameters over", heir)
		refused("a fetch of the binding", fetching("b"))
		refused("a fetch of the instance", fetching(""))
		answered("a fetch of what is not there", fetching("none"))
		refused("a held unbind", deleteWith("b", syncDelete))
		unbind := answered("an unbind in the background", deleteWith("b", same)).Operation
		refused("a held one of the same binding", deleteWith("b", syncDelete))
		r.drive(unbind)
		answered("an unbind of what is gone", deleteWith("b", syncDelete))
		answered("a delete", deleteWith("", same))
		for _, operation := range []string{create, bind, unbind} {
			if operation == "" {
				t.Error("an operation was not begun")
			}
		}
	}
}
