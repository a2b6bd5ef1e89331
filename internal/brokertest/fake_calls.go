package brokertest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/ferry-broker/ferry/internal/broker"
	"github.com/ferry-broker/ferry/internal/lifecycle"
)

func unknown() broker.Answer { return broker.Answer{Reply: lifecycle.ReplyUnknown} }

func accepted(j *fakeJob) broker.Answer {
	return broker.Answer{Reply: lifecycle.ReplyAccepted, Job: j.guid}
}

func refused(text string) broker.Answer {
	return broker.Answer{Reply: lifecycle.ReplyRefused, Description: text}
}

// CreateInstance implements broker.Backend.
func (c *FakeCloud) CreateInstance(ctx context.Context, q broker.InstanceCall) (broker.Answer, error) {
	if err := c.enter(ctx); err != nil {
		return unknown(), err
	}
	defer c.mu.Unlock()
	plan, ok := planByGUID(q.PlanGUID)
	if !ok || plan.OfferingName != q.Offering {
		return refused("There is no such service plan."), nil
	}
	r := &fakeRow{name: q.Name, id: q.Name, place: q.Offering, plan: q.PlanGUID, parameters: slices.Clone(q.Parameters), marks: q.Marks}
	return c.create(r, plannedCreate(q.PlanGUID)), nil
}

// CreateKey implements broker.Backend.
func (c *FakeCloud) CreateKey(ctx context.Context, q broker.KeyCall) (broker.Answer, error) {
	if err := c.enter(ctx); err != nil {
		return unknown(), err
	}
	defer c.mu.Unlock()
	instance := c.row(q.InstanceGUID, false)
	switch {
	case instance == nil, failedCreate(instance):
		return refused("There is no such service instance."), nil
	case instance.busy():
		return broker.Answer{Reply: lifecycle.ReplyBusy}, nil
	}
	r := &fakeRow{key: true, name: q.Name, id: q.Name, place: q.InstanceGUID, parameters: slices.Clone(q.Parameters), marks: q.Marks}
	return c.create(r, plannedKey(instance.plan)), nil
}

// create adds the row unless its name is taken; a row whose create failed gives way.
func (c *fakeState) create(r *fakeRow, planned End) broker.Answer {
	for _, other := range c.rows {
		if other.key != r.key || other.name != r.name || other.place != r.place {
			continue
		}
		if !failedCreate(other) {
			return broker.Answer{Reply: lifecycle.ReplyTaken}
		}
		c.remove(other)
		break
	}
	c.add(r)
	c.count(r.name, func(e *Effects) { e.Posts++ })
	return accepted(c.start(lifecycle.Create, r, broker.InstanceCall{PlanGUID: r.plan}, planned))
}

func failedCreate(r *fakeRow) bool {
	return r.last.Verb == lifecycle.Create && r.last.State == lifecycle.LastFailed
}

// UpdateInstance implements broker.Backend.
func (c *FakeCloud) UpdateInstance(ctx context.Context, guid string, q broker.InstanceCall) (broker.Answer, error) {
	if err := c.enter(ctx); err != nil {
		return unknown(), err
	}
	defer c.mu.Unlock()
	r := c.row(guid, false)
	switch {
	case r == nil, failedCreate(r):
		return broker.Answer{Reply: lifecycle.ReplyAbsent}, nil
	case r.busy():
		return broker.Answer{Reply: lifecycle.ReplyBusy}, nil
	}
	if plan, ok := planByGUID(q.PlanGUID); q.PlanGUID != "" && (!ok || plan.OfferingName != r.place) {
		return refused("There is no such service plan."), nil
	}
	c.count(r.name, func(e *Effects) { e.Patches++ })
	q.Parameters = slices.Clone(q.Parameters)
	return accepted(c.start(lifecycle.Update, r, q, End{})), nil
}

// DeleteInstance implements broker.Backend.
func (c *FakeCloud) DeleteInstance(ctx context.Context, guid string) (broker.Answer, error) {
	return c.delete(ctx, guid, false)
}

// DeleteKey implements broker.Backend.
func (c *FakeCloud) DeleteKey(ctx context.Context, guid string) (broker.Answer, error) {
	return c.delete(ctx, guid, true)
}

