package lifecycle_test

import (
	"slices"

	lc "github.com/ferry-broker/ferry/internal/lifecycle"
)

// deliver lets a call take effect.
func (c *cloud) deliver(m *message) {
	m.over = true
	var a lc.Answer
	switch {
	case !c.world.fair && oneIn(c.world.chance, 16):
		a = lc.Answer{Reply: lc.ReplyBusy}
	case m.do == lc.SendCreate:
		a = c.post(m)
	case m.do == lc.SendUpdate:
		a = c.patch(m)
	default:
		a = c.remove(m)
	}
	m.answer = &a
	c.world.say("Cloud Foundry: %v: %s %s", m, a.Reply, a.Job)
}

func (c *cloud) post(m *message) lc.Answer {
	w := c.world
	if m.parent != "" {
		switch parent := c.row(m.parent); {
		case parent == nil:
			return lc.Answer{Reply: lc.ReplyRefused, Description: "no such instance"}
		case parent.busy():
			return lc.Answer{Reply: lc.ReplyBusy}
		}
	}
	old := c.named(m.name, m.parent)
	if old != nil && (old.Last.Verb != lc.Create || old.Last.State != lc.LastFailed) {
		return lc.Answer{Reply: lc.ReplyTaken}
	}
	if !w.fair && oneIn(w.chance, 12) {
		return lc.Answer{Reply: lc.ReplyRefused, Description: "quota"}
	}
	if old != nil {
		c.drop(old)
	}
	r := c.add(m.name, m.parent)
	r.Marked, r.Operation, r.Seq, r.plan, r.item = true, m.operation, m.seq, m.plan, m.item
	c.set(r, lc.Create, lc.LastInitial)
	w.law(lawUnknown, !w.failedForGood(m.operation), "a POST of %s took effect after it was reported as failed", m.operation)
	return c.accept(r, lc.Create, m)
}

func (c *cloud) patch(m *message) lc.Answer {
	w := c.world
	r := c.row(m.guid)
	switch {
	case r == nil:
		return lc.Answer{Reply: lc.ReplyAbsent}
	case r.busy():
		return lc.Answer{Reply: lc.ReplyBusy}
	case oneIn(w.chance, 12) && !w.fair:
		return lc.Answer{Reply: lc.ReplyRefused, Description: "policy"}
	}
	c.set(r, lc.Update, lc.LastInProgress)
	w.law(lawUnknown, !w.failedForGood(m.operation), "a PATCH of %s took effect after it was reported as failed", m.operation)
	return c.accept(r, lc.Update, m)
}

func (c *cloud) remove(m *message) lc.Answer {
	w := c.world
	r := c.row(m.guid)
	if r == nil {
		return lc.Answer{Reply: lc.ReplyAbsent}
	}
	w.untouchable(m, r)
	if parent := c.row(r.parent); parent != nil && parent.busy() {
		return lc.Answer{Reply: lc.ReplyBusy}
	}
	if r.Last.State == lc.LastInitial || (r.busy() && r.Last.Verb == lc.Update) {
		return lc.Answer{Reply: lc.ReplyBusy}
	}
	if r.busy() && oneIn(w.chance, 2) && !w.fair {
		return lc.Answer{Reply: lc.ReplyBusy}
	}
	return c.accept(r, lc.Delete, m)
}

// work takes a job one phase further.
func (c *cloud) work(j *job) {
	r := c.row(j.guid)
	switch {
	case j.phase == 2:
		j.state = lc.JobComplete
		if j.fails {
			j.state = lc.JobFailed
		}
		c.world.say("Cloud Foundry: %s says %s", j.id, j.state)
		return
	case r == nil:
		j.fails, j.word = j.verb != lc.Delete, false
		j.phase = 2
		return
	case j.phase == 0:
		c.begin(j, r)
	default:
		c.finish(j, r)
	}
	j.phase++
}

func (c *cloud) begin(j *job, r *row) {
	j.begun = c.world.number()
	conflict := r.busy() && r.Last.Verb != j.verb
	switch {
	case j.verb == lc.Create && r.Last.Verb == lc.Delete:
		j.fails, j.phase = true, 1 // a delete came first
	case j.verb == lc.Delete && conflict && (r.Last.Verb == lc.Update || oneIn(c.world.chance, 2)):
		j.fails, j.phase = true, 1
	default:
		c.set(r, j.verb, lc.LastInProgress)
	}
}

func (c *cloud) finish(j *job, r *row) {
	w := c.world
	if r.Last.Verb != j.verb {
		j.fails = true // something else came in between, and has the row now
		return
	}
	if j.verb == lc.Delete && c.keysInTheWay(j, r) {
		j.fails, j.word = true, false
		c.set(r, lc.Delete, lc.LastFailed)
		return
	}
	if j.fails {
		j.word = true
		c.set(r, j.verb, lc.LastFailed)
		return
	}
	switch j.verb {
	case lc.Delete:
		c.drop(r)
		return
	case lc.Update:
		r.Update, r.plan = j.operation, j.plan
		w.law(lawUnknown, !w.failedForGood(j.operation), "the update %s took effect after it was reported as failed", j.operation)
	default:
		w.law(lawUnknown, !w.failedForGood(j.operation) || r.parent != "", "%s came to life after %s was reported as failed", r.GUID, j.operation)
	}
	c.set(r, j.verb, lc.LastSucceeded)
}

// keysInTheWay: Cloud Foundry does not delete an instance under a key that has an
// operation, nor under one that came while it deleted.
func (c *cloud) keysInTheWay(j *job, r *row) bool {
	return slices.ContainsFunc(c.rows, func(k *row) bool {
		return k.parent == r.GUID && (k.busy() || k.made > j.begun)
	})
}

// mark is Cloud Foundry's clean-up taking a create that runs for one that is stuck.
func (c *cloud) mark(j *job) {
	r := c.row(j.guid)
	if j.verb != lc.Create || j.ended() || j.marked || r == nil || !r.busy() || r.Last.Verb != lc.Create {
		return
	}
	j.marked, j.markedAt = true, c.world.now
	c.set(r, lc.Create, lc.LastFailed)
}
