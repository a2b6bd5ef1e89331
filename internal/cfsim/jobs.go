package cfsim

import (
	"net/http"
	"time"
)

// States of a job.
const (
	jobProcessing = "PROCESSING"
	jobPolling    = "POLLING"
	jobComplete   = "COMPLETE"
	jobFailed     = "FAILED"
)

// Operations of jobs.
const (
	jobCreateInstance = "service_instance.create"
	jobUpdateInstance = "service_instance.update"
	jobDeleteInstance = "service_instance.delete"
	jobCreateKey      = "service_keys.create"
	jobDeleteKey      = "service_keys.delete"
	jobDeleteSpace    = "space.delete"
	jobDeleteRole     = "role.delete"
)

// How long ended jobs of resources that are gone stay readable, and how often such jobs are looked for. A Cloud
// Controller keeps them for 90 days; here they only have to outlive whoever polls them.
const (
	jobKept       = 10 * time.Minute
	jobSweepEvery = time.Minute
)

type job struct {
	guid      string
	operation string
	resource  string // GUID of the row
	state     string
	errors    []cfError
	created   time.Time
	updated   time.Time
	pinned    bool      // the control set the state
	dead      bool      // the control ended it, or its worker
	polled    time.Time // since when the backing broker is polled
	warnings  []jobWarning
}

// over tells that nothing more comes of the job.
func (j *job) over() bool { return j.dead || j.ended() }

func (j *job) ended() bool { return j.state == jobComplete || j.state == jobFailed }

// set moves the job on, unless the control holds it.
func (j *job) set(state string, at time.Time, errors ...cfError) {
	if j.pinned {
		return
	}
	j.state, j.updated, j.errors = state, at, errors
}

// end fails a job that has errors and completes one that has none.
func (j *job) end(at time.Time, errors ...cfError) {
	if len(errors) > 0 {
		j.set(jobFailed, at, errors...)
		return
	}
	j.set(jobComplete, at)
}

// newJob writes the row of a job; it queues nothing yet.
func (cc *controller) newJob(operation, resource string) *job {
	now := cc.now()
	guid := cc.random.guid()
	if cc.options.Korifi {
		guid = korifiJobID(operation, resource)
	}
	j := &job{guid: guid, operation: operation, resource: resource, state: jobProcessing, created: now, updated: now}
	cc.database.sweepJobs(now)
	cc.database.jobs[j.guid] = j
	return j
}

func (db *database) sweepJobs(now time.Time) {
	if now.Sub(db.swept) < jobSweepEvery {
		return
	}
	db.swept = now
	for guid, j := range db.jobs {
		if j.ended() && now.Sub(j.updated) > jobKept && !db.exists(j) {
			delete(db.jobs, guid)
		}
	}
}

// exists tells whether the row that a job is about is still there.
func (db *database) exists(j *job) bool {
	return db.instances.get(j.resource) != nil || db.keys[j.resource] != nil || db.spaceByGUID[j.resource] != nil
}

type jobView struct {
	GUID      string          `json:"guid"`
	CreatedAt string          `json:"created_at"`
	UpdatedAt string          `json:"updated_at"`
	Operation string          `json:"operation"`
	State     string          `json:"state"`
	Errors    []cfError       `json:"errors"`
	Warnings  []jobWarning    `json:"warnings"`
	Links     map[string]link `json:"links"`
}

type jobWarning struct {
	Detail string `json:"detail"`
}

// resourceLink is the name and address of a job's resource, as its links have it.
func (j *job) resourceLink(base string) (string, link) {
	switch j.operation {
	case jobCreateInstance, jobUpdateInstance:
		return "service_instances", link{Href: base + "/v3/service_instances/" + j.resource}
	case jobDeleteInstance:
		return "service_instance", link{Href: base + "/v3/service_instances/" + j.resource}
	case jobDeleteSpace:
		return "space", link{Href: base + "/v3/spaces/" + j.resource}
	default:
		return "service_credential_binding", link{Href: base + "/v3/service_credential_bindings/" + j.resource}
	}
}

