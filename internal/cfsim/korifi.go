package cfsim

import (
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"
)

// Operations of jobs as Korifi calls them. Its jobs are no rows: what they say
// is read from the resource, whose GUID is part of theirs.
const (
	korifiInstance = "managed_service_instance"
	korifiBinding  = "managed_service_binding"
	korifiCreate   = ".create"
	korifiDelete   = ".delete"
)

// errUnfinished ends as the answer to an unknown error, which is what Korifi
// has for the details of a key that has none.
var errUnfinished = errors.New("the binding has no credentials")

// korifiJobID names a job of ours as Korifi would.
func korifiJobID(operation, resource string) string {
	return korifiOperation(operation) + "~" + resource
}

func korifiOperation(operation string) string {
	return map[string]string{
		jobCreateInstance: korifiInstance + korifiCreate, jobDeleteInstance: korifiInstance + korifiDelete,
		jobCreateKey: korifiBinding + korifiCreate, jobDeleteKey: korifiBinding + korifiDelete,
	}[operation]
}

// korifiRoutes changes the routes of the Cloud Controller into Korifi's.
func (s *Simulator) korifiRoutes(routes []route) []route {
	const one = "/v3/service_instances/:guid"
	// What has a job of its own would have one of another kind there.
	missing := []string{"/v3/feature_flags", "/v3/feature_flags/:guid", "/v3/organization_quotas/:guid", one + "/parameters", one + "/permissions", one + "/relationships/shared_spaces", one + "/relationships/shared_spaces/:guid", one + "/relationships/shared_spaces/usage_summary"}
	routes = slices.DeleteFunc(routes, func(r route) bool { return slices.Contains(missing, r.pattern) })
	routes = slices.DeleteFunc(routes, func(r route) bool {
		return r.method == http.MethodDelete && (r.pattern == "/v3/spaces/:guid" || r.pattern == "/v3/roles/:guid")
	})
	own := map[string]handler{
		"POST /v3/service_instances":                   s.createKorifiInstance,
		"PATCH " + one:                                 s.updateKorifiInstance,
		"DELETE " + one:                                s.deleteKorifiInstance,
		"POST /v3/service_credential_bindings":         s.createKorifiKey,
		"DELETE /v3/service_credential_bindings/:guid": s.deleteKorifiKey,
		"GET /v3/jobs/:guid":                           s.getKorifiJob,
	}
	for i, r := range routes {
		if handle, there := own[r.method+" "+r.pattern]; there {
			routes[i].handle = handle
		}
	}
	return routes
}

// without takes query parameters away that Korifi refuses.
func (c *call) without(params []string, refused ...string) []string {
	if !c.korifi {
		return params
	}
	return slices.DeleteFunc(slices.Clone(params), func(name string) bool { return slices.Contains(refused, name) })
}

// korifiWait tells what a bind has to wait for: the instance. One that failed
// is waited for without an end.
func korifiWait(i *instance) (reply, bool) {
	switch {
	case i.last.is(kindCreate, stateFailed):
		return reply{outcome: replyNever}, true
	case i.last.kind == kindDelete || i.last.state == stateSucceeded:
		return reply{}, false
	}
	return reply{outcome: replyLater}, true
}

type korifiJobView struct {
	GUID      string          `json:"guid"`
	Errors    []cfError       `json:"errors"`
	Operation string          `json:"operation"`
	State     string          `json:"state"`
	Links     map[string]link `json:"links"`
}

// getKorifiJob derives a job from its name and the resource. A create that
// failed is never seen to end; a delete is given up after a fixed time.
func (s *Simulator) getKorifiJob(c *call) (*answer, error) {
	if err := c.allow(); err != nil {
		return nil, err
	}
	operation, guid, _ := strings.Cut(c.guid, "~")
	s.mu.Lock()
	defer s.mu.Unlock()
	row, known := s.korifiResource(operation, guid)
	if !known {
		return nil, notFound("Job")
	}
	v := korifiJobView{GUID: c.guid, Errors: []cfError{}, Operation: operation, State: jobPolling, Links: map[string]link{"self": {Href: c.base + "/v3/jobs/" + c.guid}}}
	switch {
	case strings.HasSuffix(operation, korifiCreate):
		if row == nil {
			return nil, notFound("Job")
		}
		if row.created {
			v.State = jobComplete
		}
	case row == nil:
		v.State = jobComplete
	case row.deleted.IsZero():
		return nil, notFound("Job")
	case s.options.Now().Sub(row.deleted) >= s.options.KorifiDeleteTimeout:
		v.State = jobFailed
		v.Errors = []cfError{{codeUnprocessable, titleUnprocessable, strings.TrimSuffix(operation, korifiDelete) +
			" deletion timed out, check the remaining \"" + guid + "\" resource"}}
	}
	return jsonAnswer(http.StatusOK, v)
}

// korifiRow is what a job reads from a resource.
type korifiRow struct {
	created bool
	deleted time.Time // when the delete was asked for
}

// korifiResource finds what a job is about, nil when it is gone; known is
// false for an operation that there is not.
func (s *Simulator) korifiResource(operation, guid string) (row *korifiRow, known bool) {
	switch operation {
	case korifiInstance + korifiCreate, korifiInstance + korifiDelete:
		if i := s.world.instances.get(guid); i != nil {
			return &korifiRow{i.last.kind != "" && i.last.kind != kindCreate || i.last.is(kindCreate, stateSucceeded), i.deleted}, true
		}
	case korifiBinding + korifiCreate, korifiBinding + korifiDelete:
		if k := s.world.keys[guid]; k != nil {
			return &korifiRow{k.last.kind != kindCreate || k.last.state == stateSucceeded, k.deleted}, true
		}
	default:
		return nil, false
	}
	return nil, true
}

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
