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

// instanceWork is what all work on instances has in common.
type instanceWork struct {
	s      *Simulator
	row    *instance
	forced int // the row's count of forced states when the job was made
}

func (s *Simulator) onInstance(row *instance) instanceWork {
	return instanceWork{s: s, row: row, forced: row.forced}
}

func (w instanceWork) overtaken() bool { return w.row.forced != w.forced }

func (w instanceWork) mark(kind, state, description string) {
	now := w.s.options.Now()
	w.row.last = lastOperation{kind: kind, state: state, description: description, written: now}
	w.row.updated = now
}

func (w instanceWork) vanished() *cfError {
	if w.s.world.present(w.row) {
		return nil
	}
	err := vanished("The service instance could not be found: " + w.row.guid + ".")
	return &err
}

// said is what a row tells of a failure that did not come from polling, which
// is nothing with Korifi.
func (w instanceWork) said(message string) string {
	if w.s.options.Korifi {
		return ""
	}
	return message
}

// provisioning is the work of service_instance.create.
type provisioning struct {
	instanceWork
	parameters []byte
	slow       bool // the backing broker works asynchronously
}

func (w *provisioning) moot(bool) (bool, *cfError) {
	if err := w.vanished(); err != nil {
		return true, err
	}
	if w.row.last.kind == kindDelete {
		err := unableTo("create", "delete in progress")
		return true, &err
	}
	return false, nil
}

func (w *provisioning) call() brokerCall { return w.row.call(provision) }

func (w *provisioning) ask() reply {
	if w.s.options.Korifi && w.row.last.blank() {
		// The controller takes notice of a row before it does anything.
		w.mark(kindCreate, stateInitial, "")
		return reply{outcome: replyLater}
	}
	w.row.received = w.parameters
	r := w.s.backing.ask(w.call(), w.row.plan.spec.fates, w.row.guid)
	if r.dashboard != "" {
		w.row.setDashboard(r.dashboard)
	}
	return r
}

func (w *provisioning) began() {
	w.slow = true
	w.mark(kindCreate, stateInProgress, "")
}

func (w *provisioning) succeeded() *cfError {
	w.row.applied = w.parameters
	if w.s.options.Korifi && w.slow {
		w.row.maintenance = "" // it forgets the version on the way
	}
	w.mark(kindCreate, stateSucceeded, "")
	return nil
}

func (w *provisioning) refused(r reply) []cfError {
	w.mark(kindCreate, stateFailed, w.said(r.message))
	if r.orphan {
		w.s.orphanInstance(w.row)
	}
	return []cfError{unableTo("provision", r.message)}
}

func (w *provisioning) failed(description string) cfError {
	w.mark(kindCreate, stateFailed, description)
	return unableTo("create managed", description)
}

func (w *provisioning) abandoned(description string) {
	w.mark(kindCreate, stateFailed, w.said(description))
	w.s.orphanInstance(w.row)
}

func (w *provisioning) about() (string, verbs, *plan) {
	return w.row.guid, verbs{ask: "provision", gone: "provision"}, w.row.plan
}

// dropInstance removes a row, and what the backing broker still does for it.
func (s *Simulator) dropInstance(row *instance) {
	for _, k := range row.keys {
		s.backing.forgetOperation(k.guid)
	}
	s.backing.forgetOperation(row.guid)
	s.world.removeInstance(row)
}

// orphanInstance has the backing broker remove an instance whose create may
// have left something, or whose row was replaced.
func (s *Simulator) orphanInstance(row *instance) {
	if s.options.Korifi {
		return // it does not clean up
	}
	call, fates, guid := row.call(deprovision), row.plan.spec.fates, row.guid
	s.later(s.options.JobDelay, func() { s.backing.ask(call, fates, guid) })
}
