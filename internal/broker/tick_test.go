package broker_test

import (
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

// TestARenamedRowIsStillOurs: law 7 and docs/protocol.md section 1. Names are what others may change.
func TestARenamedRowIsStillOurs(t *testing.T) {
	t.Parallel()
	rename := func(r *run, name string) {
		r.t.Helper()
		for _, row := range r.Cloud.Left() {
			if row.Name == name {
				r.Cloud.Rename(row.GUID, "renamed-"+name)
				return
			}
		}
		r.t.Fatalf("nothing is called %s: %s", name, r.Cloud.Describe())
	}
	bound := func(r *run) {
		r.ready()
		r.drive(r.accepted(r.bind()))
	}
	deleted := func(r *run) {
		op := r.accepted(r.remove())
		r.drive(op)
		r.wants(op, osb.Succeeded)
		r.left(0)
	}
	for name, live := range map[string]func(*run){
		"an instance is deleted with its key": func(r *run) { bound(r); rename(r, "i"); deleted(r) },
		"a key goes with its instance":        func(r *run) { bound(r); rename(r, "b"); deleted(r) },
		"a key is unbound": func(r *run) {
			bound(r)
			rename(r, "b")
			op := r.accepted(r.unbind())
			r.drive(op)
			r.wants(op, osb.Succeeded)
			r.left(1)
		},
		"an instance under which another took the name": func(r *run) {
			r.ready()
			rename(r, "i")
			stranger := r.Cloud.Plant("i", brokertest.OfferingDB)
			r.drive(r.accepted(r.remove()))
			if left := r.left(1); len(left) == 1 && left[0].GUID != stranger {
				r.t.Errorf("the stranger's instance went, ours stayed: %+v", left)
			}
		},
		"a create is ready whose row was seen": func(r *run) {
			op := r.accepted(r.put())
			r.step(op) // POST
			r.step(op) // sees it
			rename(r, "i")
			r.drive(op)
			r.wants(op, osb.Succeeded)
			r.left(1)
		},
		"a create is ready whose job names the row": func(r *run) {
			op := r.accepted(r.put())
			r.step(op) // POST
			rename(r, "i")
			r.drive(op)
			r.wants(op, osb.Succeeded)
			r.left(1)
		},
		"an instance is updated": func(r *run) {
			r.ready()
			rename(r, "i")
			op := r.accepted(r.patch(brokertest.PlanLarge))
			r.drive(op)
			r.wants(op, osb.Succeeded)
			deleted(r)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			live(newRun(t, brokertest.ScheduleOptions{}))
		})
	}
}

// restorable is a store that an operator may put an older copy in place of.
type restorable struct{ broker.Store }

// TestARestoredStoreRemovesNothing: what was made since the copy was taken is somebody's database (docs/protocol.md
// sections 1 and 9).
func TestARestoredStoreRemovesNothing(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		before, since func(*run)
		// copied is the state of the record in the copy.
		copied lifecycle.State
	}{
		"of before everything": {func(*run) {}, func(r *run) { r.ready() }, lifecycle.Absent},
		"of a former life": {func(r *run) { r.ready() }, func(r *run) {
			r.drive(r.accepted(r.remove()))
			r.ready()
		}, lifecycle.Ready},
		"of a delete": {func(r *run) { r.ready(); r.drive(r.accepted(r.remove())) }, func(r *run) { r.ready() }, lifecycle.Gone},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			kept := &restorable{}
			r := newRun(t, brokertest.ScheduleOptions{Store: func(_ *brokertest.Scheduler, s broker.Store) broker.Store {
				kept.Store = s
				return kept
			}})
			test.before(r)
			older := r.record(instanceKey())
			test.since(r)
			r.Scheduler.Store = brokertest.NewMemoryStore(r.Now)
			kept.Store = r.Scheduler.Store
			if older.Revision > 0 {
				older.Revision = 0
				if _, err := kept.Put(t.Context(), older, 0); err != nil {
					t.Fatal(err)
				}
			}
			living := r.left(1)
			if test.copied != lifecycle.Ready { // which is answered 200
				op := r.accepted(r.put())
				r.drive(op)
				r.failsBecause(op, "does not know")
			}
			op := r.accepted(r.remove())
			r.drive(op)
			r.failsBecause(op, "does not know")
			if left := r.left(1); len(left) != 1 || len(living) != 1 || left[0].GUID != living[0].GUID {
				t.Errorf("what lived is gone: %+v", left)
			}
			audited, err := r.Broker.Audit(t.Context(), brokertest.Client)
			if err != nil || audited != (broker.Audited{Seen: 1, Unknown: 1}) {
				t.Errorf("the audit saw %+v, %v; want the row reported as unknown", audited, err)
			}
		})
	}
}

// failsBecause fails unless the operation failed with a description that says why.
func (r *run) failsBecause(operation, why string) {
	r.t.Helper()
	p, err := r.polled(operation)
	if err != nil || p.State != osb.Failed || !strings.Contains(p.Description, why) {
		r.t.Errorf("%s is %q (%s), %v; want it failed because %q", operation, p.State, p.Description, err, why)
	}
}

