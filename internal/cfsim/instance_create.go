package cfsim

import (
	"errors"
	"fmt"
	"unicode/utf8"
)

// createInstance is POST /v3/service_instances. It writes the row and the job together, so that the instance can be
// listed when the answer is on its way; provisioning is what the job does.
func createInstance(c *call) (*answer, error) {
	if err := c.featureAllows(featureInstances); err != nil {
		return nil, err
	}
	n, err := readNewInstance(c)
	if err != nil {
		return nil, err
	}
	sp, p, marks, err := allowedInstance(c, n)
	if err != nil {
		return nil, err
	}
	old := c.database.instances.named(sp, n.name)
	if old != nil {
		if old.space != sp || !old.last.is(kindCreate, stateFailed) {
			return nil, unprocessable("The service instance name is taken: " + n.name + ".")
		}
		c.dropInstance(old)
		c.orphanInstance(old)
	}
	if err := c.checkQuota(sp, p); err != nil {
		return nil, err
	}
	row := c.addInstance(n.name, sp, p, lastOperation{kind: kindCreate, state: stateInitial, written: c.now()})
	row.tags, row.metadata = n.tags, marks
	row.job = c.newJob(jobCreateInstance, row.guid)
	c.workers.queue(row.job, &provisioning{instanceWork: c.onInstance(row), parameters: n.parameters})
	if old != nil && c.conditions.Rivals > 0 {
		c.conditions.Rivals--
		return nil, errRowGone // the row is the rival's, who has replaced it first
	}
	return jobAnswer(c.base, row.job), nil
}

// errRowGone ends as the answer to an unknown error: the row that a create wanted to replace was replaced by another
// request meanwhile (R2).
var errRowGone = errors.New("the row to replace does not exist any more")

// newInstance is a request to create an instance that has been read.
type newInstance struct {
	name        string
	space, plan string // GUIDs
	tags        []string
	metadata    metadataPatch
	parameters  []byte
}

func readNewInstance(c *call) (newInstance, error) {
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

// allowedInstance applies the rules of a create, those of names and quotas aside, in the order of the Cloud Controller.
func allowedInstance(c *call, n newInstance) (*space, *plan, metadata, error) {
	refused := func(err error) (*space, *plan, metadata, error) { return nil, nil, metadata{}, err }
	sp := c.database.spaceByGUID[n.space]
	if sp == nil || !c.readable() {
		return refused(unprocessable("Invalid space. Ensure that the space exists and you have access to it."))
	}
	if err := c.writable(sp); err != nil {
		return refused(err)
	}
	if err := c.conditions.allowNew(sp); err != nil {
		return refused(err)
	}
	p, err := c.usablePlan(n.plan, sp)
	if err != nil {
		return refused(err)
	}
	if c.conditions.BrokerBusy {
		return refused(unprocessable("The service instance cannot be created because there is an operation in progress for the service broker."))
	}
	if utf8.RuneCountInString(n.name) > maxName {
		return refused(unprocessable("name max_length"))
	}
	marks, err := metadata{}.applied(n.metadata)
	return sp, p, marks, err
}

// usablePlan returns a plan that new instances in a space may have.
func (cc *controller) usablePlan(guid string, sp *space) (*plan, error) {
	p := cc.database.market.plans[guid]
	if p == nil || !p.listed() || p.secret() || cc.options.Korifi && !p.visibleIn(sp.organization) {
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

func (cc *controller) addInstance(name string, sp *space, p *plan, last lastOperation) *instance {
	row := &instance{
		sequence: cc.database.nextSequence(), guid: cc.random.guid(), name: name, space: sp, plan: p,
		maintenance: p.spec.version, last: last, created: last.written, updated: last.written,
	}
	cc.database.instances.add(row)
	return row
}

// provisioning is the work of the job service_instance.create.
type provisioning struct {
	instanceWork
	parameters []byte
	slow       bool // the backing broker works asynchronously
}

func (w *provisioning) moot(bool) (bool, []cfError) {
	if errors := w.vanished(); errors != nil {
		return true, errors
	}
	if w.row.last.kind == kindDelete {
		return true, []cfError{unableTo("create", "delete in progress")}
	}
	return false, nil
}

func (w *provisioning) call() brokerCall { return w.row.call(provision) }

func (w *provisioning) ask() reply {
	if w.options.Korifi && w.row.last.blank() {
		// The controller takes notice of a row before it does anything.
		w.mark(kindCreate, stateInitial, "")
		return reply{outcome: replyLater}
	}
	w.row.received = w.parameters
	r := w.backing.ask(w.call(), w.row.plan.spec.fates, w.row.guid)
	if r.dashboard != "" {
		w.row.setDashboard(r.dashboard)
	}
	return r
}

func (w *provisioning) began() {
	w.slow = true
	w.mark(kindCreate, stateInProgress, "")
}

func (w *provisioning) succeeded() []cfError {
	w.row.applied = w.parameters
	if w.options.Korifi && w.slow {
		w.row.maintenance = "" // it forgets the version on the way
	}
	w.mark(kindCreate, stateSucceeded, "")
	return nil
}

func (w *provisioning) refused(r reply) []cfError {
	w.mark(kindCreate, stateFailed, w.said(r.message))
	if r.orphan {
		w.orphanInstance(w.row)
	}
	return []cfError{unableTo("provision", r.message)}
}

func (w *provisioning) failed(description string) cfError {
	w.mark(kindCreate, stateFailed, description)
	return unableTo("create managed", description)
}

func (w *provisioning) abandoned(description string) {
	w.mark(kindCreate, stateFailed, w.said(description))
	w.orphanInstance(w.row)
}

func (w *provisioning) about() (string, verbs, *plan) {
	return w.row.guid, verbs{ask: "provision", gone: "provision"}, w.row.plan
}

// instanceWork is what all work on instances has in common.
type instanceWork struct {
	*controller
	row    *instance
	forced int // the row's count of forced states when the job was made
}

func (cc *controller) onInstance(row *instance) instanceWork {
	return instanceWork{controller: cc, row: row, forced: row.forced}
}

func (w instanceWork) overtaken() bool { return w.row.forced != w.forced }

func (w instanceWork) mark(kind, state, description string) {
	now := w.now()
	w.row.last = lastOperation{kind: kind, state: state, description: description, written: now}
	w.row.updated = now
}

// vanished is the error of a job whose row is no longer there, nil while it is.
func (w instanceWork) vanished() []cfError {
	if w.database.present(w.row) {
		return nil
	}
	return []cfError{rowGone("The service instance could not be found: " + w.row.guid + ".")}
}

// said is what a row says of a failure that did not come from polling; with Korifi that is nothing.
func (w instanceWork) said(message string) string {
	if w.options.Korifi {
		return ""
	}
	return message
}

// dropInstance removes a row, and what the backing broker still does for it.
func (cc *controller) dropInstance(row *instance) {
	for _, k := range row.keys {
		cc.backing.forgetOperation(k.guid)
	}
	cc.backing.forgetOperation(row.guid)
	cc.database.removeInstance(row)
}

// orphanInstance has the backing broker remove an instance whose create may have left something, or whose row was
// replaced.
func (cc *controller) orphanInstance(row *instance) {
	if cc.options.Korifi {
		return // it does not clean up
	}
	call, fates, guid := row.call(deprovision), row.plan.spec.fates, row.guid
	cc.workers.later(cc.options.JobDelay, func() { cc.backing.ask(call, fates, guid) })
}
