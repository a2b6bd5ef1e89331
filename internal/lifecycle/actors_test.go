package lifecycle_test

import (
	"fmt"
	"reflect"
	"time"

	lc "github.com/ferry-broker/ferry/internal/lifecycle"
)

// pending is a request of a platform that has no answer yet.
type pending struct {
	w          *world
	a          *actor
	item       *item
	verb       lc.Verb
	attributes string
	incomplete bool
	id         string
	first      *lc.FirstRead // what it read first, whatever it tells Next
	gone       int           // how often the id had been told to be gone by then
	lost       bool
	began      time.Time
	record     lc.Record
	revision   int
}

// ask sends a request. attributes is what a PUT or PATCH wants.
func (w *world) ask(id string, verb lc.Verb, attributes string, incomplete bool) {
	p := &pending{
		w: w, item: w.items[id], verb: verb, attributes: attributes, incomplete: incomplete, began: w.now,
		id: fmt.Sprintf("%s-%d", verb, w.number()),
	}
	p.a = w.enter(fmt.Sprintf("%s %s %s", verb, id, attributes))
	p.a.step = p.read
}

func (p *pending) read() {
	p.record, p.revision = p.item.record, p.item.revision
	if p.first == nil {
		p.first = &lc.FirstRead{Life: p.record.Life, Seq: p.record.Seq}
		p.gone = p.item.gone
	}
	p.w.say("%s reads the %s: %q, revision %d", p.a.name, p.item.id, p.record.State, p.revision)
	p.a.step = p.decide
}

// decide reads the instance for a binding, and decides.
func (p *pending) decide() {
	w := p.w
	q := lc.Request{
		Verb: p.verb, AcceptsIncomplete: p.incomplete,
		SameAttributes: p.attributes == p.item.attributes,
		NoEffect:       p.attributes == p.item.attributes,
		Now:            w.now, TombstoneTTL: keep,
		NewOperation: lc.NewOperation{ID: p.id, Deadline: w.now.Add(w.deadline), Due: w.now},
	}
	if p.verb == lc.Update && p.record.State == lc.Updating {
		q.SameAttributes = p.attributes == p.item.target
	}
	if p.item.record.Kind == lc.Binding {
		q.Instance = w.view()
	}
	if p.lost {
		q.FirstRead = p.first
	}
	d, err := w.next(p.record, q)
	w.law(lawEnds, err == nil, "%s: %v", p.a.name, err)
	p.judge(d)
	switch {
	case d.Write:
		p.a.step = func() { p.write(d) }
	case d.Outcome == lc.Hold && w.now.Sub(p.began) < callTime:
		p.lost = true // it goes on with what it read first
		p.a.step = p.read
	default:
		w.say("%s is answered %s", p.a.name, d.Outcome)
	}
}

// judge checks the laws that an answer must keep.
func (p *pending) judge(d lc.Decision) {
	w := p.w
	switch d.Outcome {
	case lc.Running:
		op := d.Record.Operation
		verb, known := w.told[op.ID]
		w.law(lawDuplicate, !d.Write && known && verb == op.Verb && reflect.DeepEqual(d.Record, p.record),
			"%s was answered with operation %q", p.a.name, op.ID)
	case lc.Accepted, lc.AlreadyGone:
		w.law(lawRefusal, d.Write || p.lost, "%s: %s without a write", p.a.name, d.Outcome)
	default:
		w.law(lawRefusal, !d.Write && d.Effect.Do == lc.DoNothing && reflect.DeepEqual(d.Record, p.record), "%s: %s left a trace", p.a.name, d.Outcome)
		w.law(lawGone, p.verb != lc.Delete || !p.incomplete, "%s was refused: %s", p.a.name, d.Outcome)
	}
}

func (p *pending) write(d lc.Decision) {
	w := p.w
	if w.now.Sub(d.Record.Operation.Started) > callTime && d.Outcome == lc.Accepted {
		w.say("%s is out of time and gives up", p.a.name)
		return
	}
	before := p.item.record
	won := w.put(p.a, p.item, d.Record, p.revision)
	switch {
	case won && d.Outcome == lc.Accepted:
		p.claimed(before)
	case won:
		p.item.gone++
	}
	if won && oneIn(w.chance, 12) && !w.fair {
		w.say("%s does not learn that its write was made, and repeats it", p.a.name)
		won = p.item.record.Operation.ID == p.id
	}
	if won {
		w.say("%s is answered %s", p.a.name, d.Outcome)
		if d.Outcome == lc.Accepted && !oneIn(w.chance, 8) {
			w.drive(p.item, p.id)
		}
		return
	}
	p.lost = true
	p.a.step = p.read
}

// claimed checks the claim just made, and does what the broker does beside it.
func (p *pending) claimed(before lc.Record) {
	w := p.w
	after := p.item.record
	_, again := w.told[p.id]
	same := before.Life == p.first.Life && (p.verb == lc.Delete || before.Seq == p.first.Seq)
	w.law(lawClaim, !again && same && after.Seq > before.Seq && after.Operation.ID == p.id,
		"%s claimed over what it had not read first", p.a.name)
	w.law(lawClaim, p.verb == lc.Delete || p.gone == p.item.gone, "%s claimed after the id was told to be gone", p.a.name)
	w.told[p.id] = after.Operation.Verb
	switch p.verb {
	case lc.Create:
		p.item.attributes = p.attributes
	case lc.Update:
		p.item.target = p.attributes
	case lc.Delete:
	}
}

// driver is a workflow, or a held request, that ticks an operation until it ends.
type driver struct {
	w         *world
	a         *actor
	item      *item
	operation string
	tick      lc.Tick
	record    lc.Record
	revision  int
}

