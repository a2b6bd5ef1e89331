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
