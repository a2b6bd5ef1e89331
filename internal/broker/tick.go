package broker

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/ferry-broker/ferry/internal/lifecycle"
	"github.com/ferry-broker/ferry/internal/osb"
)

var _ Advancer = (*Broker)(nil)

// Advance does one tick of the operation: read, look up, decide, write, send
// (docs/protocol.md section 3). It may run twice, late, or beside another one.
//
// Step.Done is true once the operation has ended or is not the current one. An
// error means that the store, or something of our own, is out of order.
func (b *Broker) Advance(ctx context.Context, key Key, operation string) (Step, error) {
	return b.tick(ctx, key, operation, b.Process+"/workflow")
}

// learnings bounds how many things one tick may ask for.
const learnings = 8

func (b *Broker) tick(ctx context.Context, key Key, operation, driver string) (Step, error) {
	rec, err := b.Store.Get(ctx, key)
	if errors.Is(err, ErrNotFound) {
		return Step{Done: true}, nil
	}
	if err != nil {
		return Step{}, err
	}
	t := b.newTick(rec, operation, driver)
	for range learnings {
		t.Now = b.Now()
		t.LeaseUntil = t.Now.Add(b.CallTimeout) // look-ups may have taken long
		d, err := lifecycle.Next(rec.Lifecycle, t)
		if err != nil {
			return Step{}, err
		}
		if !asks(d.Effect.Do) {
			return b.carry(ctx, rec, t, d)
		}
		if err := b.learn(ctx, rec, &t, d.Effect); err != nil {
			b.unreachable(ctx, rec, d.Effect, err)
			t.NoAnswerReason = noAnswerReason(d.Effect.Do, err)
			return b.blind(ctx, rec, t, err)
		}
	}
	return Step{Wait: t.Wait}, nil
}

// blind ends a tick that could not learn what it had to know: it waits, and says so in
// the record where the janitor would take it for dead otherwise.
func (b *Broker) blind(ctx context.Context, rec Record, t lifecycle.Tick, cause error) (Step, error) {
	t.LookupFailed, t.Now, t.Wait = true, b.Now(), b.stayAway(rec, t.Wait, retryIn(cause))
	if ctx.Err() != nil {
		return Step{Wait: t.Wait}, nil // it is we who stopped
	}
	d, err := lifecycle.Next(rec.Lifecycle, t)
	if err != nil {
		return Step{}, err
	}
	return b.carry(ctx, rec, t, d)
}

func (b *Broker) newTick(rec Record, operation, driver string) lifecycle.Tick {
	now := b.Now()
	t := lifecycle.Tick{
		Operation: operation, ReadAt: now, SettleAfter: b.SettleAfter, TombstoneTTL: b.TombstoneTTL, Pace: b.Pace,
		Wait: b.bounded(rec, b.Pace.WaitOf(rec.Lifecycle, now)), Driver: driver,
	}
	if b.OnlyProcess {
		t.LivingDrivers = b.Process + "/"
	}
	return t
}

// asks reports whether the effect brings knowledge that the same tick goes on with.
func asks(do lifecycle.Action) bool {
	switch do {
	case lifecycle.ReadInstance, lifecycle.ListBindings, lifecycle.FindByName, lifecycle.FindByGUID, lifecycle.AskJob, lifecycle.FindOrg:
		return true
	default:
		return false
	}
}

// carry makes the decision's write and then carries its effect out. A refused write
// ends the tick: somebody else has moved the record.
func (b *Broker) carry(ctx context.Context, rec Record, t lifecycle.Tick, d lifecycle.Decision) (Step, error) {
	if d.Outcome == lifecycle.Stopped {
		return Step{Done: true}, nil
	}
	if d.Wait > 0 {
		t.Wait = d.Wait
	}
	if d.Write {
		stored, won, err := b.put(ctx, b.describe(ctx, settle(rec, d), d, t.Look), rec.Revision)
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
		return b.send(ctx, rec, t, d.Effect)
	case lifecycle.Unbind:
		b.unbindAll(ctx, rec, d.Effect.Bindings)
	default:
	}
	if d.Result != nil {
		b.ended(ctx, rec, *d.Result)
		return Step{Done: true}, nil
	}
	return Step{Wait: t.Wait}, nil
}

// settle is the record that a decision writes: what Cloud Foundry has accepted is
// not kept, and what an update led to is in force once it succeeded.
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

// describe keeps what an operation that ended says of an instance that lives on: what the
// backing broker told of it, and the plan and version that Cloud Foundry shows, whatever
// was asked for. A failed or cancelled update may have taken effect (protocol.md 5).
func (b *Broker) describe(ctx context.Context, rec Record, d lifecycle.Decision, look *Look) Record {
	if d.Result == nil || rec.Lifecycle.State == lifecycle.Gone || look == nil {
		return rec
	}
	for _, row := range look.Rows {
		if row.GUID != rec.Lifecycle.CFGUID {
			continue
		}
		rec.Attributes = b.planOf(ctx, rec, row)
		rec.DashboardURL, rec.Metadata = row.DashboardURL, nil
		if p := row.Provided; p != nil {
			rec.Metadata = &osb.InstanceMetadata{Labels: p.Labels, Attributes: p.Attributes}
		}
	}
	return rec
}

