package cfsim

import "net/http"

// deleteInstance queues a job and shows nothing of it: the row stays as it was
// until a worker has asked the backing broker. With the newer pipeline a second
// delete gets the job of the first.
func (s *Simulator) deleteInstance(c *call) (*answer, error) {
	purge, err := c.purge()
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	row, err := s.instanceToChange(c)
	if err != nil {
		return nil, err
	}
	if purge {
		if !s.administrator(c) {
			return nil, notAuthorized()
		}
		s.dropInstance(row)
		return newAnswer(http.StatusNoContent, "", nil), nil
	}
	if s.options.RecursiveDelete && row.deletion != nil && !row.deletion.over() {
		return jobAnswer(c.base, row.deletion), nil
	}
	if row.last.running() && !row.last.is(kindCreate, stateInProgress) {
		return nil, unprocessable("There is an operation in progress for the service instance.")
	}
	row.job = s.newJob(jobDeleteInstance, row.guid)
	row.deletion = row.job
	s.queue(row.job, s.deletion(row, row.job))
	return jobAnswer(c.base, row.job), nil
}

// purge reads whether the backing broker is to be left out.
func (c *call) purge() (bool, error) {
	if err := c.allow("purge"); err != nil {
		return false, err
	}
	purge, err := c.flag("purge")
	return purge != nil && *purge, err
}
