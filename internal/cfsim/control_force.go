package cfsim

import (
	"net/http"
	"slices"
)

// jobGone is what the control calls a job that can no longer be found.
const jobGone = "gone"

type forcedState struct {
	LastOperation *plantedOperation `json:"last_operation"`
	Job           *string           `json:"job"`
}

// forceInstance puts a row and its latest job into a state that a real Cloud
// Controller reaches by accident. A forced last operation stops all work that
// was under way on the row. A forced job keeps its state; one that has ended
// or failed does no work any more, one that is gone or said to be running
// still does its work on the row.
func (s *Simulator) forceInstance(r *http.Request) (any, error) {
	var forced forcedState
	if err := readControl(r, &forced); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	row := s.world.instances.get(r.PathValue("guid"))
	if row == nil {
		return nil, refusedControl(http.StatusNotFound, "There is no instance %q.", r.PathValue("guid"))
	}
	if err := forced.check(row); err != nil {
		return nil, err
	}
	if forced.LastOperation != nil {
		row.forced++
		s.backing.forgetOperation(row.guid)
		s.onInstance(row).mark(forced.LastOperation.Type, forced.LastOperation.State, forced.LastOperation.Description)
	}
	if forced.Job != nil {
		s.forceJob(row, *forced.Job)
	}
	return map[string]string{"guid": row.guid}, nil
}

func (f forcedState) check(row *instance) error {
	if f.LastOperation == nil && f.Job == nil {
		return refusedControl(http.StatusBadRequest, "Neither last_operation nor job is given.")
	}
	if f.LastOperation != nil {
		if err := f.LastOperation.check(); err != nil {
			return err
		}
	}
	if f.Job == nil {
		return nil
	}
	if !slices.Contains([]string{jobProcessing, jobPolling, jobComplete, jobFailed, jobGone}, *f.Job) {
		return refusedControl(http.StatusBadRequest, "A job is PROCESSING, POLLING, COMPLETE, FAILED or gone, not %q.", *f.Job)
	}
	if row.job == nil && *f.Job != jobGone {
		return refusedControl(http.StatusConflict, "The instance %q has no job.", row.name)
	}
	return nil
}

func (s *Simulator) forceJob(row *instance, state string) {
	j := row.job
	if j == nil {
		return // gone already
	}
	j.pinned = false
	switch state {
	case jobGone:
		delete(s.world.jobs, j.guid)
		row.job = nil
	case jobFailed:
		reason := row.last.description
		if reason == "" {
			reason = "The job was made to fail."
		}
		j.set(jobFailed, s.options.Now(), unableTo(forcedVerb(j), reason))
		j.dead = true
	default:
		j.set(state, s.options.Now())
		j.dead = j.dead || state == jobComplete
	}
	j.pinned = true
}

// forcedVerb is what a failed job could not do.
func forcedVerb(j *job) string {
	switch j.operation {
	case jobUpdateInstance:
		return "update"
	case jobDeleteInstance:
		return "delete"
	default:
		return "provision"
	}
}
