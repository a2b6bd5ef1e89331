package cfsim

import "net/http"

// createKorifiInstance never takes the place of a failed create, and leaves
// the last operation empty until a controller looks at the row.
func (s *Simulator) createKorifiInstance(c *call) (*answer, error) {
	n, err := c.newInstance()
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	sp, p, marks, err := s.allowedInstance(c, n)
	if err != nil {
		return nil, err
	}
	if s.world.instances.named(sp, n.name) != nil {
		return nil, unprocessable("The service instance name is taken: " + n.name)
	}
	row := s.addInstance(n.name, sp, p, lastOperation{written: s.options.Now()})
	row.tags, row.metadata = n.tags, marks
	row.job = s.newJob(jobCreateInstance, row.guid)
	s.queue(row.job, &provisioning{instanceWork: s.onInstance(row), parameters: n.parameters})
	return jobAnswer(c.base, row.job), nil
}

// updateKorifiInstance changes name, tags and metadata at once, whatever the
// row is doing. The rest of the request is read and forgotten.
func (s *Simulator) updateKorifiInstance(c *call) (*answer, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	row, err := s.instanceToChange(c)
	if err != nil {
		return nil, err
	}
	u, err := c.updateRequest()
	if err != nil {
		return nil, err
	}
	if u.name != nil {
		if !s.nameFree(row, *u.name) {
			return nil, unprocessable("The service instance name is taken: " + *u.name)
		}
	}
	if _, err := row.metadata.applied(u.metadata); err != nil {
		return nil, err
	}
	s.apply(row, changes{name: u.name, tags: u.tags, metadata: u.metadata})
	row.updated = s.options.Now()
	return jsonAnswer(http.StatusOK, c.instanceView(row))
}

// deleteKorifiInstance accepts a delete in every state. With purge the backing
// broker is not asked.
func (s *Simulator) deleteKorifiInstance(c *call) (*answer, error) {
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
	if row.deleted.IsZero() {
		row.deleted = s.options.Now()
	}
	j := s.newJob(jobDeleteInstance, row.guid)
	w := s.deletion(row, j)
	if purge {
		s.queue(j, &purging{w})
		return jobAnswer(c.base, j), nil
	}
	row.job = j
	s.queue(j, w)
	return jobAnswer(c.base, j), nil
}

// purging removes an instance without a word to the backing broker.
type purging struct{ *deprovisioning }

func (w *purging) moot(bool) (bool, *cfError) { return w.vanished() != nil, nil }

func (w *purging) ask() reply { return reply{outcome: replyDone} }
