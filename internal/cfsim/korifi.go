package cfsim

import (
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"
)

// korifiMissing are routes that Korifi does not have. What has a job of its own here would have one of another kind
// there.
var korifiMissing = []string{
	"GET /v3/feature_flags", "GET /v3/feature_flags/:guid", "PATCH /v3/feature_flags/:guid", "GET /v3/organization_quotas/:guid",
	"DELETE /v3/spaces/:guid", "DELETE /v3/roles/:guid",
	"GET /v3/service_instances/:guid/parameters", "GET /v3/service_instances/:guid/permissions",
	"GET /v3/service_instances/:guid/relationships/shared_spaces", "POST /v3/service_instances/:guid/relationships/shared_spaces",
	"DELETE /v3/service_instances/:guid/relationships/shared_spaces/:guid", "GET /v3/service_instances/:guid/relationships/shared_spaces/usage_summary",
}

// korifiHandlers are those of routes that Korifi answers in a way of its own.
var korifiHandlers = map[string]handler{
	"POST /v3/service_instances":                   createKorifiInstance,
	"PATCH /v3/service_instances/:guid":            updateKorifiInstance,
	"DELETE /v3/service_instances/:guid":           deleteKorifiInstance,
	"POST /v3/service_credential_bindings":         createKorifiKey,
	"DELETE /v3/service_credential_bindings/:guid": deleteKorifiKey,
	"GET /v3/jobs/:guid":                           getKorifiJob,
}

// korifiRoutes turns the routes of a Cloud Controller into Korifi's.
func korifiRoutes(routes []route) []route {
	var changed []route
	for _, r := range routes {
		line := r.method + " " + r.pattern
		if handle, own := korifiHandlers[line]; own {
			r.handle = handle
		}
		if !slices.Contains(korifiMissing, line) {
			changed = append(changed, r)
		}
	}
	return changed
}

// exceptOnKorifi returns names of parameters or fields, on Korifi without those that it refuses.
func (c *call) exceptOnKorifi(names []string, refused ...string) []string {
	if !c.options.Korifi {
		return names
	}
	return passing(names, func(name string) bool { return !slices.Contains(refused, name) })
}

// createKorifiInstance never takes the place of a failed create, and leaves the last operation empty until a controller
// looks at the row.
func createKorifiInstance(c *call) (*answer, error) {
	n, err := readNewInstance(c)
	if err != nil {
		return nil, err
	}
	sp, p, marks, err := allowedInstance(c, n)
	if err != nil {
		return nil, err
	}
	if c.database.instances.named(sp, n.name) != nil {
		return nil, unprocessable("The service instance name is taken: " + n.name)
	}
	row := c.addInstance(n.name, sp, p, lastOperation{written: c.now()})
	row.tags, row.metadata = n.tags, marks
	row.job = c.newJob(jobCreateInstance, row.guid)
	c.workers.queue(row.job, &provisioning{instanceWork: c.onInstance(row), parameters: n.parameters})
	return jobAnswer(c.base, row.job), nil
}

// updateKorifiInstance changes name, tags and metadata at once, whatever the row is doing. The rest of the request is
// read and forgotten.
func updateKorifiInstance(c *call) (*answer, error) {
	row, err := c.instanceToChange()
	if err != nil {
		return nil, err
	}
	u, err := readUpdate(c)
	if err != nil {
		return nil, err
	}
	if u.name != nil {
		if !c.database.instances.free(row, *u.name) {
			return nil, unprocessable("The service instance name is taken: " + *u.name)
		}
	}
	if _, err := row.metadata.applied(u.metadata); err != nil {
		return nil, err
	}
	c.apply(row, changes{name: u.name, tags: u.tags, metadata: u.metadata})
	row.updated = c.now()
	return jsonAnswer(http.StatusOK, row.view(c)), nil
}

// deleteKorifiInstance accepts a delete in every state. With purge the backing broker is not asked.
func deleteKorifiInstance(c *call) (*answer, error) {
	purge, err := readPurge(c)
	if err != nil {
		return nil, err
	}
	row, err := c.instanceToChange()
	if err != nil {
		return nil, err
	}
	if row.deleted.IsZero() {
		row.deleted = c.now()
	}
	j := c.newJob(jobDeleteInstance, row.guid)
	w := c.deletion(row, j)
	if purge {
		c.workers.queue(j, &purging{w})
		return jobAnswer(c.base, j), nil
	}
	row.job = j
	c.workers.queue(j, w)
	return jobAnswer(c.base, j), nil
}

// purging removes an instance without a word to the backing broker.
type purging struct{ *deprovisioning }

