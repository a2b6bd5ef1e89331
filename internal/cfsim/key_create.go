package cfsim

// newKey is a create request that has been read.
type newKey struct {
	name, instance string
	metadata       metadataPatch
	parameters     []byte
}

func (c *call) newKey() (newKey, error) {
	m, err := c.message(c.without([]string{"type", "name", "parameters", "metadata", "relationships"}, "metadata")...)
	if err != nil {
		return newKey{}, err
	}
	if kind := m.text("type"); kind != "key" && len(m.problems) == 0 {
		m.refuse("Type must be 'key': applications are not simulated")
	}
	n := newKey{
		name:       m.name(false),
		instance:   m.relationship("service_instance", "Service instance", true),
		parameters: m.parameters(),
	}
	if app := m.relationship("app", "App", false); app != "" {
		m.refuse("Relationships Unknown field(s): 'app'")
	}
	n.metadata = m.metadata()
	return n, m.problem()
}

func (s *Simulator) createKey(c *call) (*answer, error) {
	n, err := c.newKey()
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	i := s.world.instances.get(n.instance)
	if i == nil || !s.readable(c) {
		return nil, unprocessable("The service instance could not be found: '" + n.instance + "'")
	}
	if err := s.writable(c, i.space); err != nil {
		return nil, err
	}
	if err := s.bindable(i, n.name); err != nil {
		return nil, err
	}
	marks, err := metadata{}.applied(n.metadata)
	if err != nil {
		return nil, err
	}
	if old := s.world.keyNamed(i, n.name); old != nil { // a failed create, see bindable
		s.backing.forgetOperation(old.guid)
		s.world.removeKey(old)
		s.orphanKey(old)
	}
	if err := s.checkKeyQuota(i.space); err != nil {
		return nil, err
	}
	k := s.addKey(i, n.name, lastOperation{kind: kindCreate, state: stateInitial, written: s.options.Now()})
	k.metadata, k.parameters = marks, n.parameters
	k.job = s.newJob(jobCreateKey, k.guid)
	s.queue(k.job, &binding{s.onKey(k)})
	return jobAnswer(c.base, k.job), nil
}

// bindable tells whether an instance takes a key of that name.
func (s *Simulator) bindable(i *instance, name string) error {
	const taken = "The binding name is invalid. Key binding names must be unique. The service instance already has "
	switch {
	case i.last.is(kindCreate, stateFailed):
		return unprocessable("Service instance not found")
	case !i.plan.bindable():
		return unprocessable("Service plan does not allow bindings.")
	case i.last.running():
		return unprocessable("There is an operation in progress for the service instance")
	}
	old := s.world.keyNamed(i, name)
	switch {
	case old == nil || old.last.is(kindCreate, stateFailed):
		return nil
	case old.last.kind == kindDelete:
		return unprocessable(taken + "a key binding with the name '" + name + "' that is getting deleted or its deletion failed.")
	}
	return unprocessable(taken + "a key binding with name '" + name + "'.")
}
