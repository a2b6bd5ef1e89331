package broker_test

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/ferry-broker/ferry/internal/broker"
	"github.com/ferry-broker/ferry/internal/brokertest"
	"github.com/ferry-broker/ferry/internal/lifecycle"
	"github.com/ferry-broker/ferry/internal/osb"
)

// grudging is what Cloud Foundry answers instead, where a test says so.
type grudging struct {
	// create and remove answer a POST of an instance and any DELETE; look fails a look-up.
	create, remove *broker.Answer
	look           error
	removals       int
}

func newGrudgingRun(t *testing.T, o brokertest.ScheduleOptions) (*run, *grudging) {
	t.Helper()
	r, m := newRun(t, o), &grudging{}
	cloud := r.intercepted()
	cloud.Look = func(ctx context.Context, _ string, _ broker.Lookup, look brokertest.Look) (broker.Look, error) {
		if m.look != nil {
			return broker.Look{}, m.look
		}
		return look(ctx)
	}
	cloud.Call = func(ctx context.Context, method string, _ broker.InstanceCall, call brokertest.Call) (broker.Answer, error) {
		answer := m.create
		if strings.HasPrefix(method, "Delete") {
			m.removals++
			answer = m.remove
		}
		if answer == nil {
			return call(ctx)
		}
		return *answer, nil
	}
	return r, m
}

// sayer is an error that has something to say to users, and how long to stay away.
type sayer struct {
	text  string
	after time.Duration
}

func (s sayer) Error() string { return "status 403" }

func (s sayer) UserText() string { return s.text }

func (s sayer) RetryIn() time.Duration { return s.after }

// TestNoNumberFromOutsideOutlivesTheDeadline: whatever Cloud Foundry asks for, an operation is looked at again within
// an hour, and ends at its deadline; the waits and Retry-After that platforms are told never pass it.
func TestNoNumberFromOutsideOutlivesTheDeadline(t *testing.T) {
	t.Parallel()
	for name, after := range map[string]time.Duration{"an hour": time.Hour, "two days": 48 * time.Hour, "fifty minutes": 50 * time.Minute} {
		for what, trouble := range map[string]func(*grudging){
			"by the answer to a POST": func(m *grudging) { m.create = &broker.Answer{Reply: lifecycle.ReplyBusy, RetryAfter: after} },
			"by a look-up":            func(m *grudging) { m.look = sayer{after: after} },
		} {
			t.Run(name+" "+what, func(t *testing.T) {
				t.Parallel()
				const deadline = 3 * time.Hour
				r, m := newGrudgingRun(t, brokertest.ScheduleOptions{Deadline: deadline})
				trouble(m)
				op := r.accepted(r.put())
				end := r.Now().Add(deadline)
				for n := 0; ; n++ {
					step := r.step(op)
					if step.Done {
						break
					}
					if left := end.Sub(r.Now()); step.Wait > time.Hour || step.Wait > left || left <= 0 || n > 200 {
						t.Fatalf("it waits %s, %s before its deadline, after %d steps", step.Wait, left, n)
					}
					r.Advance(step.Wait)
					if p, err := r.polled(op); err != nil || p.RetryAfter > int(max(end.Sub(r.Now()), 2*time.Second)/time.Second) {
						t.Fatalf("Retry-After %d, %s before the deadline, %v", p.RetryAfter, end.Sub(r.Now()), err)
					}
				}
				if r.Now().After(end) {
					t.Errorf("it ended %s after its deadline", r.Now().Sub(end))
				}
				r.wants(op, osb.Failed)
			})
		}
	}
}