// pointedAway is a Cloud Foundry at which the client was pointed by mistake.
type pointedAway struct{ broker.Backend }

func (pointedAway) there() broker.Place {
	return broker.Place{API: "https://api.fake.example", OrgGUID: "org-of-somebody"}
}

func (p pointedAway) Place(context.Context) (broker.Place, error) { return p.there(), nil }

func (pointedAway) Same(recorded broker.Place) bool { return recorded.OrgGUID == "org-of-somebody" }

func (pointedAway) KeyDetails(context.Context, string, string) (broker.KeyDetails, error) {
	return broker.KeyDetails{}, broker.ErrNotFound
}

func (p pointedAway) FindInstances(context.Context, broker.Lookup) (broker.Look, error) {
	return broker.Look{Began: brokertest.Epoch().Add(time.Hour), Place: p.there()}, nil
}

func (p pointedAway) FindInstance(context.Context, string, string) (broker.Look, error) {
	return broker.Look{Began: brokertest.Epoch().Add(time.Hour), Place: p.there()}, nil
}

func (p pointedAway) FindKeys(context.Context, broker.Lookup) (broker.Look, error) {
	return broker.Look{Began: brokertest.Epoch().Add(time.Hour), Place: p.there()}, nil
}

// TestAClientPointedElsewhereEndsNothing: law 8. An edited configuration makes an org look empty; what waits goes on
// once it is put right.
func TestAClientPointedElsewhereEndsNothing(t *testing.T) {
	t.Parallel()
	for name, begin := range map[string]func(*run) string{
		"a delete":  func(r *run) string { return r.accepted(r.remove()) },
		"an unbind": func(r *run) string { return r.accepted(r.unbind()) },
		"an update": func(r *run) string { return r.accepted(r.patch(brokertest.PlanLarge)) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newReady(t, brokertest.ScheduleOptions{})
			r.drive(r.accepted(r.bind()))
			right := r.Backend.Backend
			r.Backend.Backend = pointedAway{right}
			op := begin(r)
			for range 5 {
				r.step(op)
				r.Advance(time.Minute)
			}
			r.wants(op, osb.InProgress)
			r.left(2)
			r.Backend.Backend = right
			r.drive(op)
			r.wants(op, osb.Succeeded)
		})
	}
}

// TestATakenNameThatIsNotSeen: an instance that is shared into the space, or a name that differs only in its case,
// costs three POSTs at the usual pace (docs/protocol.md 4).
func TestATakenNameThatIsNotSeen(t *testing.T) {
	t.Parallel()
	posts := 0
	r := newRun(t, brokertest.ScheduleOptions{})
	r.intercepted().Call = func(context.Context, string, broker.InstanceCall, brokertest.Call) (broker.Answer, error) {
		posts++
		return broker.Answer{Reply: lifecycle.ReplyTaken}, nil
	}
	op := r.accepted(r.put())
	for range 10 {
		step := r.step(op)
		if step.Done {
			break
		}
		if step.Wait < 2*time.Second {
			t.Errorf("after %d POSTs it waits %v, want at least %v", posts, step.Wait, 2*time.Second)
		}
		r.Advance(step.Wait)
	}
	if posts != 3 {
		t.Errorf("%d POSTs, want 3", posts)
	}
	r.failsBecause(op, "taken in Cloud Foundry")
}

// TestWhatLivesOnIsWhatCloudFoundrySaysItIs: a DELETE cancels an update whose PATCH takes effect all the same, and
// fails. The instance lives on with the new plan (docs/protocol.md 6).
func TestWhatLivesOnIsWhatCloudFoundrySaysItIs(t *testing.T) {
	t.Parallel()
	r := newReady(t, brokertest.ScheduleOptions{})
	update := r.accepted(r.patch(brokertest.PlanLarge))
	r.step(update) // PATCH
	remove := r.accepted(r.remove())
	r.Cloud.FinishAll()
	r.step(remove) // DELETE
	for _, job := range r.Cloud.Running() {
		r.Cloud.Finish(job, brokertest.Rejected("not today"))
	}
	r.drive(remove)
	r.failsBecause(remove, "not today")
	body, err := r.fetchInstance()
	if want := brokertest.PlanID(brokertest.PlanLarge); err != nil || body.PlanID != want {
		t.Errorf("GET names the plan %q, %v; want %q", body.PlanID, err, want)
	}
}

