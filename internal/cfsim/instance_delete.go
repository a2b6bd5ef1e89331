package cfsim

import "net/http"

// deleteInstance queues a job and shows nothing of it: the row stays as it was
// until a worker has asked the backing broker.
func (s *Simulator) deleteInstance(c *call) (*answer, error) {
	if err := c.allow("purge"); err != nil {
		return nil, err
	}
	purge, err := c.flag("purge")
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	row := s.world.instances.get(c.guid)
	if row == nil {
		return nil, notFound("Service instance")
	}
	if purge != nil && *purge {
		s.dropInstance(row)
		return newAnswer(http.StatusNoContent, "", nil), nil
	}
	if row.last.running() && !row.last.is(kindCreate, stateInProgress) {
		return nil, unprocessable("There is an operation in progress for the service instance.")
	}
	row.job = s.newJob(jobDeleteInstance, row.guid)
	s.queue(row.job, &deprovisioning{s.onInstance(row)})
	return jobAnswer(c.base, row.job), nil
}
