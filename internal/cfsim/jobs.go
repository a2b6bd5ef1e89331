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

// How long ended jobs of resources that are gone stay readable, and how often
// such jobs are looked for. A Cloud Controller keeps them for 90 days; here
// they only have to outlive whoever polls them.
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

// newJob queues nothing yet; the caller holds s.mu.
func (s *Simulator) newJob(operation, resource string) *job {
	now := s.options.Now()
	guid := s.random.guid()
	if s.options.Korifi {
		guid = korifiJobID(operation, resource)
	}
	j := &job{guid: guid, operation: operation, resource: resource, state: jobProcessing, created: now, updated: now}
	s.world.sweepJobs(now)
	s.world.jobs[j.guid] = j
	return j
}

func (w *world) sweepJobs(now time.Time) {
	if now.Sub(w.swept) < jobSweepEvery {
		return
	}
	w.swept = now
	for guid, j := range w.jobs {
		if j.ended() && now.Sub(j.updated) > jobKept && !w.exists(j) {
			delete(w.jobs, guid)
		}
	}
}

// exists tells whether the row that a job is about is still there.
func (w *world) exists(j *job) bool {
	return w.instances.get(j.resource) != nil || w.keys[j.resource] != nil || w.spaceByGUID[j.resource] != nil
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

func (s *Simulator) getJob(c *call) (*answer, error) {
	if err := c.allow(); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	j := s.world.jobs[c.guid]
	if j == nil {
		return nil, notFound("Job")
	}
	v := jobView{
		GUID: j.guid, CreatedAt: timestamp(j.created), UpdatedAt: timestamp(j.updated),
		Operation: j.operation, State: j.state, Errors: append([]cfError{}, j.errors...), Warnings: append([]jobWarning{}, j.warnings...),
		Links: map[string]link{"self": {Href: c.base + "/v3/jobs/" + j.guid}},
	}
	if s.world.exists(j) {
		name, href := j.resourceLink(c.base)
		v.Links[name] = href
	}
	return jsonAnswer(http.StatusOK, v)
}

// later runs step after d, holding s.mu, unless the simulator was closed or
// reset in between. The caller holds s.mu.
func (s *Simulator) later(d time.Duration, step func()) {
	if s.closed {
		return
	}
	var timer *time.Timer
	timer = time.AfterFunc(d, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		// A stopped timer may have fired already and have waited for the lock.
		if _, live := s.timers[timer]; !live {
			return
		}
		delete(s.timers, timer)
		step()
	})
	s.timers[timer] = struct{}{}
}

// cancelTimers makes sure that no step given to later runs any more. The
// caller holds s.mu.
func (s *Simulator) cancelTimers() {
	for timer := range s.timers {
		timer.Stop()
	}
	clear(s.timers)
	s.waiting, s.overdue = nil, 0
}

// defaultPollingLimit is how long a Cloud Controller polls a backing broker
// whose plan does not say.
const defaultPollingLimit = 7 * 24 * time.Hour

// failedState is what a job on a key says when polling brought a failure: the
// name of the class, the reason is only in the key's last operation.
const failedState = "VCAP::CloudController::V3::LastOperationFailedState"

const timedOutMessage = "The request to the service broker timed out"

// work is what one job does to one row. All its methods are called with the
// simulator's mutex held.
type work interface {
	// overtaken tells that the control has set the row's state: the work stops
	// without a trace.
	overtaken() bool
	// moot tells that there is nothing to do any more; the error is the job's,
	// nil when that is a success. asked is false before the backing broker was
	// asked the first time.
	moot(asked bool) (over bool, why *cfError)
	// ask sends the request to the backing broker.
	ask() reply
	// began notes that the backing broker is at it.
	began()
	// succeeded writes the result into the row; the error is the job's, when
	// the result cannot be written.
	succeeded() *cfError
	// refused notes the answer to ask, and returns the job's errors.
	refused(r reply) []cfError
	// failed notes what polling brought, and returns the job's error.
	failed(description string) cfError
	// abandoned notes that polling took too long or that there was no answer,
	// and has removed what the operation may have left behind.
	abandoned(description string)
	// call is what the backing broker is asked.
	call() brokerCall
	// about returns the GUID that the backing broker knows, the words of error
	// texts, and the plan that sets the time limit.
	about() (guid string, words verbs, p *plan)
}

// verbs of an operation in error texts.
type verbs struct {
	ask  string // the first call failed
	gone string // the time for polling is over
}

