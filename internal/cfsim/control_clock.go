package cfsim

import (
	"net/http"
	"time"
)

// What a Cloud Controller's clock cleans up.
const (
	cleanInitial = "initial" // R9
	cleanStuck   = "stuck"   // R10
	cleanJobs    = "jobs"    // old jobs

	// Newer Cloud Controllers also have these.
	failUpdates  = "stuck-updates"
	retryDeletes = "stuck-deletes"
)

// The descriptions that they leave.
const (
	stuckInitial  = `Operation was stuck in "initial" state. Set to "failed" by cleanup job.`
	stuckProgress = "Operation was stuck in 'in progress' state. Set to 'failed' by cleanup job; orphan mitigation triggered."
	stuckUpdate   = "Operation was stuck in 'in progress' state. Set to 'failed' by cleanup job."
)

// runClock is POST /__sim/clock: it does at once, and whatever the age of the rows, what the clock of a Cloud
// Controller does now and then.
func runClock(c *controlCall) (any, error) {
	var tick struct {
		Cleanup  string `json:"cleanup"`
		Instance string `json:"instance"` // a name; "" for all
	}
	if err := c.read(&tick); err != nil {
		return nil, err
	}
	cleanUp, known := map[string]func(*controller, *instance) int{
		cleanInitial: failInitialCreate, cleanStuck: failStuckCreate, failUpdates: failStuckUpdate, retryDeletes: retryStuckDeletes,
	}[tick.Cleanup]
	switch {
	case tick.Cleanup == cleanJobs:
		return map[string]int{"touched": c.database.forgetJobs()}, nil
	case !known:
		return nil, badInput("The cleanup is initial, stuck, stuck-updates, stuck-deletes or jobs, not %q.", tick.Cleanup)
	}
	touched := 0
	for _, row := range c.database.instances.ordered {
		if tick.Instance == "" || tick.Instance == row.name {
			touched += cleanUp(c.controller, row)
		}
	}
	return map[string]int{"touched": touched}, nil
}

// failInitialCreate fails a create that no worker has taken up, and has the backing broker clean up. The job runs all
// the same when a worker comes: the row is then in progress again.
func failInitialCreate(cc *controller, row *instance) int {
	if !row.last.is(kindCreate, stateInitial) {
		return 0
	}
	cc.onInstance(row).mark(kindCreate, stateFailed, stuckInitial)
	cc.orphanInstance(row)
	return 1
}

// failStuckCreate fails a create in progress whose worker is dead, and has the backing broker clean up.
func failStuckCreate(cc *controller, row *instance) int {
	if !row.last.is(kindCreate, stateInProgress) || row.job != nil && !row.job.over() {
		return 0
	}
	cc.onInstance(row).mark(kindCreate, stateFailed, stuckProgress)
	if row.job != nil {
		row.job.set(jobFailed, cc.now(), unableTo("provision", stuckProgress))
	}
	cc.orphanInstance(row)
	return 1
}

// failStuckUpdate fails an update whose worker is dead. The backing broker is not asked to clean up: what the update
// was about is still there.
func failStuckUpdate(cc *controller, row *instance) int {
	if !row.last.is(kindUpdate, stateInProgress) || !row.job.stuck(jobUpdateInstance) {
		return 0
	}
	cc.onInstance(row).mark(kindUpdate, stateFailed, stuckUpdate)
	row.job.pinned = false
	row.job.set(jobFailed, cc.now(), row.job.errors...)
	return 1
}

// retryStuckDeletes has a new worker go on polling for deletes whose worker is dead, of an instance and of its keys,
// and returns how many there were.
func retryStuckDeletes(cc *controller, row *instance) int {
	touched := 0
	for _, k := range row.keys {
		if k.last.is(kindDelete, stateInProgress) && k.job.stuck(jobDeleteKey) {
			k.job = cc.database.reviveJob(k.job)
			cc.workers.poll(k.job, &unbinding{cc.onKey(k)}, k.job.polled)
			touched++
		}
	}
	if row.last.is(kindDelete, stateInProgress) && row.job.stuck(jobDeleteInstance) {
		row.job = cc.database.reviveJob(row.job)
		row.deletion = row.job
		cc.workers.poll(row.job, cc.deletion(row, row.job), row.job.polled)
		touched++
	}
	return touched
}

// stuck tells that a job was left behind by a worker that died.
func (j *job) stuck(operation string) bool {
	return j != nil && j.operation == operation && j.over() && (j.state == jobPolling || j.state == jobFailed)
}

// reviveJob puts a job of the same GUID in the place of one whose worker is dead.
func (db *database) reviveJob(j *job) *job {
	again := *j
	again.dead, again.pinned, again.errors = false, false, nil
	if again.polled.IsZero() {
		again.polled = time.Now()
	}
	db.jobs[j.guid] = &again
	return &again
}

// forgetJobs drops every job, as if all of them were old, and returns how many there were. Their work goes on.
func (db *database) forgetJobs() int {
	n := len(db.jobs)
	clear(db.jobs)
	for _, row := range db.instances.ordered {
		row.job = nil
		for _, k := range row.keys {
			k.job = nil
		}
	}
	return n
}

// dropJob is DELETE /__sim/jobs/GUID: the job can no longer be found, its work goes on.
func dropJob(c *controlCall) (any, error) {
	guid := c.request.PathValue("guid")
	if c.database.jobs[guid] == nil {
		return nil, refusedControl(http.StatusNotFound, "There is no job %q.", guid)
	}
	delete(c.database.jobs, guid)
	return nil, nil
}

// holdWorkers is POST /__sim/workers: it keeps workers from taking up jobs, or lets those take them up that would have
// come meanwhile.
func holdWorkers(c *controlCall) (any, error) {
	var wanted struct {
		Held bool `json:"held"`
	}
	if err := c.read(&wanted); err != nil {
		return nil, err
	}
	return map[string]int{"waiting": c.workers.hold(wanted.Held)}, nil
}

// vanishSpace is DELETE /__sim/spaces/ORG/SPACE: the space goes with everything in it, as by somebody else's recursive
// delete; the backing broker is not asked.
func vanishSpace(c *controlCall) (any, error) {
	org, name := c.request.PathValue("org"), c.request.PathValue("space")
	sp := c.database.spaceAt(org + "/" + name)
	if sp == nil {
		return nil, refusedControl(http.StatusNotFound, "There is no space %q in %q.", name, org)
	}
	for _, row := range c.database.instancesIn(sp) {
		c.dropInstance(row)
	}
	c.database.removeSpace(sp)
	return nil, nil
}
