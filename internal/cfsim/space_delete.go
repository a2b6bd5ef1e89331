package cfsim

import "strings"

// deleteSpace queues a job that removes a space with all that is in it.
func (s *Simulator) deleteSpace(c *call) (*answer, error) {
	if err := c.allow(); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	sp := s.world.spaceByGUID[c.guid]
	if sp == nil || !s.readable(c) {
		return nil, notFound("Space")
	}
	if !s.manager(c) {
		return nil, notAuthorized()
	}
	j := s.newJob(jobDeleteSpace, sp.guid)
	s.queueStep(j, func() { s.emptySpace(sp, j) })
	return jobAnswer(c.base, j), nil
}

// emptySpace asks for every instance to be removed, and removes the space only
// when all have gone at once. Otherwise the job fails, and asynchronous deletes
// go on: a later DELETE of the space then works.
func (s *Simulator) emptySpace(sp *space, j *job) {
	if s.world.spaceByGUID[sp.guid] != sp {
		j.set(jobComplete, s.options.Now()) // somebody else was faster
		return
	}
	var problems []string
	for _, row := range s.world.instancesOf(sp) {
		if problem := s.deleteBelow(row); problem != "" {
			problems = append(problems, "\t"+problem)
		}
	}
	if problems != nil {
		j.set(jobFailed, s.options.Now(), cfError{290008, "CF-SpaceDeletionFailed", "Deletion of space " + sp.name +
			" failed because one or more resources within could not be deleted.\n\n" + strings.Join(problems, "\n\n")})
		return
	}
	s.world.removeSpace(sp)
	j.set(jobComplete, s.options.Now())
}

// deleteBelow removes one instance on the way to removing its space, and returns
// why it is still there.
func (s *Simulator) deleteBelow(row *instance) string {
	busy := instanceBusy(row.name).Detail
	w := &deprovisioning{instanceWork: s.onInstance(row)}
	if over, _ := w.moot(false); over {
		return busy
	}
	r := w.ask()
	switch r.outcome {
	case replyDone:
		if err := w.succeeded(); err != nil {
			return err.Detail
		}
		return ""
	case replyAccepted:
		row.job = s.newJob(jobDeleteInstance, row.guid)
		s.heard(row.job, w, r)
		return busy
	case replySilent:
		r.message = timedOutMessage
	default: // refused: the broker's message stands
	}
	w.refused(r)
	return r.message
}