func getJob(c *call) (*answer, error) {
	if err := c.query.only(); err != nil {
		return nil, err
	}
	j := c.database.jobs[c.guid]
	if j == nil {
		return nil, notFound("Job")
	}
	v := jobView{
		GUID: j.guid, CreatedAt: timestamp(j.created), UpdatedAt: timestamp(j.updated),
		Operation: j.operation, State: j.state, Errors: append([]cfError{}, j.errors...), Warnings: append([]jobWarning{}, j.warnings...),
		Links: map[string]link{"self": {Href: c.base + "/v3/jobs/" + j.guid}},
	}
	if c.database.exists(j) {
		name, href := j.resourceLink(c.base)
		v.Links[name] = href
	}
	return jsonAnswer(http.StatusOK, v), nil
}

// workers do what is due later: they take up jobs, poll the backing broker, and clean up. Their methods, and the steps
// that they take, are called with the controller's lock held.
type workers struct {
	*controller
	timers  map[*time.Timer]struct{}
	waiting []func() // what jobs begin with, those that wait longest first
	held    bool     // by the control
	overdue int      // how many workers came while they were held
	closed  bool
}

func newWorkers(cc *controller) *workers {
	return &workers{controller: cc, timers: map[*time.Timer]struct{}{}}
}

// later takes a step after d, unless the simulator was closed or reset in between.
func (wk *workers) later(d time.Duration, step func()) {
	if wk.closed {
		return
	}
	var timer *time.Timer
	timer = time.AfterFunc(d, func() {
		wk.mu.Lock()
		defer wk.mu.Unlock()
		// A stopped timer may have fired already and have waited for the lock.
		if _, live := wk.timers[timer]; !live {
			return
		}
		delete(wk.timers, timer)
		step()
	})
	wk.timers[timer] = struct{}{}
}

// reset makes sure that no step given to later is taken any more, and lets workers that were held go.
func (wk *workers) reset() {
	for timer := range wk.timers {
		timer.Stop()
	}
	clear(wk.timers)
	wk.waiting, wk.overdue, wk.held = nil, 0, false
}

// close is reset for good.
func (wk *workers) close() {
	wk.reset()
	wk.closed = true
}

// queue has a worker come after the usual delay. It takes the job that has waited longest, so that jobs start in the
// order of their requests.
func (wk *workers) queue(j *job, w work) {
	wk.queueStep(func() {
		if !wk.stopped(j, w, false) {
			wk.carryOn(j, w, w.ask())
		}
	})
}

// queueStep is queue for a job that a worker does at once.
func (wk *workers) queueStep(step func()) {
	if wk.closed {
		return
	}
	wk.waiting = append(wk.waiting, step)
	wk.later(wk.options.JobDelay, wk.takeUp)
}

func (wk *workers) takeUp() {
	if wk.held {
		wk.overdue++
		return
	}
	step := wk.waiting[0]
	wk.waiting[0] = nil // lets go of the row
	wk.waiting = wk.waiting[1:]
	step()
}

// hold keeps workers from taking up jobs, or lets those that would have come meanwhile take them up. It returns how
// many jobs wait.
func (wk *workers) hold(held bool) int {
	wk.held = held
	for !wk.held && wk.overdue > 0 {
		wk.overdue--
		wk.takeUp()
	}
	return len(wk.waiting)
}

