package brokertest

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/ferry-broker/ferry/internal/broker"
	"github.com/ferry-broker/ferry/internal/lifecycle"
)

// End is how a job ends. The zero value is success.
type End struct {
	Fail        bool
	Description string
	// Code is an OSB error word; FromBackingBroker says that the failure is the backing
	// broker's own.
	Code              string
	FromBackingBroker bool
}

// Rejected is the end of a job that the backing broker refuses.
func Rejected(description string) End {
	return End{Fail: true, FromBackingBroker: true, Description: description}
}

type fakeJob struct {
	guid    string
	verb    lifecycle.Verb
	row     *fakeRow
	call    broker.InstanceCall
	planned End
	ends    time.Time
	sight   broker.JobStatus
}

// start is called with the lock held. A job that need not wait has ended when it
// returns.
func (c *FakeCloud) start(verb lifecycle.Verb, r *fakeRow, call broker.InstanceCall, planned End) *fakeJob {
	j := &fakeJob{
		guid: fmt.Sprintf("job-%04d", len(c.jobs)+1), verb: verb, row: r, call: call, planned: planned,
		sight: broker.JobStatus{State: lifecycle.JobProcessing}, ends: c.due(call.PlanGUID),
	}
	c.jobs = append(c.jobs, j)
	r.job = j
	c.note(r, verb, lifecycle.LastInProgress, "")
	if !c.options.Manual && !c.options.Now().Before(j.ends) {
		c.end(j, planned)
	}
	return j
}

// end is called with the lock held.
func (c *FakeCloud) end(j *fakeJob, e End) {
	r := j.row
	if c.row(r.guid, r.key) != r || r.job != j {
		e = End{Fail: true, Description: fmt.Sprintf("%s could not be completed: another operation came between", j.verb)}
	} else if e.Fail {
		c.note(r, j.verb, lifecycle.LastFailed, e.Description)
	} else {
		c.succeed(j)
	}
	j.sight = broker.JobStatus{State: lifecycle.JobComplete}
	if e.Fail {
		j.sight = broker.JobStatus{State: lifecycle.JobFailed, FromBackingBroker: e.FromBackingBroker, Description: e.Description, Code: e.Code}
	}
}

func (c *FakeCloud) succeed(j *fakeJob) {
	r := j.row
	switch j.verb {
	case lifecycle.Delete:
		c.remove(r)
		return
	case lifecycle.Update:
		r.update = j.call.Marks.Operation
		if j.call.PlanGUID != "" {
			r.plan = j.call.PlanGUID
		}
		if len(j.call.Parameters) > 0 {
			r.parameters = j.call.Parameters
		}
	default: // a create changes nothing but its last operation
	}
	c.note(r, j.verb, lifecycle.LastSucceeded, "")
}

// Finish ends a running job. It does nothing for one that has ended.
func (c *FakeCloud) Finish(job string, e End) {
	c.mu.Lock()
	defer c.mu.Unlock()
	i := slices.IndexFunc(c.jobs, func(j *fakeJob) bool { return j.guid == job && !j.sight.State.Ended() })
	if i >= 0 {
		c.end(c.jobs[i], e)
	}
}

// FinishAll ends the running jobs as their plans want it, oldest first, until none runs.
func (c *FakeCloud) FinishAll() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, j := range c.jobs {
		if !j.sight.State.Ended() {
			c.end(j, j.planned)
		}
	}
}

// Running lists the jobs that have not ended, oldest first.
func (c *FakeCloud) Running() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var out []string
	for _, j := range c.jobs {
		if !j.sight.State.Ended() {
			out = append(out, j.guid)
		}
	}
	return out
}

// Forget makes Cloud Foundry lose every job that has ended, as it does after a while.
func (c *FakeCloud) Forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, j := range c.jobs {
		if j.sight.State.Ended() {
			j.sight = broker.JobStatus{State: lifecycle.JobLost}
		}
	}
}

// Job implements broker.Finder.
func (c *FakeCloud) Job(ctx context.Context, guid string) (broker.JobStatus, error) {
	if err := c.enter(ctx); err != nil {
		return broker.JobStatus{State: lifecycle.JobUnclear}, err
	}
	defer c.mu.Unlock()
	i := slices.IndexFunc(c.jobs, func(j *fakeJob) bool { return j.guid == guid })
	if i < 0 {
		return broker.JobStatus{State: lifecycle.JobLost}, nil
	}
	sight := c.jobs[i].sight
	if row := c.jobs[i].row; c.row(row.guid, row.key) == row {
		sight.GUID = row.guid // named while the row is there
	}
	return sight, nil
}
