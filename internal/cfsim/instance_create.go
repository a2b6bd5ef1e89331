package cfsim

import (
	"errors"
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
	if err := s.featureOn(c, featureInstances); err != nil {
		return nil, err
	}
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
	old := s.world.instances.named(sp, n.name)
	if old != nil {
		if old.space != sp || !old.last.is(kindCreate, stateFailed) {
			return nil, unprocessable("The service instance name is taken: " + n.name + ".")
		}
		s.replaceInstance(old)
	}
	if err := s.checkQuota(sp, p); err != nil {
		return nil, err
	}
	row := s.addInstance(n.name, sp, p, lastOperation{kind: kindCreate, state: stateInitial, written: s.options.Now()})
	row.tags, row.metadata = n.tags, marks
	row.job = s.newJob(jobCreateInstance, row.guid)
	s.queue(row.job, &provisioning{instanceWork: s.onInstance(row), parameters: n.parameters})
	if old != nil && s.conditions.Rivals > 0 {
		s.conditions.Rivals--
		return nil, errRowGone // the row is the rival's, who has replaced it first
	}
	return jobAnswer(c.base, row.job), nil
}

// errRowGone ends as the answer to an unknown error: the row that a create
// wanted to replace was replaced by another request meanwhile (R2).
var errRowGone = errors.New("the row to replace does not exist any more")

// allowedInstance applies what a create depends on, names and limits aside, in
// the order of the Cloud Controller.
func (s *Simulator) allowedInstance(c *call, n newInstance) (*space, *plan, metadata, error) {
	refused := func(err error) (*space, *plan, metadata, error) { return nil, nil, metadata{}, err }
	sp := s.world.spaceByGUID[n.space]
	if sp == nil || !s.readable(c) {
		return refused(unprocessable("Invalid space. Ensure that the space exists and you have access to it."))
	}
	if err := s.writable(c, sp); err != nil {
		return refused(err)
	}
	if err := s.growing(sp); err != nil {
		return refused(err)
	}
	p, err := s.usablePlan(n.plan, sp)
	if err != nil {
		return refused(err)
	}
	if s.conditions.BrokerBusy {
		return refused(unprocessable("The service instance cannot be created because there is an operation in progress for the service broker."))
	}
	if utf8.RuneCountInString(n.name) > maxName {
		return refused(unprocessable("name max_length"))
	}
	marks, err := metadata{}.applied(n.metadata)
	return sp, p, marks, err
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

// usablePlan returns a plan that new instances in a space may have.
func (s *Simulator) usablePlan(guid string, sp *space) (*plan, error) {
	p := s.world.market.plans[guid]
	if p == nil || !p.listed() || p.secret() || s.options.Korifi && !p.visibleIn(sp.organization) {
		return nil, unprocessable("Invalid service plan. Ensure that the service plan exists, is available, and you have access to it.")
	}
	if !p.active() {
		return nil, unprocessable(fmt.Sprintf("Invalid service plan. The service plan '%s' with guid '%s' has been removed from the service broker's catalog. "+
			"It is not possible to create new service instances using this plan.", p.spec.name, p.guid))
	}
	if !p.visibleIn(sp.organization) {
		return nil, unprocessable(fmt.Sprintf("Invalid service plan. This could be due to a space-scoped broker which is offering the service plan '%s' with guid '%s' in another space "+
			"or that the plan is not enabled in this organization. Ensure that the service plan is visible in your current space '%s' with guid '%s'.",
			p.spec.name, p.guid, sp.name, sp.guid))
	}
	return p, nil
}