// work is what one job does to one row.
type work interface {
	// overtaken tells that the control has set the row's state: the work stops without a trace.
	overtaken() bool
	// moot tells that there is nothing to do any more; the errors are the job's, none when that is a success. asked is
	// false before the backing broker was asked the first time.
	moot(asked bool) (over bool, errors []cfError)
	// ask sends the request to the backing broker.
	ask() reply
	// began notes that the backing broker works on it.
	began()
	// succeeded writes the result into the row; the errors are the job's, when the result cannot be written.
	succeeded() []cfError
	// refused notes the answer to ask, and returns the job's errors.
	refused(r reply) []cfError
	// failed notes the failure that polling brought, and returns the job's error.
	failed(description string) cfError
	// abandoned notes that polling took too long or that there was no answer, and has the backing broker remove what
	// the operation may have left behind.
	abandoned(description string)
	// call is what the backing broker is asked.
	call() brokerCall
	// about returns the GUID that the backing broker knows, the words of error texts, and the plan that sets the time
	// limit.
	about() (guid string, words verbs, p *plan)
}

// verbs of an operation in error texts.
type verbs struct {
	ask  string // the first request failed
	gone string // the time for polling is over
}

// stopped tells whether a job goes no further, and ends it where that is its end.
func (wk *workers) stopped(j *job, w work, asked bool) bool {
	if j.dead || w.overtaken() {
		return true
	}
	over, errors := w.moot(asked)
	if over {
		j.end(wk.now(), errors...)
	}
	return over
}

// carryOn does what the backing broker's answer asks for.
func (wk *workers) carryOn(j *job, w work, r reply) {
	switch r.outcome {
	case replyDone:
		j.end(wk.now(), w.succeeded()...)
	case replyAccepted:
		w.began()
		j.polled = time.Now()
		wk.poll(j, w, j.polled)
	case replyRefused:
		j.end(wk.now(), w.refused(r)...)
	case replySilent:
		wk.later(wk.options.BrokerTimeout, func() { wk.unanswered(j, w) })
	case replyLater:
		j.set(jobPolling, wk.now())
		wk.later(wk.options.PollInterval, func() { wk.askAgain(j, w) })
	case replyNever:
	}
}

// askAgain asks what could not be asked before.
func (wk *workers) askAgain(j *job, w work) {
	if !wk.stopped(j, w, true) {
		wk.carryOn(j, w, w.ask())
	}
}

const timedOutMessage = "The request to the service broker timed out"

func (wk *workers) unanswered(j *job, w work) {
	if wk.stopped(j, w, true) {
		return
	}
	_, words, _ := w.about()
	w.abandoned(timedOutMessage)
	j.end(wk.now(), unableTo(words.ask, timedOutMessage))
}

// poll asks the backing broker after the interval, or when the time limit is reached, whichever comes first.
func (wk *workers) poll(j *job, w work, since time.Time) {
	guid, _, p := w.about()
	j.set(jobPolling, wk.now())
	left := pollingLimit(p) - time.Since(since)
	interval := max(wk.options.PollInterval, wk.backing.patience(guid))
	wk.later(min(interval, max(left, 0)), func() { wk.polled(j, w, since) })
}

func (wk *workers) polled(j *job, w work, since time.Time) {
	if wk.stopped(j, w, true) {
		return
	}
	guid, words, p := w.about()
	if wk.options.Korifi {
		wk.backing.repeated[w.call()]++
	}
	state, description := wk.backing.poll(guid)
	switch {
	case state == pollSucceeded:
		j.end(wk.now(), w.succeeded()...)
	case state == pollUnfetched:
		j.end(wk.now(), w.refused(reply{message: description})...)
	case state == pollFailed:
		j.end(wk.now(), w.failed(description))
	case time.Since(since) >= pollingLimit(p):
		w.abandoned("Service Broker failed to " + words.gone + " within the required time.")
		j.end(wk.now(), jobTimeout())
	default:
		w.began()
		wk.poll(j, w, since)
	}
}

// defaultPollingLimit is how long a Cloud Controller polls a backing broker whose plan does not say.
const defaultPollingLimit = 7 * 24 * time.Hour

func pollingLimit(p *plan) time.Duration {
	if p.spec.pollingLimit > 0 {
		return min(time.Duration(p.spec.pollingLimit)*time.Second, defaultPollingLimit)
	}
	return defaultPollingLimit
}
