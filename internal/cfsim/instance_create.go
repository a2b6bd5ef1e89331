package cfsim

import (
	"fmt"
	"unicode/utf8"
)

// newInstance is a create request that has been read.
type newInstance struct {
	name        string
	space, plan string // GUIDs
	tags        []string
	metadata    metadataPatch
	parameters  []byte
}

func (c *call) newInstance() (newInstance, error) {
	m, err := c.message("type", "name", "parameters", "tags", "metadata", "relationships")
	if err != nil {
		return newInstance{}, err
	}
	if kind := m.text("type"); kind != "managed" && len(m.problems) == 0 {
		m.refuse("Type must be one of 'managed', 'user-provided'")
	}
	n := newInstance{
		name:       m.name(true),
		parameters: m.parameters(),
		space:      m.relationship("space", "Space", true),
		plan:       m.relationship("service_plan", "Service plan", true),
	}
	n.tags, _ = m.tags()
	n.metadata = m.metadata()
	return n, m.problem()
}

// createInstance writes the row and the job together, so that the instance can
// be listed when the answer is on its way.
func (s *Simulator) createInstance(c *call) (*answer, error) {
	n, err := c.newInstance()
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	sp := s.world.spaceByGUID[n.space]
	if sp == nil {
		return nil, unprocessable("Invalid space. Ensure that the space exists and you have access to it.")
	}
	p, err := s.usablePlan(n.plan)
	if err != nil {
		return nil, err
	}
	if utf8.RuneCountInString(n.name) > maxName {
		return nil, unprocessable("name max_length")
	}
	marks, err := metadata{}.applied(n.metadata)
	if err != nil {
		return nil, err
	}
	if old := s.world.instances.named(sp, n.name); old != nil {
		if !old.last.is(kindCreate, stateFailed) {
			return nil, unprocessable("The service instance name is taken: " + n.name + ".")
		}
		s.replaceInstance(old)
	}
	row := s.addInstance(n.name, sp, p, lastOperation{kind: kindCreate, state: stateInitial, written: s.options.Now()})
	row.tags, row.metadata = n.tags, marks
	row.job = s.newJob(jobCreateInstance, row.guid)
	s.queue(row.job, &provisioning{instanceWork: s.onInstance(row), parameters: n.parameters})
	return jobAnswer(c.base, row.job), nil
}

// replaceInstance makes room for a row of the same name: that of a failed
// create goes, and the backing broker is asked to clean up under its GUID.
func (s *Simulator) replaceInstance(old *instance) {
	s.dropInstance(old)
	s.orphanInstance(old)
}

func (s *Simulator) addInstance(name string, sp *space, p *plan, last lastOperation) *instance {
	row := &instance{
		sequence: s.world.nextSequence(), guid: s.random.guid(), name: name, space: sp, plan: p,
		maintenance: p.spec.version, last: last, created: last.written, updated: last.written,
	}
	s.world.instances.add(row)
	return row
}

// usablePlan returns a plan that new instances may have.
func (s *Simulator) usablePlan(guid string) (*plan, error) {
	p := s.world.market.plans[guid]
	if p == nil || !p.listed() {
		return nil, unprocessable("Invalid service plan. Ensure that the service plan exists, is available, and you have access to it.")
	}
	if !p.active() {
		return nil, unprocessable(fmt.Sprintf("Invalid service plan. The service plan '%s' with guid '%s' has been removed from the service broker's catalog. "+
			"It is not possible to create new service instances using this plan.", p.spec.name, p.guid))
	}
	return p, nil
}