func (c *FakeCloud) delete(ctx context.Context, guid string, key bool) (broker.Answer, error) {
	if err := c.enter(ctx); err != nil {
		return unknown(), err
	}
	defer c.mu.Unlock()
	r := c.row(guid, key)
	if r == nil {
		return broker.Answer{Reply: lifecycle.ReplyAbsent}, nil
	}
	interruptible := r.job != nil && r.job.verb == lifecycle.Create
	if r.busy() && !interruptible {
		return broker.Answer{Reply: lifecycle.ReplyBusy}, nil
	}
	if instance := c.row(r.place, false); key && instance != nil && instance.busy() {
		return broker.Answer{Reply: lifecycle.ReplyBusy}, nil
	}
	c.count(r.name, func(e *Effects) { e.Deletes++ })
	return accepted(c.start(lifecycle.Delete, r, broker.InstanceCall{}, End{})), nil
}

// KeyDetails implements broker.Backend.
func (c *FakeCloud) KeyDetails(ctx context.Context, guid, _ string) (broker.KeyDetails, error) {
	if err := c.enter(ctx); err != nil {
		return broker.KeyDetails{}, err
	}
	defer c.mu.Unlock()
	r := c.row(guid, true)
	if r == nil {
		return broker.KeyDetails{}, broker.ErrNotFound
	}
	if r.last.Verb != lifecycle.Create || r.last.State != lifecycle.LastSucceeded {
		return broker.KeyDetails{}, errors.New("the key is not ready")
	}
	return broker.KeyDetails{Credentials: json.RawMessage(fmt.Sprintf(`{"password": %q, "big": %s}`, SecretOf(guid), BigNumber))}, nil
}

// BigNumber is in the credentials of every key, as "big".
const BigNumber = "9007199254740993"

// SecretOf is the password in the credentials of the key with this GUID.
func SecretOf(guid string) string { return "s3cret-of-" + guid }

// InstanceParameters implements broker.Backend.
func (c *FakeCloud) InstanceParameters(ctx context.Context, guid string) (json.RawMessage, error) {
	return c.parameters(ctx, guid, false)
}

// KeyParameters implements broker.Backend.
func (c *FakeCloud) KeyParameters(ctx context.Context, guid string) (json.RawMessage, error) {
	return c.parameters(ctx, guid, true)
}

func (c *FakeCloud) parameters(ctx context.Context, guid string, key bool) (json.RawMessage, error) {
	if err := c.enter(ctx); err != nil {
		return nil, err
	}
	defer c.mu.Unlock()
	if r := c.row(guid, key); r != nil {
		return slices.Clone(r.parameters), nil
	}
	return nil, broker.ErrNotFound
}

func (c *fakeState) row(guid string, key bool) *fakeRow {
	i := slices.IndexFunc(c.rows, func(r *fakeRow) bool { return r.guid == guid && r.key == key })
	if i < 0 {
		return nil
	}
	return c.rows[i]
}

// add gives the row a GUID that no row ever had.
func (c *fakeState) add(r *fakeRow) {
	c.made++
	r.guid = fmt.Sprintf("guid-%04d", c.made)
	r.changed = c.options.Now()
	c.rows = append(c.rows, r)
}

// remove takes the row away, and the keys of an instance with it.
func (c *fakeState) remove(r *fakeRow) {
	c.rows = slices.DeleteFunc(c.rows, func(o *fakeRow) bool {
		return o == r || (o.key && !r.key && o.place == r.guid)
	})
}

func (c *fakeState) note(r *fakeRow, verb lifecycle.Verb, state lifecycle.LastState, description string) {
	r.last = lifecycle.LastOperation{Verb: verb, State: state, Description: description}
	r.changed = c.options.Now()
}

func (c *fakeState) count(name string, change func(*Effects)) {
	e := c.effects[name]
	change(&e)
	c.effects[name] = e
}

func (c *fakeState) due(plan string) time.Time {
	at := c.options.Now()
	if plan == PlanSlow {
		at = at.Add(c.options.SlowFor)
	}
	return at
}
