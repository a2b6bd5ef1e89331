package broker_test

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"time"

	"github.com/ferry-broker/ferry/internal/broker"
	"github.com/ferry-broker/ferry/internal/brokertest"
	"github.com/ferry-broker/ferry/internal/lifecycle"
	"github.com/ferry-broker/ferry/internal/osb"
)

// grudging answers instead of Cloud Foundry where a test says so.
type grudging struct {
	broker.Backend
	// create and remove answer a POST of an instance and any DELETE; look fails a look-up.
	create, remove *broker.Answer
	look           error
	removals       int
}

func (m *grudging) CreateInstance(ctx context.Context, c broker.InstanceCall) (broker.Answer, error) {
	if m.create != nil {
		return *m.create, nil
	}
	return m.Backend.CreateInstance(ctx, c)
}

func (m *grudging) DeleteInstance(ctx context.Context, guid string) (broker.Answer, error) {
	m.removals++
	if m.remove != nil {
		return *m.remove, nil
	}
	return m.Backend.DeleteInstance(ctx, guid)
}

func (m *grudging) DeleteKey(ctx context.Context, guid string) (broker.Answer, error) {
	m.removals++
	if m.remove != nil {
		return *m.remove, nil
	}
	return m.Backend.DeleteKey(ctx, guid)
}

func (m *grudging) FindInstances(ctx context.Context, name string, guids ...string) (broker.Look, error) {
	if m.look != nil {
		return broker.Look{}, m.look
	}
	return m.Backend.FindInstances(ctx, name, guids...)
}

func (m *grudging) FindKeys(ctx context.Context, instance, name string, guids ...string) (broker.Look, error) {
	if m.look != nil {
		return broker.Look{}, m.look
	}
	return m.Backend.FindKeys(ctx, instance, name, guids...)
}

func newGrudgingRun(t *testing.T, o brokertest.ScheduleOptions) (*run, *grudging) {
	t.Helper()
	m := &grudging{}
	o.Backend = func(_ *brokertest.Scheduler, b broker.Backend) broker.Backend { m.Backend = b; return m }
	return newRun(t, o), m
}

// sayer is an error that has something to say to users, and how long to stay away.
type sayer struct {
	text  string
	after time.Duration
}

func (s sayer) Error() string          { return "status 403" }
func (s sayer) UserText() string       { return s.text }
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

// heldUnbind begins an unbind that its platform wants finished in the answer.
func (r *run) heldUnbind() *brokertest.Actor {
	return r.Go("held unbind", func(ctx context.Context) (any, error) {
		q := deleteOf("b")
		q.AcceptsIncomplete = false
		return r.Broker.Unbind(ctx, q)
	})
}

// TestEachHeldRequestDrives: once the request that began the operation cannot be alive any more, the next one drives
// it, whatever its workflow waits for; of many of them one.
func TestEachHeldRequestDrives(t *testing.T) {
	t.Parallel()
	r, m := newGrudgingRun(t, quick())
	r.ready()
	r.drive(r.accepted(r.bind()))
	m.look = sayer{text: "Nobody answers."}
	first := r.Reach(r.heldUnbind(), "Sleep")
	second := r.Reach(r.heldUnbind(), "Sleep")
	r.Choose(first, brokertest.Drop)
	r.refused(first, broker.CodeOutOfTime)
	m.look = nil
	looks := func() int { return strings.Count(strings.Join(r.Trace, "\n"), ": FindKeys: ") }
	before := looks()
	r.Reach(r.Reach(second, "Get binding"), "Sleep")
	if n := looks() - before; n != 0 {
		t.Errorf("%d look-ups while the first request may be alive", n)
	}
	r.Advance(26 * time.Second)
	third := r.Reach(r.heldUnbind(), "Sleep")
	for _, a := range []*brokertest.Actor{second, third} {
		if result, err := r.settled(a); err != nil || result.Outcome != broker.OutcomeDeleted {
			t.Errorf("%s = %+v, %v; want it deleted", a.Name, result, err)
		}
	}
	if n := looks() - before; n == 0 || n > 3 || third.Writes > 0 {
		t.Errorf("%d look-ups, %d writes of the third", n, third.Writes)
	}
	r.left(1)
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
