package broker

import (
	"context"

	"github.com/ferry-broker/ferry/internal/lifecycle"
)

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