// queuedJob waits for a worker.
type queuedJob struct {
	job  *job
	work work
	step func() // all there is to do, in place of work
}

// queue has a worker come after the usual delay. It takes the job that has
// waited longest, so that jobs start in the order of their requests.
func (s *Simulator) queue(j *job, w work) {
	if s.closed {
		return
	}
	s.waiting = append(s.waiting, queuedJob{job: j, work: w})
	s.later(s.options.JobDelay, s.pickUp)
}

// queueStep is queue for a job that a worker does at once.
func (s *Simulator) queueStep(j *job, step func()) {
	if s.closed {
		return
	}
	s.waiting = append(s.waiting, queuedJob{job: j, step: step})
	s.later(s.options.JobDelay, s.pickUp)
}

func (s *Simulator) pickUp() {
	if s.held {
		s.overdue++
		return
	}
	next := s.waiting[0]
	s.waiting[0] = queuedJob{} // lets go of the row
	s.waiting = s.waiting[1:]
	if next.step != nil {
		next.step()
		return
	}
	if !s.stopped(next.job, next.work, false) {
		s.heard(next.job, next.work, next.work.ask())
	}
}

// stopped tells whether a job goes no further, and ends it where that is its
// end.
func (s *Simulator) stopped(j *job, w work, asked bool) bool {
	if j.dead || w.overtaken() {
		return true
	}
	over, why := w.moot(asked)
	switch {
	case !over:
		return false
	case why == nil:
		j.set(jobComplete, s.options.Now())
	default:
		j.set(jobFailed, s.options.Now(), *why)
	}
	return true
}

// heard carries on with the backing broker's answer.
func (s *Simulator) heard(j *job, w work, r reply) {
	switch r.outcome {
	case replyDone:
		s.completed(j, w)
	case replyAccepted:
		w.began()
		j.polled = time.Now()
		s.poll(j, w, j.polled)
	case replyRefused:
		j.set(jobFailed, s.options.Now(), w.refused(r)...)
	case replySilent:
		s.later(s.options.BrokerTimeout, func() { s.unanswered(j, w) })
	case replyLater:
		j.set(jobPolling, s.options.Now())
		s.later(s.options.PollInterval, func() { s.asked(j, w) })
	case replyNever:
	}
}

// asked asks again what could not be asked before.
func (s *Simulator) asked(j *job, w work) {
	if !s.stopped(j, w, true) {
		s.heard(j, w, w.ask())
	}
}

// completed writes what the backing broker has done.
func (s *Simulator) completed(j *job, w work) {
	if err := w.succeeded(); err != nil {
		j.set(jobFailed, s.options.Now(), *err)
		return
	}
	j.set(jobComplete, s.options.Now())
}

func (s *Simulator) unanswered(j *job, w work) {
	if s.stopped(j, w, true) {
		return
	}
	_, words, _ := w.about()
	w.abandoned(timedOutMessage)
	j.set(jobFailed, s.options.Now(), unableTo(words.ask, timedOutMessage))
}

// poll asks the backing broker again after the interval, or when the time
// limit is reached, whichever comes first.
func (s *Simulator) poll(j *job, w work, since time.Time) {
	guid, _, p := w.about()
	j.set(jobPolling, s.options.Now())
	left := pollingLimit(p) - time.Since(since)
	pause := max(s.options.PollInterval, s.backing.patience(guid))
	s.later(min(pause, max(left, 0)), func() { s.polled(j, w, since) })
}

func (s *Simulator) polled(j *job, w work, since time.Time) {
	if s.stopped(j, w, true) {
		return
	}
	guid, words, p := w.about()
	if s.options.Korifi {
		s.backing.repeated[w.call()]++
	}
	state, description := s.backing.poll(guid)
	switch {
	case state == pollSucceeded:
		s.completed(j, w)
	case state == pollUnfetched:
		j.set(jobFailed, s.options.Now(), w.refused(reply{message: description})...)
	case state == pollFailed:
		j.set(jobFailed, s.options.Now(), w.failed(description))
	case time.Since(since) >= pollingLimit(p):
		w.abandoned("Service Broker failed to " + words.gone + " within the required time.")
		j.set(jobFailed, s.options.Now(), jobTimeout())
	default:
		w.began()
		s.poll(j, w, since)
	}
}

func pollingLimit(p *plan) time.Duration {
	if p.spec.pollingLimit > 0 {
		return min(time.Duration(p.spec.pollingLimit)*time.Second, defaultPollingLimit)
	}
	return defaultPollingLimit
}