// planOf returns the attributes with the plan and the maintenance version of the row. A
// plan that the catalog does not know under this GUID tells nothing.
func (b *Broker) planOf(ctx context.Context, rec Record, row Row) Attributes {
	a := rec.Attributes
	if row.PlanGUID != "" && row.PlanGUID != b.planGUID(ctx, rec.Key.Client, a) {
		plan, err := b.Catalog.PlanOf(ctx, rec.Key.Client, row.PlanGUID)
		if err == nil && plan.ServiceID == a.ServiceID && plan.PlanID != a.PlanID {
			a.PlanID, a.PlanGUID, a.MaintenanceVersion = plan.PlanID, plan.PlanGUID, row.MaintenanceVersion
		}
	}
	a.MaintenanceVersion = or(row.MaintenanceVersion, a.MaintenanceVersion)
	return a
}

func (b *Broker) ended(ctx context.Context, rec Record, f lifecycle.Finished) {
	state := "succeeded"
	if !f.Succeeded {
		state = "failed"
	}
	took := b.elapsed(rec)
	b.Observer.OperationEnded(string(rec.Lifecycle.Kind), string(f.Verb), state, took)
	// The description stays out: a backing broker's words may quote what was sent.
	b.Logger.LogAttrs(ctx, b.level(rec, f), "operation ended", keyAttrs(rec.Key,
		slog.String("operation", f.ID), slog.String("state", state), slog.String("code", f.Code),
		slog.Int64("duration_ms", took.Milliseconds()))...)
}

// level: what a platform or a backing broker causes is a healthy day's work; an
// operation past its deadline is for the operator.
func (b *Broker) level(rec Record, f lifecycle.Finished) slog.Level {
	if !f.Succeeded && !f.EndedAt.Before(rec.Lifecycle.Operation.Deadline) {
		return slog.LevelWarn
	}
	return slog.LevelInfo
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

// unreachable notes that Cloud Foundry did not tell what a tick needed. Nothing
// follows from that but another try.
func (b *Broker) unreachable(ctx context.Context, rec Record, e lifecycle.Effect, err error) {
	if ctx.Err() != nil {
		return // it is we who stopped
	}
	level := slog.LevelInfo
	if b.Outages.Pass(rec.Key.Client, b.Now()) {
		level = slog.LevelWarn
	}
	text := "Cloud Foundry did not answer; the operation waits"
	if elsewhere(err) {
		text = "the configuration names another Cloud Foundry or org; the operation waits"
	}
	b.Logger.LogAttrs(ctx, level, text, keyAttrs(rec.Key,
		slog.String("operation", rec.Lifecycle.Operation.ID), slog.String("step", stepName(e.Do)), slog.String("error", err.Error()))...)
}

// remaining is the time left for a call since its intent was written: none outlives
// its absolute deadline, whatever happened to its sender in between.
func (b *Broker) remaining(intent time.Time) time.Duration {
	return intent.Add(b.CallTimeout).Sub(b.Now())
}

// learn brings what the decision asked for into the tick. An error means that it is
// not known now, and nothing more.
func (b *Broker) learn(ctx context.Context, rec Record, t *lifecycle.Tick, e lifecycle.Effect) error {
	switch e.Do {
	case lifecycle.ReadInstance:
		v, err := b.instanceView(ctx, rec.Key)
		t.Instance = &v
		return err
	case lifecycle.ListBindings:
		return b.listBindings(ctx, rec, t)
	default:
		return b.askBackend(ctx, rec, t, e)
	}
}

func (b *Broker) listBindings(ctx context.Context, rec Record, t *lifecycle.Tick) error {
	bindings, err := b.Store.Bindings(ctx, rec.Key)
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

func (b *Broker) askBackend(ctx context.Context, rec Record, t *lifecycle.Tick, e lifecycle.Effect) error {
	backend, err := b.backend(rec.Key.Client)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, b.lookTimeout)
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
			t.Wait, t.NoAnswerReason = b.stayAway(rec, t.Wait, retryIn(err)), userText(err)
		}
		t.Job = &job
		return nil
	}
	look, err := find(WithOffering(ctx, offering(rec, t)), backend, rec, e)
	if err != nil {
		return err
	}
	look.Place = *inRecord(look.Place, backend, rec)
	t.Look = &look
	return misplaced(rec, look.Place, nil)
}

// misplaced returns an *elsewhereError where the tick looked, or would call, elsewhere than
// the record's rows are; else the error that it was given.
func misplaced(rec Record, at Place, err error) error {
	if was := rec.Lifecycle.Place; err == nil && was != (Place{}) && at != was {
		return &elsewhereError{was: was, is: at}
	}
	return err
}

// inRecord returns the place as the record has it, if that is the same: a Cloud Foundry
// whose API got another address is no other one, where its configuration says so.
func inRecord(at Place, backend Backend, rec Record) *Place {
	if was := rec.Lifecycle.Place; was.OrgGUID == at.OrgGUID && backend.Same(was) {
		at = was
	}
	return &at
}

// offering returns the name of the record's offering; a binding's is its instance's,
// where the tick has read that.
func offering(rec Record, t *lifecycle.Tick) string {
	if t.Instance != nil && rec.Key.BindingID != "" {
		return t.Instance.Offering
	}
	return rec.Attributes.OfferingName
}

func find(ctx context.Context, backend Backend, rec Record, e lifecycle.Effect) (Look, error) {
	switch {
	case e.Do == lifecycle.FindByGUID:
		return backend.FindInstance(ctx, e.GUID)
	case rec.Key.BindingID != "":
		return backend.FindKeys(ctx, e.GUID, rec.Key.BindingID, e.GUIDs...)
	default:
		return backend.FindInstances(ctx, rec.Key.InstanceID, e.GUIDs...)
	}
}