func (w *purging) moot(bool) (bool, []cfError) { return w.vanished() != nil, nil }

func (w *purging) ask() reply { return reply{outcome: replyDone} }

// createKorifiKey takes a key in every state of the instance; the controller waits for it. A key cannot be marked when
// it is made.
func createKorifiKey(c *call) (*answer, error) {
	n, err := readNewKey(c)
	if err != nil {
		return nil, err
	}
	i := c.database.instances.get(n.instance)
	if i == nil || !c.readable() {
		return nil, notFound("Service instance")
	}
	if err := c.writable(i.space); err != nil {
		return nil, err
	}
	if !i.plan.bindable() {
		return nil, unprocessable("Service plan does not allow bindings.")
	}
	if c.database.keyNamed(i, n.name) != nil {
		return nil, unprocessable("Service binding already exists: App:  Service Instance: " + i.guid + " Service Binding: " + n.name)
	}
	k := c.addKey(i, n.name, lastOperation{kind: kindCreate, state: stateInitial, written: c.now()})
	k.parameters = n.parameters
	k.job = c.newJob(jobCreateKey, k.guid)
	c.workers.queue(k.job, &binding{c.onKey(k)})
	return jobAnswer(c.base, k.job), nil
}

// deleteKorifiKey accepts a delete in every state.
func deleteKorifiKey(c *call) (*answer, error) {
	if err := c.query.only(); err != nil {
		return nil, err
	}
	k, err := c.keyToChange()
	if err != nil {
		return nil, err
	}
	if k.deleted.IsZero() {
		k.deleted = c.now()
	}
	k.job = c.newJob(jobDeleteKey, k.guid)
	c.workers.queue(k.job, &unbinding{c.onKey(k)})
	return jobAnswer(c.base, k.job), nil
}

// korifiWait tells what a bind has to wait for: the instance. One that failed is waited for without an end.
func korifiWait(i *instance) (reply, bool) {
	switch {
	case i.last.is(kindCreate, stateFailed):
		return reply{outcome: replyNever}, true
	case i.last.kind == kindDelete || i.last.state == stateSucceeded:
		return reply{}, false
	}
	return reply{outcome: replyLater}, true
}

// Operations of jobs as Korifi calls them. Its jobs are no rows: what they say is read from the resource, whose GUID is
// part of theirs.
const (
	korifiInstance = "managed_service_instance"
	korifiBinding  = "managed_service_binding"
	korifiCreate   = ".create"
	korifiDelete   = ".delete"
)

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

// errUnfinished ends as the answer to an unknown error, which is what Korifi has for the details of a key that has
// none.
var errUnfinished = errors.New("the binding has no credentials")

type korifiJobView struct {
	GUID      string          `json:"guid"`
	Errors    []cfError       `json:"errors"`
	Operation string          `json:"operation"`
	State     string          `json:"state"`
	Links     map[string]link `json:"links"`
}

// getKorifiJob derives a job from its name and the resource. A create that failed is never seen to end; a delete is
// given up after a fixed time.
func getKorifiJob(c *call) (*answer, error) {
	if err := c.query.only(); err != nil {
		return nil, err
	}
	operation, guid, _ := strings.Cut(c.guid, "~")
	row, known := korifiResource(c, operation, guid)
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
	case c.now().Sub(row.deleted) >= c.options.KorifiDeleteTimeout:
		v.State = jobFailed
		v.Errors = []cfError{{codeUnprocessable, titleUnprocessable, strings.TrimSuffix(operation, korifiDelete) +
			" deletion timed out, check the remaining \"" + guid + "\" resource"}}
	}
	return jsonAnswer(http.StatusOK, v), nil
}

// korifiRow is what a job reads from a resource.
type korifiRow struct {
	created bool
	deleted time.Time // when the delete was asked for
}

// korifiResource finds what a job is about, nil when it is gone; known is false for an operation that there is not.
func korifiResource(c *call, operation, guid string) (row *korifiRow, known bool) {
	switch operation {
	case korifiInstance + korifiCreate, korifiInstance + korifiDelete:
		if i := c.database.instances.get(guid); i != nil {
			return &korifiRow{i.last.kind != "" && i.last.kind != kindCreate || i.last.is(kindCreate, stateSucceeded), i.deleted}, true
		}
	case korifiBinding + korifiCreate, korifiBinding + korifiDelete:
		if k := c.database.keys[guid]; k != nil {
			return &korifiRow{k.last.kind != kindCreate || k.last.state == stateSucceeded, k.deleted}, true
		}
	default:
		return nil, false
	}
	return nil, true
}