// TestElsewhereIsSaidAtOnce: who is pointed elsewhere is told so, in the log and in the answer, and no new key is asked
// for there.
func TestElsewhereIsSaidAtOnce(t *testing.T) {
	t.Parallel()
	r := newReady(t, brokertest.ScheduleOptions{})
	r.drive(r.accepted(r.bind()))
	var log strings.Builder
	r.Log = &log
	r.Backend.Backend = pointedAway{r.Backend.Backend}
	if _, err := r.fetchBinding(); broker.CodeOf(err) != broker.CodeUnavailable || !strings.Contains(err.Error(), lifecycle.Elsewhere) {
		t.Errorf("GET = %v; want it to say that the client is pointed elsewhere", err)
	}
	key := bindingKey()
	key.BindingID = "new"
	op := r.accepted(r.begin("bind", successor("new", "", "")))
	r.Finish(r.Go("tick", func(ctx context.Context) (any, error) { return r.Broker.Advance(ctx, key, op) }))
	p, err := r.Broker.LastOperation(t.Context(), broker.PollRequest{Client: key.Client, InstanceID: key.InstanceID, BindingID: key.BindingID, Operation: op})
	if err != nil || p.State != osb.InProgress || p.Description != lifecycle.Elsewhere {
		t.Errorf("the new bind is %q (%s), %v; want it to wait and to say why", p.State, p.Description, err)
	}
	r.left(2)
	for _, want := range []string{"level=WARN", "names another Cloud Foundry or org", "https://api.fake.example", "former_apis"} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("the log does not hold %q:\n%s", want, log.String())
		}
	}
}

// TestLooksNameTheirOffering (docs/protocol.md 3.2): a process that has just started knows from that which space has to
// be seen before nothing counts as gone.
func TestLooksNameTheirOffering(t *testing.T) {
	t.Parallel()
	looks, silent := 0, []string{}
	r := newRun(t, brokertest.ScheduleOptions{})
	r.intercepted().Look = func(ctx context.Context, method string, q broker.Lookup, look brokertest.Look) (broker.Look, error) {
		if looks++; q.Offering != brokertest.OfferingDB {
			silent = append(silent, method)
		}
		return look(ctx)
	}
	r.ready()
	r.drive(r.accepted(r.bind()))
	r.drive(r.accepted(r.unbind()))
	r.drive(r.accepted(r.remove()))
	if looks < 4 || len(silent) > 0 {
		t.Errorf("of %d looks these named no offering: %q", looks, silent)
	}
}

// movedBackend is a Cloud Foundry whose API has another address than before; known says that its configuration names
// the former one.
type movedBackend struct {
	broker.Backend
	to    *broker.Place
	known bool
}

func (m movedBackend) FindInstances(ctx context.Context, q broker.Lookup) (broker.Look, error) {
	look, err := m.Backend.FindInstances(ctx, q)
	if *m.to != (broker.Place{}) {
		look.Place = *m.to
	}
	return look, err
}

func (m movedBackend) Place(ctx context.Context) (broker.Place, error) {
	if *m.to != (broker.Place{}) {
		return *m.to, nil
	}
	return m.Backend.Place(ctx)
}

func (m movedBackend) Same(recorded broker.Place) bool {
	return m.known && recorded.OrgGUID == m.to.OrgGUID
}

// TestAnAPIMayMove (docs/protocol.md 3.2): what was made under an address that the configuration calls a former one is
// at home; elsewhere a delete waits and believes no absence.
func TestAnAPIMayMove(t *testing.T) {
	t.Parallel()
	for _, known := range []bool{true, false} {
		var to broker.Place
		r := newRun(t, brokertest.ScheduleOptions{Backend: func(_ *brokertest.Scheduler, b broker.Backend) broker.Backend {
			return movedBackend{b, &to, known}
		}})
		r.ready()
		to = broker.Place{API: "https://new.example", OrgGUID: r.record(instanceKey()).Lifecycle.Place.OrgGUID}
		op := r.accepted(r.remove())
		for range 6 {
			r.step(op)
			r.Cloud.FinishAll()
		}
		ended := len(r.unfinished()) == 0
		if ended != known {
			t.Errorf("the former address is known %v: the delete ended %v", known, ended)
		}
	}
}

// TestAnOutageIsNoFailure: laws 8 and 10.
func TestAnOutageIsNoFailure(t *testing.T) {
	t.Parallel()
	r := newRun(t, brokertest.ScheduleOptions{})
	up := r.Backend.Backend
	r.unanswered(errors.New("no route to host"))
	r.intercepted().Call = func(context.Context, string, broker.InstanceCall, brokertest.Call) (broker.Answer, error) {
		return broker.Answer{Reply: lifecycle.ReplyUnknown}, errors.New("no route to host")
	}
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

// TestTheLeaseCoversTheCall (docs/protocol.md 3.3): however long the look-up took before it, nobody else takes the
// operation over while the call has its time.
func TestTheLeaseCoversTheCall(t *testing.T) {
	t.Parallel()
	r := newReady(t, brokertest.ScheduleOptions{})
	looker := r.Reach(r.tick(r.accepted(r.remove())), "FindInstances")
	r.Advance(50 * time.Second)
	r.Reach(looker, "DeleteInstance")
	until := r.record(instanceKey()).Lifecycle.Operation.Lease.Until
	if left := until.Sub(r.Now()); left != brokertest.CallTimeout {
		t.Errorf("the lease ends in %s, want the %s of the call", left, brokertest.CallTimeout)
	}
	r.Finish(looker)
}