// TestAPollSaysWhatAnOperationWaitsFor: the text of a refusal, or of a Cloud Foundry that cannot be asked, and at the
// deadline the same. It is in no log.
func TestAPollSaysWhatAnOperationWaitsFor(t *testing.T) {
	t.Parallel()
	const text = "The organization is suspended, says hunter2."
	for name, trouble := range map[string]func(*grudging){
		"a DELETE is refused":    func(m *grudging) { m.remove = &broker.Answer{Reply: lifecycle.ReplyRefused, Description: text} },
		"a look-up is forbidden": func(m *grudging) { m.look = sayer{text: text} },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var log bytes.Buffer
			r, m := newGrudgingRun(t, brokertest.ScheduleOptions{Deadline: 30 * time.Hour})
			r.Log = &log
			r.ready()
			trouble(m)
			op := r.accepted(r.remove())
			r.step(op)
			if p, err := r.polled(op); err != nil || p.State != osb.InProgress || p.Description != text {
				t.Errorf("the poll says %q, %v", p.Description, err)
			}
			r.Advance(30 * time.Hour)
			r.step(op)
			if p, err := r.polled(op); err != nil || p.State != osb.Failed || !strings.Contains(p.Description, text) {
				t.Errorf("at the deadline the poll says %q, %v", p.Description, err)
			}
			if strings.Contains(log.String(), "hunter2") {
				t.Errorf("the log quotes it:\n%s", log.String())
			}
		})
	}
}

// TestABrokersWordEndsADelete: refused at once, and by a job that leaves the row as it is.
func TestABrokersWordEndsADelete(t *testing.T) {
	t.Parallel()
	r, m := newGrudgingRun(t, quick())
	r.ready()
	m.remove = &broker.Answer{Reply: lifecycle.ReplyRefused, Description: "It is in use.", FromBackingBroker: true}
	op := r.accepted(r.remove())
	for !r.step(op).Done && m.removals < 100 {
		r.Advance(time.Minute)
	}
	if p, err := r.polled(op); err != nil || p.State != osb.Failed || p.Description != "It is in use." || m.removals != 4 {
		t.Errorf("after %d DELETEs the poll says %q %q, %v", m.removals, p.State, p.Description, err)
	}
}

// TestARefusedUnbindEndsItsDeprovision: Cloud Foundry unbinds on the way to the instance, which the backing broker
// refuses again. The delete names the binding and the reason, asks a few times, not at each step for a week, and fails.
func TestARefusedUnbindEndsItsDeprovision(t *testing.T) {
	t.Parallel()
	r, m := newGrudgingRun(t, brokertest.ScheduleOptions{})
	r.ready()
	r.drive(r.accepted(r.bind()))
	op := r.accepted(r.remove())
	r.step(op)
	unbind := r.record(bindingKey()).Lifecycle.Operation.ID
	r.step(unbind)
	r.failJob(brokertest.Rejected("It is in use."))
	r.step(unbind)
	r.wants(unbind, osb.Failed)
	m.removals = 0
	for n := 0; !r.step(op).Done && n < 100; n++ {
		if len(r.Cloud.Running()) > 0 {
			r.failJob(brokertest.End{Fail: true, Description: "Service broker failed to delete service binding for instance i: It is in use."})
		}
		if p, err := r.polled(op); m.removals > 2 && (err != nil || !strings.HasPrefix(p.Description, "The service binding b could not be deleted: It is in use.")) {
			t.Errorf("after %d DELETEs the poll says %q, %v", m.removals, p.Description, err)
		}
		r.Advance(time.Minute)
	}
	if p, err := r.polled(op); err != nil || p.State != osb.Failed || p.Description != "The service binding b could not be deleted: It is in use." || m.removals != 4 {
		t.Errorf("after %d DELETEs the poll says %q %q, %v", m.removals, p.State, p.Description, err)
	}
}

// TestADriverComesBackSoonAfterAnOutage: the first answer makes the pace that of the beginning, and the number that
// polls name with it.
func TestADriverComesBackSoonAfterAnOutage(t *testing.T) {
	t.Parallel()
	r, m := newGrudgingRun(t, brokertest.ScheduleOptions{})
	r.ready()
	op := r.accepted(r.remove())
	m.look = sayer{text: "Nobody answers."}
	r.step(op)
	r.Advance(75 * time.Second)
	if step := r.step(op); step.Wait < 20*time.Second {
		t.Errorf("while it is away the next step comes after %s", step.Wait)
	}
	m.look = nil
	step := r.step(op)
	p, err := r.polled(op)
	if step.Wait != 2*time.Second || err != nil || p.RetryAfter != 2 || p.Description != "Cloud Foundry is deleting the service instance." {
		t.Errorf("the next step comes after %s, the poll says %+v, %v", step.Wait, p, err)
	}
}

