package broker

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/ferry-broker/ferry/internal/lifecycle"
	"github.com/ferry-broker/ferry/internal/osb"
)

// driver does the ticks of operations (docs/protocol.md section 3), for workflows and for held requests.
type driver struct {
	*parts
	// process begins the names of all drivers of this process; onlyProcess says that those of others are dead.
	process     string
	onlyProcess bool
	outages     *Throttle
	// acting are the places of ticks of a crowd that write and call.
	acting *places
}

// learnings bounds how many things one tick may ask for.
const learnings = 8

// tick does one step of the operation, as Broker.Advance describes it. name tells the drivers of this process apart.
func (dr *driver) tick(ctx context.Context, key Key, operation, name string) (Step, error) {
	rec, err := dr.records.store.Get(ctx, key)
	if errors.Is(err, ErrNotFound) {
		return Step{Done: true}, nil
	}
	if err != nil {
		return Step{}, err
	}
	t := dr.newTick(rec, operation, dr.process+"/"+name)
	d, err := dr.decide(ctx, rec, &t)
	if err != nil {
		return Step{}, err
	}
	return dr.carry(ctx, rec, t, d)
}

// decide asks for what the tick has to know, and returns what it then does. It writes nothing.
func (dr *driver) decide(ctx context.Context, rec Record, t *lifecycle.Tick) (lifecycle.Decision, error) {
	for range learnings {
		t.Now = dr.clock.now()
		t.LeaseUntil = t.Now.Add(dr.clock.callTimeout) // look-ups may have taken long
		d, err := dr.next(rec.Lifecycle, *t)
		if err != nil || !d.Effect.Do.Asks() {
			return d, err
		}
		if err := dr.learn(ctx, rec, t, d.Effect); err != nil {
			dr.unreachable(ctx, rec, d.Effect, err)
			t.NoAnswerReason = noAnswerReason(d.Effect.Do, err)
			return dr.blind(ctx, rec, t, err)
		}
	}
	return idle(rec), nil
}

// runsOn does a tick for a held request, and reports whether the operation runs on, as far as the tick knows, which has
// read the record. Its calls end with the request's budget.
func (dr *driver) runsOn(ctx context.Context, key Key, operation, name string) bool {
	step, err := dr.tick(ctx, key, operation, name)
	return err == nil && !step.Done
}

// blind decides a tick that could not learn what it had to know: it waits, and says so in the record where the janitor
// would take it for dead otherwise.
func (dr *driver) blind(ctx context.Context, rec Record, t *lifecycle.Tick, cause error) (lifecycle.Decision, error) {
	t.LookupFailed, t.Now, t.Wait = true, dr.clock.now(), dr.clock.stayAway(rec, t.Wait, retryIn(cause))
	if ctx.Err() != nil {
		return idle(rec), nil // it is we who stopped
	}
	return dr.next(rec.Lifecycle, *t)
}

// idle is the decision to wait and to write nothing.
func idle(rec Record) lifecycle.Decision {
	return lifecycle.Decision{Record: rec.Lifecycle, Outcome: lifecycle.Ongoing, Effect: lifecycle.Effect{Do: lifecycle.Wait}}
}

func (dr *driver) newTick(rec Record, operation, driver string) lifecycle.Tick {
	now := dr.clock.now()
	t := lifecycle.Tick{
		Operation: operation, ReadAt: now, SettleAfter: dr.clock.settleAfter, TombstoneTTL: dr.clock.tombstoneTTL,
		Pace: dr.clock.pace, Swept: dr.clock.swept, Wait: dr.clock.bounded(rec, dr.clock.pace.WaitOf(rec.Lifecycle, now)), Driver: driver,
	}
	if dr.onlyProcess {
		t.LivingDrivers = dr.process + "/"
	}
	return t
}