func (w *world) drive(i *item, operation string) {
	k := &driver{w: w, item: i, operation: operation}
	k.a = w.enter("driver of " + operation)
	k.a.drives = operation
	k.a.step = k.read
}

func (k *driver) read() {
	w := k.w
	k.record, k.revision = k.item.record, k.item.revision
	k.tick = lc.Tick{
		Operation: k.operation, ReadAt: w.now, SettleAfter: settleAfter, TombstoneTTL: keep,
		Wait: time.Minute, Pace: defaultPace(), Driver: "workflow", LeaseUntil: w.now.Add(callTime),
	}
	if w.leases {
		k.tick.Driver = k.a.name
	}
	w.say("%s reads revision %d", k.a.name, k.revision)
	k.decide()
}

func (k *driver) decide() {
	k.tick.Now = k.w.now
	d, err := k.w.next(k.record, k.tick)
	k.w.law(lawEnds, err == nil, "%s: %v", k.a.name, err)
	switch {
	case d.Outcome == lc.Stopped:
		k.w.say("%s stops", k.a.name)
	case d.Effect.Do.Asks():
		k.a.step = func() { k.learn(d.Effect) }
	case d.Write:
		k.a.step = func() { k.write(d) }
	default:
		k.a.step = k.read
	}
}

func (k *driver) learn(e lc.Effect) {
	w := k.w
	w.say("%s: %s %s%s", k.a.name, e.Do, e.GUID, e.Job)
	if !w.fair && oneIn(w.chance, 12) && e.Do != lc.ReadInstance && e.Do != lc.ListBindings {
		w.say("%s: Cloud Foundry does not say", k.a.name)
		k.a.step = k.read
		return
	}
	switch e.Do {
	case lc.ReadInstance:
		v := w.view()
		k.tick.Instance = &v
	case lc.ListBindings:
		k.tick.BindingsKnown, k.tick.Bindings = true, w.bindingViews(k.tick.ReadAt)
	case lc.FindOrg:
		k.tick.Place = &lc.Place{}
	case lc.AskJob:
		job := w.cloud.job(e.Job)
		k.tick.Job = &job
	default:
		k.tick.Look = w.cloud.look(e, k.item.id)
	}
	k.decide()
}

func (w *world) bindingViews(read time.Time) []lc.BindingView {
	b, ok := w.items["binding"]
	if !ok || b.record.State == lc.Absent {
		return nil
	}
	r := b.record
	return []lc.BindingView{{ID: "binding", State: r.State, InstanceCreateOp: r.InstanceCreateOp, HasOpenCreate: r.HasOpenCall(lc.Create, read)}}
}

func (k *driver) write(d lc.Decision) {
	if !k.w.put(k.a, k.item, d.Record, k.revision) {
		k.a.step = k.read
		return
	}
	k.record, k.revision = d.Record, k.revision+1
	switch d.Effect.Do {
	case lc.SendCreate, lc.SendUpdate, lc.SendDelete, lc.SendDeleteLeftover:
		intent := k.tick.Now
		k.a.step = func() { k.send(d.Effect, intent) }
	case lc.Unbind:
		k.w.ask("binding", lc.Delete, "", true)
		k.a.step = k.read
	default:
		k.a.step = k.read
	}
}

// send puts the call on its way, unless its time is over.
func (k *driver) send(e lc.Effect, intent time.Time) {
	w := k.w
	if w.now.Sub(intent) >= callTime {
		w.say("%s is too late to send", k.a.name)
		k.a.step = k.read
		return
	}
	m := &message{
		do: e.Do, item: k.item.id, guid: e.GUID, operation: k.operation, seq: k.record.Operation.Seq,
		call: e.CallNumber, until: intent.Add(settleAfter),
	}
	if e.Do == lc.SendCreate {
		m.name, m.parent, m.plan = k.item.id, k.record.InstanceGUID, k.item.attributes
	}
	if e.Do == lc.SendUpdate {
		m.plan = k.item.target
	}
	w.recorded(m, k)
	if !w.fair && oneIn(w.chance, 24) {
		w.say("%s: %v is refused by the front end", k.a.name, m)
		m.over, m.answer = true, &lc.Answer{Reply: lc.ReplyBusy}
	} else {
		w.say("%s sends %v", k.a.name, m)
		w.cloud.messages = append(w.cloud.messages, m)
	}
	k.a.step = func() { k.await(e, m, intent) }
}

// await waits for the answer, which may get lost.
func (k *driver) await(e lc.Effect, m *message, intent time.Time) {
	w := k.w
	late := w.now.Sub(intent) >= callTime
	if m.answer == nil && !late && (w.fair || !oneIn(w.chance, 6)) {
		k.a.step = func() { k.await(e, m, intent) }
		return
	}
	answer := lc.Answer{Reply: lc.ReplyUnknown}
	if m.answer != nil && !late && (w.fair || !oneIn(w.chance, 6)) {
		answer = *m.answer
	}
	w.say("%s gets the answer %s", k.a.name, answer.Reply)
	k.note(lc.Replied{
		Operation: k.operation, Do: e.Do, CallNumber: e.CallNumber, GUID: e.GUID, SameRevision: true,
		Answer: answer, Driver: k.tick.Driver, Now: w.now, Wait: time.Minute, Pace: defaultPace(),
	})
}

func (k *driver) note(e lc.Replied) {
	d, err := k.w.next(k.record, e)
	k.w.law(lawEnds, err == nil, "%s: %v", k.a.name, err)
	if !d.Write {
		k.a.step = k.read
		return
	}
	k.a.step = func() {
		if k.w.put(k.a, k.item, d.Record, k.revision) {
			k.a.step = k.read
			return
		}
		k.record, k.revision, e.SameRevision = k.item.record, k.item.revision, false
		k.note(e)
	}
}
