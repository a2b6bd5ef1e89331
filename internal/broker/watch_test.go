package broker_test

import (
	"context"
	"errors"
	"strings"

	"github.com/ferry-broker/ferry/internal/broker"
	"github.com/ferry-broker/ferry/internal/brokertest"
	"github.com/ferry-broker/ferry/internal/lifecycle"
)

// watchedStore tells the explorer of every write that was made, and remembers what each request read first.
type watchedStore struct {
	broker.Store
	e *explorer
}

// reader is one request and a record that it read.
type reader struct {
	by  *brokertest.Actor
	key broker.Key
}

func (w watchedStore) Get(ctx context.Context, key broker.Key) (broker.Record, error) {
	r, err := w.Store.Get(ctx, key)
	w.e.sawRead(reader{brokertest.ActorOf(ctx), key}, r)
	return r, err
}

func (w watchedStore) GetAll(ctx context.Context, keys []broker.Key) ([]broker.Got, error) {
	all, err := w.Store.GetAll(ctx, keys)
	for i, got := range all {
		w.e.sawRead(reader{brokertest.ActorOf(ctx), keys[i]}, got.Record)
	}
	return all, err
}

func (e *explorer) sawRead(who reader, r broker.Record) {
	if _, known := e.firsts[who]; !known {
		e.firsts[who] = lifecycle.FirstRead{Life: r.Lifecycle.Life, Seq: r.Lifecycle.Seq}
	}
}

func (w watchedStore) Put(ctx context.Context, r broker.Record, revision int64) (broker.Record, error) {
	before, _ := w.Store.Get(context.Background(), r.Key)
	stored, err := w.Store.Put(ctx, r, revision)
	if err == nil {
		w.e.sawWrite(brokertest.ActorOf(ctx), before, stored)
	}
	if errors.Is(err, broker.ErrConflict) { // it brings what is there, as a read does
		w.e.sawRead(reader{brokertest.ActorOf(ctx), r.Key}, stored)
	}
	return stored, err
}

func (e *explorer) sawWrite(by *brokertest.Actor, before, after broker.Record) {
	b, a := before.Lifecycle, after.Lifecycle
	if before.Revision > 0 && (a.Seq < b.Seq || a.Life < b.Life) {
		e.violated("seq or life of %v went back", after.Key)
	}
	if a.Operation.ID != b.Operation.ID {
		e.operations = append(e.operations, a.Operation.ID)
		first := e.firsts[reader{by, after.Key}]
		if a.State != lifecycle.Deleting && (first.Life != b.Life || first.Seq != b.Seq) {
			e.violated("law 2: %s claims on top of what it did not read first", by.Name)
		}
	}
	for _, f := range a.Finished {
		if was, known := e.results[f.ID]; known && was != f.Succeeded {
			e.violated("the result of %s flipped to %v", f.ID, f.Succeeded)
		}
		e.results[f.ID] = f.Succeeded
	}
	if b.State == lifecycle.Deleting && a.State == lifecycle.Gone {
		e.judgeGone(after)
	}
	if b.State == lifecycle.Creating && a.State == lifecycle.CreateFailed {
		e.judgeFailedCreate(after)
	}
	byTick := by != nil && strings.HasPrefix(by.Name, "tick")
	if byTick && after.Key.BindingID != "" && b.State != lifecycle.Deleting && a.State == lifecycle.Deleting {
		e.judgeUnasked(before)
	}
}

// rowsOf are the rows of the record's name that stand for it.
func (e *explorer) rowsOf(r broker.Record) []brokertest.Left {
	var out []brokertest.Left
	for _, l := range e.Cloud.Left() {
		isKey := l.Instance != ""
		if isKey != (r.Key.BindingID != "") || l.Operation == "" {
			continue
		}
		if !isKey && l.Name == r.Key.InstanceID || isKey && l.Name == r.Key.BindingID {
			out = append(out, l)
		}
	}
	return out
}

// judgeGone: law 7. What is reported gone is not there and will not come any more.
func (e *explorer) judgeGone(r broker.Record) {
	for _, l := range e.rowsOf(r) {
		if r.Key.BindingID == "" || l.Instance == r.Lifecycle.InstanceGUID {
			e.violated("law 7: %v is reported gone while %s is there", r.Key, l.GUID)
		}
	}
	if r.Key.BindingID == "" && r.Lifecycle.HasOpenCall(lifecycle.Create, e.Now()) {
		e.violated("law 7: %v is reported gone while a POST is on its way", r.Key)
	}
}

// judgeFailedCreate: law 8. Nothing lives behind "create failed", but for a binding whose instance is being deleted,
// which takes the key along.
func (e *explorer) judgeFailedCreate(r broker.Record) {
	instance, _ := e.Store.Get(context.Background(), r.Key.Instance())
	if r.Key.BindingID != "" && instance.Lifecycle.State != lifecycle.Ready {
		return
	}
	for _, l := range e.rowsOf(r) {
		if l.Operation == r.Lifecycle.Operation.ID && l.Living() {
			e.violated("law 8: %v is reported failed while %s lives", r.Key, l.GUID)
		}
	}
}