// carry makes the decision's write and then carries its effect out. A refused write ends the tick: somebody else has
// moved the record.
func (dr *driver) carry(ctx context.Context, rec Record, t lifecycle.Tick, d lifecycle.Decision) (Step, error) {
	if d.Outcome == lifecycle.Stopped {
		return Step{Done: true}, nil
	}
	if d.Wait > 0 {
		t.Wait = d.Wait
	}
	if d.Write {
		stored, won, err := dr.records.put(ctx, dr.describe(ctx, settle(rec, d), d, t.Look), rec.Revision)
		if err != nil {
			return Step{}, err
		}
		if !won {
			return Step{Wait: t.Wait, Done: !stored.Lifecycle.Running(t.Operation)}, nil
		}
		rec = stored
	}
	switch d.Effect.Do {
	case lifecycle.SendCreate, lifecycle.SendUpdate, lifecycle.SendDelete, lifecycle.SendDeleteLeftover:
		return dr.send(ctx, rec, t, d.Effect)
	case lifecycle.Unbind:
		dr.unbindAll(ctx, rec, d.Effect.Bindings)
	default:
	}
	if d.Result != nil {
		dr.operations.ended(ctx, rec, *d.Result)
		return Step{Done: true}, nil
	}
	return Step{Wait: t.Wait}, nil
}

// settle is the record that a decision writes: what Cloud Foundry has accepted is not kept, and what an update led to
// is in force once it succeeded.
func settle(rec Record, d lifecycle.Decision) Record {
	rec.Lifecycle = d.Record
	if d.ForgetParameters {
		rec.Parameters = nil
	}
	if d.Result != nil && rec.Target != nil {
		if d.Result.Succeeded && d.Result.Verb == lifecycle.Update {
			rec.Attributes = *rec.Target
		}
		rec.Target = nil
	}
	return rec
}

// describe keeps what an operation that ended says of an instance that lives on: what the backing broker told of it,
// and the plan and version that Cloud Foundry shows, whatever was asked for. A failed or cancelled update may have
// taken effect (docs/protocol.md 5).
func (dr *driver) describe(ctx context.Context, rec Record, d lifecycle.Decision, look *Look) Record {
	if d.Result == nil || rec.Lifecycle.State == lifecycle.Gone || look == nil {
		return rec
	}
	for _, row := range look.Rows {
		if row.GUID != rec.Lifecycle.CFGUID {
			continue
		}
		rec.Attributes = dr.planOf(ctx, rec, row)
		rec.DashboardURL, rec.Metadata = row.DashboardURL, nil
		if p := row.Provided; p != nil {
			rec.Metadata = &osb.InstanceMetadata{Labels: p.Labels, Attributes: p.Attributes}
		}
	}
	return rec
}

// planOf returns the attributes with the plan and the maintenance version of the row. A plan that the catalog does not
// know under this GUID tells nothing.
func (dr *driver) planOf(ctx context.Context, rec Record, row Row) Attributes {
	a := rec.Attributes
	if row.PlanGUID != "" && row.PlanGUID != dr.planGUID(ctx, rec.Key.Client, a) {
		plan, err := dr.catalog.PlanOf(ctx, rec.Key.Client, row.PlanGUID)
		if err == nil && plan.ServiceID == a.ServiceID && plan.PlanID != a.PlanID {
			a.PlanID, a.PlanGUID, a.MaintenanceVersion = plan.PlanID, plan.PlanGUID, row.MaintenanceVersion
		}
	}
	a.MaintenanceVersion = or(row.MaintenanceVersion, a.MaintenanceVersion)
	return a
}

// retryIn is how long a backend asked us to stay away.
func retryIn(err error) time.Duration {
	if e, ok := errors.AsType[RetryIn](err); ok {
		return e.RetryIn()
	}
	return 0
}

// noAnswerReason is what users are told when a tick did not get what it asked for.
func noAnswerReason(do lifecycle.Action, err error) string {
	if do == lifecycle.ReadInstance || do == lifecycle.ListBindings {
		return "The broker cannot reach its store at the moment. It goes on trying."
	}
	return userText(err)
}

// userText is what the backend's error has to say to users; empty for nothing.
func userText(err error) string {
	if e, ok := errors.AsType[UserTexter](err); ok {
		return e.UserText()
	}
	return ""
}

// unreachable notes that Cloud Foundry did not tell what a tick needed. Nothing follows from that but another try.
func (dr *driver) unreachable(ctx context.Context, rec Record, e lifecycle.Effect, err error) {
	if ctx.Err() != nil {
		return // it is we who stopped
	}
	level := slog.LevelInfo
	if dr.outages.Pass(rec.Key.Client, dr.clock.now()) {
		level = slog.LevelWarn
	}
	text := "Cloud Foundry did not answer; the operation waits"
	if elsewhere(err) {
		text = "the configuration names another Cloud Foundry or org; the operation waits"
	}
	dr.logger.LogAttrs(ctx, level, text, keyAttrs(rec.Key,
		slog.String("operation", rec.Lifecycle.Operation.ID), slog.String("step", stepName(e.Do)), slog.String("error", err.Error()))...)
}

