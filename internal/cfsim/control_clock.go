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

// The descriptions that two of them leave.
const (
	stuckInitial  = `Operation was stuck in "initial" state. Set to "failed" by cleanup job.`
	stuckProgress = "Operation was stuck in 'in progress' state. Set to 'failed' by cleanup job; orphan mitigation triggered."
	stuckUpdate   = "Operation was stuck in 'in progress' state. Set to 'failed' by cleanup job."
)

// runClock does at once, and whatever the age of the rows, what the clock of a
// Cloud Controller does now and then.
func (s *Simulator) runClock(r *http.Request) (any, error) {
	var tick struct {
		Cleanup  string `json:"cleanup"`
		Instance string `json:"instance"` // a name; "" for all
	}
	if err := readControl(r, &tick); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	touched := 0
	switch tick.Cleanup {
	case cleanJobs:
		touched = s.collectJobs()
	case cleanInitial, cleanStuck, failUpdates, retryDeletes:
		for _, row := range s.world.instances.ordered {
			if tick.Instance == "" || tick.Instance == row.name {
				touched += s.cleanUp(row, tick.Cleanup)
			}
		}
	default:
		return nil, refusedControl(http.StatusBadRequest, "The cleanup is initial, stuck, stuck-updates, stuck-deletes or jobs, not %q.", tick.Cleanup)
	}
	return map[string]int{"touched": touched}, nil
}

// cleanUp fails a row that looks forgotten, and has the backing broker clean
// up. The job of one that is "initial" runs all the same when a worker comes:
// the row is then in progress again. Only a job whose worker is dead makes a
// row "stuck".
func (s *Simulator) cleanUp(row *instance, cleanup string) int {
	switch {
	case cleanup == failUpdates:
		return s.failStuckUpdate(row)
	case cleanup == retryDeletes:
		return s.retryStuckDeletes(row)
	case cleanup == cleanInitial && row.last.is(kindCreate, stateInitial):
		s.onInstance(row).mark(kindCreate, stateFailed, stuckInitial)
	case cleanup == cleanStuck && row.last.is(kindCreate, stateInProgress) && (row.job == nil || row.job.over()):
		s.onInstance(row).mark(kindCreate, stateFailed, stuckProgress)
		if row.job != nil {
			row.job.set(jobFailed, s.options.Now(), unableTo("provision", stuckProgress))
		}
	default:
		return 0
	}
	s.orphanInstance(row)
	return 1
}

// stuck tells that a job was left behind by a worker that died.
func (j *job) stuck(operation string) bool {
	return j != nil && j.operation == operation && j.over() && (j.state == jobPolling || j.state == jobFailed)
}

// failStuckUpdate ends an update whose worker is dead. The backing broker is not
// told: what the update was about is still there.
func (s *Simulator) failStuckUpdate(row *instance) int {
	if !row.last.is(kindUpdate, stateInProgress) || !row.job.stuck(jobUpdateInstance) {
		return 0
	}
	s.onInstance(row).mark(kindUpdate, stateFailed, stuckUpdate)
	row.job.pinned = false
	row.job.set(jobFailed, s.options.Now(), row.job.errors...)
	return 1
}

// retryStuckDeletes has a new worker go on polling for deletes whose worker is
// dead, of an instance and of its keys, and returns how many there were.
func (s *Simulator) retryStuckDeletes(row *instance) int {
	touched := 0
	for _, k := range row.keys {
		if k.last.is(kindDelete, stateInProgress) && k.job.stuck(jobDeleteKey) {
			k.job = s.revived(k.job)
			s.poll(k.job, &unbinding{s.onKey(k)}, k.job.polled)
			touched++
		}
	}
	if row.last.is(kindDelete, stateInProgress) && row.job.stuck(jobDeleteInstance) {
		row.job = s.revived(row.job)
		row.deletion = row.job
		s.poll(row.job, s.deletion(row, row.job), row.job.polled)
		touched++
	}
	return touched
}

// revived is a job of the same GUID as one whose worker is dead.
func (s *Simulator) revived(j *job) *job {
	again := *j
	again.dead, again.pinned, again.errors = false, false, nil
	if again.polled.IsZero() {
		again.polled = time.Now()
	}
	s.world.jobs[j.guid] = &again
	return &again
}

// collectJobs forgets every job, as if all of them were old. Their work goes on.
func (s *Simulator) collectJobs() int {
	n := len(s.world.jobs)
	clear(s.world.jobs)
	for _, row := range s.world.instances.ordered {
		row.job = nil
		for _, k := range row.keys {
			k.job = nil
		}
	}
	return n
}

// dropJob forgets one job.
func (s *Simulator) dropJob(r *http.Request) (any, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	guid := r.PathValue("guid")
	if s.world.jobs[guid] == nil {
		return nil, refusedControl(http.StatusNotFound, "There is no job %q.", guid)
	}
	delete(s.world.jobs, guid)
	return struct{}{}, nil
}

// holdWorkers keeps workers from taking up jobs, or lets those take them up
// that would have come meanwhile.
func (s *Simulator) holdWorkers(r *http.Request) (any, error) {
	var wanted struct {
		Held bool `json:"held"`
	}
	if err := readControl(r, &wanted); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.held = wanted.Held
	for !s.held && s.overdue > 0 {
		s.overdue--
		s.pickUp()
	}
	return map[string]int{"waiting": len(s.waiting)}, nil
}

// vanishSpace removes a space with everything in it, as a recursive delete by
// somebody else; the backing broker is not asked.
func (s *Simulator) vanishSpace(r *http.Request) (any, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	o := s.world.organizationNamed(r.PathValue("org"))
	if o == nil || s.world.spaceNamed(o, r.PathValue("space")) == nil {
		return nil, refusedControl(http.StatusNotFound, "There is no space %q in %q.", r.PathValue("space"), r.PathValue("org"))
	}
	sp := s.world.spaceNamed(o, r.PathValue("space"))
	for _, row := range s.world.instancesOf(sp) {
		s.dropInstance(row)
	}
	s.world.removeSpace(sp)
	return struct{}{}, nil
}

func (w *world) instancesOf(sp *space) []*instance {
	var found []*instance
	for _, row := range w.instances.ordered {
		if row.space == sp {
			found = append(found, row)
		}
	}
	return found
}