// judgeUnasked: a tick may unbind only for the sake of its instance's delete.
func (e *explorer) judgeUnasked(binding broker.Record) {
	instance, _ := e.Store.Get(context.Background(), binding.Key.Instance())
	i, b := instance.Lifecycle, binding.Lifecycle
	if i.State.Living() && i.State != lifecycle.Deleting && i.CreateOp.ID == b.InstanceCreateOp {
		e.violated("law 6: a stale tick unbinds a binding of the living instance, which nobody asked for")
	}
}

// watchedBackend tells the explorer of every call at the moment of its effect.
type watchedBackend struct {
	broker.Backend
	e *explorer
}

func (w watchedBackend) CreateInstance(ctx context.Context, c broker.InstanceCall) (broker.Answer, error) {
	w.e.judgeCall(instanceKey(), lifecycle.Create, c.Marks)
	return w.Backend.CreateInstance(ctx, c)
}

func (w watchedBackend) UpdateInstance(ctx context.Context, guid string, c broker.InstanceCall) (broker.Answer, error) {
	w.e.judgeCall(instanceKey(), lifecycle.Update, c.Marks)
	return w.Backend.UpdateInstance(ctx, guid, c)
}

func (w watchedBackend) CreateKey(ctx context.Context, c broker.KeyCall) (broker.Answer, error) {
	w.e.judgeCall(bindingKey(), lifecycle.Create, c.Marks)
	return w.Backend.CreateKey(ctx, c)
}

func (w watchedBackend) DeleteInstance(ctx context.Context, guid string) (broker.Answer, error) {
	w.e.judgeDelete(instanceKey(), guid)
	return w.Backend.DeleteInstance(ctx, guid)
}

func (w watchedBackend) DeleteKey(ctx context.Context, guid string) (broker.Answer, error) {
	w.e.judgeDelete(bindingKey(), guid)
	return w.Backend.DeleteKey(ctx, guid)
}

// judgeCall: law 1. A POST or PATCH takes effect only while the record holds its open call.
func (e *explorer) judgeCall(key broker.Key, verb lifecycle.Verb, m broker.Marks) {
	r, _ := e.Store.Get(context.Background(), key)
	for _, c := range r.Lifecycle.OpenCalls {
		if c.Verb == verb && c.Seq == m.Seq && c.Until.After(e.Now()) {
			return
		}
	}
	e.violated("law 1: a %s of %s takes effect without an open call in the record", verb, m.Operation)
}

// judgeDelete: law 6. What stands for a record that lives is not deleted.
func (e *explorer) judgeDelete(key broker.Key, guid string) {
	r, _ := e.Store.Get(context.Background(), key)
	switch r.Lifecycle.State {
	case lifecycle.Ready, lifecycle.Updating, lifecycle.UpdateFailed:
		if r.Lifecycle.CFGUID == guid {
			e.violated("law 6: %s is deleted, for which %v is %s", guid, key, r.Lifecycle.State)
		}
	case lifecycle.Deleting:
		b, _ := e.Store.Get(context.Background(), bindingKey())
		if key.BindingID == "" && b.Lifecycle.State == lifecycle.Ready && b.Lifecycle.InstanceCreateOp == r.Lifecycle.CreateOp.ID {
			e.violated("the instance is deleted before its binding")
		}
	default: // nothing of it lives
	}
}

// judgeRest compares the records with the cloud once nothing runs any more.
func (e *explorer) judgeRest() {
	instance, _ := e.Store.Get(context.Background(), instanceKey())
	binding, _ := e.Store.Get(context.Background(), bindingKey())
	binding.Key, instance.Key = bindingKey(), instanceKey()
	rows := e.rowsOf(instance)
	e.judgeRows(instance, instance.Lifecycle.State, rows)
	if s := instance.Lifecycle.State; s == lifecycle.Ready && len(rows) == 1 && rows[0].Plan != instance.Attributes.PlanGUID {
		e.violated("at rest the plan is %s, and the record says %s", rows[0].Plan, instance.Attributes.PlanGUID)
	}
	if instance.Lifecycle.State == lifecycle.DeleteFailed {
		return
	}
	view := lifecycle.InstanceView{State: instance.Lifecycle.State, CreateOp: instance.Lifecycle.CreateOp.ID}
	e.judgeRows(binding, lifecycle.EffectiveState(binding.Lifecycle, view), e.rowsOf(binding))
}

func (e *explorer) judgeRows(r broker.Record, state lifecycle.State, rows []brokertest.Left) {
	living := 0
	for _, l := range rows {
		if l.Living() {
			living++
		}
	}
	switch state {
	case lifecycle.Ready, lifecycle.UpdateFailed:
		if len(rows) != 1 || rows[0].GUID != r.Lifecycle.CFGUID || rows[0].Operation != r.Lifecycle.CreateOp.ID {
			e.violated("at rest %v is %s with %+v", r.Key, state, rows)
		}
	case lifecycle.Absent, lifecycle.Ghost, lifecycle.Gone:
		if len(rows) != 0 {
			e.violated("at rest %v is %q and leaves %+v", r.Key, state, rows)
		}
	case lifecycle.CreateFailed:
		if living != 0 {
			e.violated("at rest %v is %s while %+v lives", r.Key, state, rows)
		}
	case lifecycle.Creating, lifecycle.Updating, lifecycle.Deleting:
		e.violated("at rest %v is %s", r.Key, state)
	default: // what a failed delete leaves is up to Cloud Foundry
	}
}