// learn brings what the decision asked for into the tick. An error means that it is not known now, and nothing more.
func (dr *driver) learn(ctx context.Context, rec Record, t *lifecycle.Tick, e lifecycle.Effect) error {
	switch e.Do {
	case lifecycle.ReadInstance:
		v, err := dr.records.instanceView(ctx, rec.Key)
		t.Instance = &v
		return err
	case lifecycle.ListBindings:
		return dr.listBindings(ctx, rec, t)
	default:
		return dr.askBackend(ctx, rec, t, e)
	}
}

func (dr *driver) listBindings(ctx context.Context, rec Record, t *lifecycle.Tick) error {
	bindings, err := dr.records.store.Bindings(ctx, rec.Key)
	if err != nil {
		return err
	}
	t.BindingsKnown = true
	for _, r := range bindings {
		l := r.Lifecycle
		t.Bindings = append(t.Bindings, lifecycle.BindingView{
			ID: r.Key.BindingID, State: l.State, InstanceCreateOp: l.InstanceCreateOp,
			HasOpenCreate: l.HasOpenCall(lifecycle.Create, t.ReadAt), Problem: unbindTrouble(r),
		})
	}
	return nil
}

// unbindTrouble is what the deletion of a binding waits for, or why it failed.
func unbindTrouble(r Record) string {
	l := r.Lifecycle
	switch {
	case l.State == lifecycle.DeleteFailed && len(l.Finished) > 0:
		return l.Finished[len(l.Finished)-1].Description
	case l.State == lifecycle.Deleting:
		return or(l.Operation.NoAnswer, l.Operation.TemporaryRefusal)
	default:
		return ""
	}
}

func (dr *driver) askBackend(ctx context.Context, rec Record, t *lifecycle.Tick, e lifecycle.Effect) error {
	backend, err := dr.backends.of(rec.Key.Client)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, dr.clock.lookTimeout)
	defer cancel()
	if e.Do == lifecycle.FindOrg {
		place, err := backend.Place(ctx)
		t.Place = inRecord(place, backend, rec)
		return misplaced(rec, *t.Place, err)
	}
	if e.Do == lifecycle.AskJob {
		job, err := backend.Job(ctx, e.Job)
		if err != nil && job.State != lifecycle.JobUnclear {
			return err
		}
		if err != nil {
			t.Wait, t.NoAnswerReason = dr.clock.stayAway(rec, t.Wait, retryIn(err)), userText(err)
		}
		t.Job = &job
		return nil
	}
	look, err := find(ctx, backend, rec, e, offering(rec, t))
	if err != nil {
		return err
	}
	look.Place = *inRecord(look.Place, backend, rec)
	t.Look = &look
	return misplaced(rec, look.Place, nil)
}

// misplaced returns an *elsewhereError where the tick looked, or would call, elsewhere than the record's rows are; else
// the error that it was given.
func misplaced(rec Record, at Place, err error) error {
	if was := rec.Lifecycle.Place; err == nil && was != (Place{}) && at != was {
		return &elsewhereError{was: was, is: at}
	}
	return err
}

// inRecord returns the place as the record has it, if that is the same: a Cloud Foundry whose API got another address
// is no other one, where its configuration says so.
func inRecord(at Place, backend Backend, rec Record) *Place {
	if was := rec.Lifecycle.Place; was.OrgGUID == at.OrgGUID && backend.Same(was) {
		at = was
	}
	return &at
}

// offering returns the name of the record's offering; a binding's is its instance's, where the tick has read that.
func offering(rec Record, t *lifecycle.Tick) string {
	if t.Instance != nil && rec.Key.BindingID != "" {
		return t.Instance.Offering
	}
	return rec.Attributes.OfferingName
}

func find(ctx context.Context, backend Backend, rec Record, e lifecycle.Effect, offering string) (Look, error) {
	switch {
	case e.Do == lifecycle.FindByGUID:
		return backend.FindInstance(ctx, e.GUID, offering)
	case rec.Key.BindingID != "":
		return backend.FindKeys(ctx, Lookup{Name: rec.Key.BindingID, GUIDs: e.GUIDs, Instance: e.GUID, Offering: offering})
	default:
		return backend.FindInstances(ctx, Lookup{Name: rec.Key.InstanceID, GUIDs: e.GUIDs, Offering: offering})
	}
}
