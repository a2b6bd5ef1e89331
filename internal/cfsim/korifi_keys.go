package cfsim

// createKorifiKey takes a key in every state of the instance; the controller
// waits for it. A key cannot be marked when it is made.
func (s *Simulator) createKorifiKey(c *call) (*answer, error) {
	n, err := c.newKey()
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	i := s.world.instances.get(n.instance)
	if i == nil || !s.readable(c) {
		return nil, notFound("Service instance")
	}
	if err := s.writable(c, i.space); err != nil {
		return nil, err
	}
	if !i.plan.bindable() {
		return nil, unprocessable("Service plan does not allow bindings.")
	}
	if s.world.keyNamed(i, n.name) != nil {
		return nil, unprocessable("Service binding already exists: App:  Service Instance: " + i.guid + " Service Binding: " + n.name)
	}
	k := s.addKey(i, n.name, lastOperation{kind: kindCreate, state: stateInitial, written: s.options.Now()})
	k.parameters = n.parameters
	k.job = s.newJob(jobCreateKey, k.guid)
	s.queue(k.job, &binding{s.onKey(k)})
	return jobAnswer(c.base, k.job), nil
}

// deleteKorifiKey accepts a delete in every state.
func (s *Simulator) deleteKorifiKey(c *call) (*answer, error) {
	if err := c.allow(); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	k, err := s.keyToChange(c)
	if err != nil {
		return nil, err
	}
	if k.deleted.IsZero() {
		k.deleted = s.options.Now()
	}
	k.job = s.newJob(jobDeleteKey, k.guid)
	s.queue(k.job, &unbinding{s.onKey(k)})
	return jobAnswer(c.base, k.job), nil
}