// TestAPlanThatWasRefused [R17]: the marketplace is read again. While it shows the plan, one more try is made, and then
// the refusal stands.
func TestAPlanThatWasRefused(t *testing.T) {
	t.Parallel()
	create := func(r *run) string { return r.accepted(r.put()) }
	update := func(r *run) string { return r.accepted(r.patch(brokertest.PlanLarge)) }
	for name, test := range map[string]struct {
		request  func(*run) string
		given    func(*run)
		refuse   int // calls, counted from the request on
		refreshs error
		gone     bool // the marketplace, read again, does not show the plan
		want     osb.OperationState
		calls    int
	}{
		"a create, refused once":                   {create, nil, 1, nil, false, osb.Succeeded, 2},
		"a create, refused twice":                  {create, nil, 2, nil, false, osb.Failed, 2},
		"a create of a plan that is not shown":     {create, nil, 1, nil, true, osb.Failed, 1},
		"a create while the marketplace is silent": {create, nil, 5, errors.New("503"), false, osb.Succeeded, 6},
		"an update, refused once":                  {update, func(r *run) { r.ready() }, 1, nil, false, osb.Succeeded, 2},
		"an update, refused twice":                 {update, func(r *run) { r.ready() }, 2, nil, false, osb.Failed, 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRun(t, brokertest.ScheduleOptions{})
			if test.given != nil {
				test.given(r)
			}
			calls := 0 // that name a plan, which Cloud Foundry does not show for a while
			r.intercepted().Call = func(ctx context.Context, _ string, c broker.InstanceCall, call brokertest.Call) (broker.Answer, error) {
				if c.PlanGUID != "" {
					calls++
				}
				if c.PlanGUID == "" || calls > test.refuse {
					return call(ctx)
				}
				return broker.Answer{
					Reply: lifecycle.ReplyRefused, StalePlan: true, Description: "Invalid service plan. Ensure that it exists.",
				}, errors.New("422")
			}
			catalog := brokertest.NewFakeCatalog()
			catalog.OnRefresh = func() error {
				if test.gone {
					catalog.Plans = nil
				}
				return test.refreshs
			}
			r.Catalog.Catalog = catalog
			op := test.request(r)
			r.drive(op)
			r.wants(op, test.want)
			if calls != test.calls {
				t.Errorf("%d calls, want %d", calls, test.calls)
			}
		})
	}
}

// TestTheNoteOutlivesItsRequest [3.5]: the request's time ends while its call is being answered. An unbind would have
// to wait the call out if nobody noted the answer.
func TestTheNoteOutlivesItsRequest(t *testing.T) {
	t.Parallel()
	r := newReady(t, brokertest.ScheduleOptions{})
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
	r := newReady(t, brokertest.ScheduleOptions{Backend: func(_ *brokertest.Scheduler, b broker.Backend) broker.Backend {
		return &brokertest.Intercepted{Backend: b, Call: answeredOnce("UpdateInstance", broker.Answer{Reply: lifecycle.ReplyRefused, Description: "not today"})}
	}})
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

// TestASlowLookIsNoOutage: a look-up has a minute, however short the time is in which a call of unknown fate may still
// take effect.
func TestASlowLookIsNoOutage(t *testing.T) {
	t.Parallel()
	var look, call time.Duration
	left := func(ctx context.Context) time.Duration { at, _ := ctx.Deadline(); return time.Until(at) }
	r := newRun(t, brokertest.ScheduleOptions{Configure: func(o *broker.Options) {
		o.SettleAfter, o.CallTimeout = 2*time.Second, 0
	}})
	cloud := r.intercepted()
	cloud.Look = func(ctx context.Context, _ string, _ broker.Lookup, do brokertest.Look) (broker.Look, error) {
		look = left(ctx)
		return do(ctx)
	}
	cloud.Call = func(ctx context.Context, _ string, _ broker.InstanceCall, do brokertest.Call) (broker.Answer, error) {
		call = left(ctx)
		return do(ctx)
	}
	op := r.accepted(r.put())
	r.step(op)
	r.step(op)
	if look < 50*time.Second || call > 2*time.Second {
		t.Errorf("a look-up had %s, a call %s; want a minute, and no more than two seconds", look, call)
	}
}
