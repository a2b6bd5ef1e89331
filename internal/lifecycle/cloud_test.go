package lifecycle_test

import (
	"fmt"
	"slices"
	"time"

	lc "github.com/ferry-broker/ferry/internal/lifecycle"
)

// cloud is a model of Cloud Foundry: names are unique, GUIDs are never used again,
// a POST over a failed row replaces it, and calls may arrive late or never.
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
}

// job is the work that an accepted call left. It goes through phases: begun, the row
// shows the outcome, the job says so too.
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
	i := slices.IndexFunc(c.rows, func(r *row) bool { return r.GUID == guid })
	if i < 0 {
		return nil
	}
	return c.rows[i]
}

func (c *cloud) named(name, parent string) *row {
	i := slices.IndexFunc(c.rows, func(r *row) bool { return r.name == name && r.parent == parent })
	if i < 0 {
		return nil
	}
	return c.rows[i]
}

// look is what a look-up by name and GUIDs sees now.
func (c *cloud) look(name, parent string, guids []string) lc.Look {
	l := lc.Look{Began: c.world.now}
	for _, r := range c.rows {
		if r.parent == parent && (r.name == name || slices.Contains(guids, r.GUID)) {
			l.Rows = append(l.Rows, c.shown(r))
		}
	}
	return l
}

func (c *cloud) lookGUID(guid string) lc.Look {
	l := lc.Look{Began: c.world.now}
	if r := c.row(guid); r != nil {
		l.Rows = append(l.Rows, c.shown(r))
	}
	return l
}

func (c *cloud) shown(r *row) lc.Row {
	shown := r.Row
	shown.Age = c.world.now.Sub(r.changed)
	return shown
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

// rename is a hand that gives a row which its record knows another name, or its name back.
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
