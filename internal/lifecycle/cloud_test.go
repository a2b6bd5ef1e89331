package lifecycle_test

import (
	"fmt"
	"slices"
	"time"

	lc "github.com/ferry-broker/ferry/internal/lifecycle"
)

// cloud is a model of Cloud Foundry: names are unique, GUIDs are never used again, a POST over a failed row replaces
// it, and calls may arrive late or never.
type cloud struct {
	world    *world
	rows     []*row
	jobs     []*job
	messages []*message
	ever     int // strangers that were ever made
}

type row struct {
	lc.Row
	name, parent, plan string
	item               string // the record that it was made for, whatever it is called; empty for a stranger's
	changed            time.Time
	made               int
	stuck              bool // in progress under a job that has ended
}

// job is the work that an accepted call left. It goes through phases: begun, the row shows the outcome, the job says so
// too.
type job struct {
	id, guid, operation, plan string
	verb                      lc.Verb
	phase                     int
	state                     lc.JobState
	word, forgotten           bool
	fails                     bool
	marked                    bool
	markedAt                  time.Time
	begun                     int
}

func (j *job) ended() bool { return j.state.Ended() }

// message is a call on its way. It takes effect before until, or never.
type message struct {
	do                       lc.Action
	item, name, parent, guid string
	operation, plan          string
	seq                      int64
	call                     int
	until                    time.Time
	over                     bool
	answer                   *lc.Answer
}

func (m *message) String() string {
	if m.guid != "" {
		return fmt.Sprintf("%s %s of %s", m.do, m.guid, m.operation)
	}
	return fmt.Sprintf("%s %s of %s", m.do, m.name, m.operation)
}

func (c *cloud) row(guid string) *row {
	return c.find(func(r *row) bool { return r.GUID == guid })
}

func (c *cloud) named(name, parent string) *row {
	return c.find(func(r *row) bool { return r.name == name && r.parent == parent })
}

func (c *cloud) find(of func(*row) bool) *row {
	if i := slices.IndexFunc(c.rows, of); i >= 0 {
		return c.rows[i]
	}
	return nil
}

// look is what a look-up sees now: by GUID, or by name and GUIDs.
func (c *cloud) look(e lc.Effect, name string) *lc.Look {
	l := &lc.Look{Began: c.world.now}
	for _, r := range c.rows {
		found := r.GUID == e.GUID
		if e.Do == lc.FindByName {
			found = r.parent == e.GUID && (r.name == name || slices.Contains(e.GUIDs, r.GUID))
		}
		if found {
			shown := r.Row
			shown.Age = c.world.now.Sub(r.changed)
			l.Rows = append(l.Rows, shown)
		}
	}
	return l
}

func (c *cloud) job(id string) lc.JobStatus {
	for _, j := range c.jobs {
		if j.id == id && !j.forgotten {
			return lc.JobStatus{State: j.state, FromBackingBroker: j.word, Description: "the backing broker says no", GUID: j.guid}
		}
	}
	return lc.JobStatus{State: lc.JobLost}
}

func (c *cloud) add(name, parent string) *row {
	r := &row{name: name, parent: parent, made: c.world.number()}
	r.GUID = fmt.Sprintf("guid-%d", r.made)
	c.rows = append(c.rows, r)
	return r
}

// stranger makes a row that is not ours, if its name is free.
func (c *cloud) stranger(name, parent string) {
	if c.named(name, parent) != nil || (parent != "" && c.row(parent) == nil) {
		return
	}
	r := c.add(name, parent)
	c.set(r, lc.Create, lc.LastSucceeded)
	r.Last.Description = "somebody else's"
	c.world.say("somebody else makes a row named %s: %s", name, r.GUID)
	if parent == "" {
		c.ever++
	}
}

// rename is somebody who gives a row that its record knows another name, or its name back.
func (c *cloud) rename(i *item, r *row) {
	name := fmt.Sprintf("renamed-%d", c.world.number())
	if r.name != i.id {
		name = i.id
	}
	if i.record.OwnsRow(r.GUID) && c.named(name, r.parent) == nil {
		r.name, i.renamed = name, true
		c.world.say("somebody renames %s: %s", r.GUID, name)
	}
}

func (c *cloud) set(r *row, verb lc.Verb, state lc.LastState) {
	r.Last = lc.LastOperation{Verb: verb, State: state}
	r.changed = c.world.now
	if r.Marked {
		c.world.say("Cloud Foundry: %s is now %s %s", r.GUID, verb, state)
	}
}

func (r *row) busy() bool {
	return r.Last.State == lc.LastInitial || r.Last.State == lc.LastInProgress
}

func (c *cloud) drop(r *row) {
	c.world.say("Cloud Foundry: %s is gone", r.GUID)
	c.rows = slices.DeleteFunc(c.rows, func(x *row) bool { return x == r || x.parent == r.GUID })
}

func (c *cloud) expire() {
	for _, m := range c.messages {
		if !m.over && !c.world.now.Before(m.until) {
			m.over = true
			c.world.say("%v can take no effect any more", m)
		}
	}
}

// underway are the calls that may still take effect.
func (c *cloud) underway() []*message {
	c.messages = slices.DeleteFunc(c.messages, func(m *message) bool { return m.over })
	return c.messages
}

func (c *cloud) unfinished() []*job {
	var jobs []*job
	for _, j := range c.jobs {
		if !j.ended() {
			jobs = append(jobs, j)
		}
	}
	return jobs
}

func (c *cloud) accept(r *row, verb lc.Verb, m *message) lc.Answer {
	j := &job{
		id: fmt.Sprintf("job-%d", c.world.number()), guid: r.GUID, verb: verb, operation: m.operation,
		plan: m.plan, state: lc.JobProcessing, fails: !c.world.fair && oneIn(c.world.chance, 4),
	}
	c.jobs = append(c.jobs, j)
	return lc.Answer{Reply: lc.ReplyAccepted, Job: j.id}
}

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
		if r.stuck = j.verb == lc.Update && !w.fair && oneIn(w.chance, 2); !r.stuck {
			c.set(r, j.verb, lc.LastFailed)
		}
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

// keysInTheWay: Cloud Foundry does not delete an instance under a key that has an operation, nor under one that came
// while it deleted.
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
