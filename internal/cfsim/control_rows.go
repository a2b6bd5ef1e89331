package cfsim

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
)

// jobGone is what the control calls a job that can no longer be found.
const jobGone = "gone"

// workerDead is what the control calls a worker that will do no more.
const workerDead = "dead"

type forcedState struct {
	LastOperation *plantedOperation `json:"last_operation"`
	Job           *string           `json:"job"`
	// Name renames by hand.
	Name *string `json:"name"`
	// DashboardURL is an instance's; "" takes it away.
	DashboardURL *string `json:"dashboard_url"`
	// Details are what the backing broker has given out for a key: all of the answer to GET …/details, null for the
	// usual one.
	Details json.RawMessage `json:"details"`
	// Worker may be "dead": the job stays in its state for ever.
	Worker string `json:"worker"`
	// SharedWith are spaces, "ORG/SPACE", that an instance is shared with.
	SharedWith *[]string `json:"shared_with"`
}

// forceInstance puts a row and its latest job into a state that a real Cloud Controller reaches by accident. A forced
// last operation stops all work that was under way on the row. A forced job keeps its state; one that has ended or
// failed does no work any more, one that is gone or said to be running still does its work on the row.
func forceInstance(c *controlCall) (any, error) {
	var forced forcedState
	if err := c.read(&forced); err != nil {
		return nil, err
	}
	row := c.database.instances.get(c.request.PathValue("guid"))
	if row == nil {
		return nil, refusedControl(http.StatusNotFound, "There is no instance %q.", c.request.PathValue("guid"))
	}
	if forced.Details != nil {
		return nil, badInput("Only a key has details.")
	}
	if err := forced.check(row.name, row.job); err != nil {
		return nil, err
	}
	if forced.Name != nil {
		if err := renameInstance(c, row, *forced.Name); err != nil {
			return nil, err
		}
	}
	if forced.DashboardURL != nil {
		row.setDashboard(*forced.DashboardURL)
	}
	if forced.SharedWith != nil {
		if err := share(c, row, *forced.SharedWith); err != nil {
			return nil, err
		}
	}
	if forced.LastOperation != nil {
		row.forced++
		c.backing.forgetOperation(row.guid)
		c.onInstance(row).mark(forced.LastOperation.Type, forced.LastOperation.State, forced.LastOperation.Description)
	}
	row.job = forceJob(c, row.job, forced, row.last.description)
	return map[string]string{"guid": row.guid}, nil
}

// forceKey does the same to a key.
func forceKey(c *controlCall) (any, error) {
	var forced forcedState
	if err := c.read(&forced); err != nil {
		return nil, err
	}
	row := c.database.keys[c.request.PathValue("guid")]
	if row == nil {
		return nil, refusedControl(http.StatusNotFound, "There is no key %q.", c.request.PathValue("guid"))
	}
	if forced.SharedWith != nil || forced.DashboardURL != nil {
		return nil, badInput("A key cannot be shared, and has no dashboard.")
	}
	if err := forced.check(row.name, row.job); err != nil {
		return nil, err
	}
	if forced.Name != nil {
		if err := renameKey(c, row, *forced.Name); err != nil {
			return nil, err
		}
	}
	if forced.Details != nil {
		row.answered = forced.Details
	}
	if forced.LastOperation != nil {
		row.forced++
		c.backing.forgetOperation(row.guid)
		c.onKey(row).mark(forced.LastOperation.Type, forced.LastOperation.State, forced.LastOperation.Description)
	}
	row.job = forceJob(c, row.job, forced, row.last.description)
	return map[string]string{"guid": row.guid}, nil
}

// check says what is wrong with the state, in a sentence; name and j are the row's.
func (f forcedState) check(name string, j *job) error {
	if f.LastOperation == nil && f.Job == nil && f.Worker == "" && f.SharedWith == nil && f.Name == nil && f.DashboardURL == nil && f.Details == nil {
		return badInput("Neither last_operation nor job is given, nor worker, name, shared_with, dashboard_url or details.")
	}
	if err := checkDetails(f.Details); err != nil {
		return err
	}
	if f.LastOperation != nil {
		if err := f.LastOperation.check(); err != nil {
			return err
		}
	}
	if f.Worker != "" && f.Worker != workerDead {
		return badInput("A worker can be made dead, not %q.", f.Worker)
	}
	states := []string{jobProcessing, jobPolling, jobComplete, jobFailed, jobGone}
	if f.Job != nil && !slices.Contains(states, *f.Job) {
		return badInput("A job is PROCESSING, POLLING, COMPLETE, FAILED or gone, not %q.", *f.Job)
	}
	if j == nil && (f.Worker != "" || f.Job != nil && *f.Job != jobGone) {
		return refusedControl(http.StatusConflict, "%q has no job.", name)
	}
	return nil
}

// forceJob changes a row's latest job and returns what is then the latest. reason is the row's own for having failed.
func forceJob(c *controlCall, j *job, f forcedState, reason string) *job {
	if j == nil {
		return nil // gone already
	}
	if f.Worker == workerDead {
		j.dead = true
	}
	if f.Job == nil {
		return j
	}
	j.pinned = false
	switch *f.Job {
	case jobGone:
		delete(c.database.jobs, j.guid)
		j.pinned = true
		return nil
	case jobFailed:
		if reason == "" {
			reason = "The job was made to fail."
		}
		j.set(jobFailed, c.now(), unableTo(forcedVerb(j), reason))
		j.dead = true
	default:
		j.set(*f.Job, c.now())
		j.dead = j.dead || *f.Job == jobComplete
	}
	j.pinned = true
	return j
}

// forcedVerb is what a failed job could not do.
func forcedVerb(j *job) string {
	switch j.operation {
	case jobUpdateInstance:
		return "update"
	case jobDeleteInstance:
		return "delete"
	case jobCreateKey:
		return "bind"
	case jobDeleteKey:
		return "unbind"
	default:
		return "provision"
	}
}

// plantedOperation is a last operation as the control takes it.
type plantedOperation struct {
	Type        string `json:"type"`
	State       string `json:"state"`
	Description string `json:"description"`
}

// check lets an empty operation pass: old rows have none.
func (p plantedOperation) check() error {
	if p == (plantedOperation{}) {
		return nil
	}
	kinds := []string{kindCreate, kindUpdate, kindDelete}
	states := []string{stateInitial, stateInProgress, stateSucceeded, stateFailed}
	if !slices.Contains(kinds, p.Type) {
		return badInput("The type of a last operation is one of %s, not %q.", strings.Join(kinds, ", "), p.Type)
	}
	if !slices.Contains(states, p.State) {
		return badInput("The state of a last operation is one of %s, not %q.", strings.Join(states, ", "), p.State)
	}
	return nil
}

type plantedKey struct {
	Name        string             `json:"name"`
	Labels      map[string]*string `json:"labels"`
	Annotations map[string]*string `json:"annotations"`
	Parameters  json.RawMessage    `json:"parameters"`
}

type plantedInstance struct {
	Org                string             `json:"org"`
	Space              string             `json:"space"`
	Name               string             `json:"name"`
	Offering           string             `json:"offering"`
	Plan               string             `json:"plan"`
	Labels             map[string]*string `json:"labels"`
	Annotations        map[string]*string `json:"annotations"`
	MaintenanceVersion *string            `json:"maintenance_version"`
	Parameters         json.RawMessage    `json:"parameters"`
	LastOperation      *plantedOperation  `json:"last_operation"`
	Keys               []plantedKey       `json:"keys"`
}

// plantInstance writes a row as if somebody else had made it; nothing is asked of the backing broker.
func plantInstance(c *controlCall) (any, error) {
	planted := plantedInstance{LastOperation: &plantedOperation{Type: kindCreate, State: stateSucceeded}}
	if err := c.read(&planted); err != nil {
		return nil, err
	}
	if planted.LastOperation == nil {
		planted.LastOperation = &plantedOperation{Type: kindCreate, State: stateSucceeded}
	}
	o := c.database.organizationNamed(planted.Org)
	p := c.database.market.plan(planted.Offering + "/" + planted.Plan)
	if err := checkPlanted(c, planted, o, p); err != nil {
		return nil, err
	}
	sp, err := c.spaceOrNew(planted.Org + "/" + planted.Space)
	if err != nil {
		return nil, err
	}
	return map[string]string{"guid": plant(c, planted, sp, p).guid}, nil
}

// spaceOrNew returns a space by "ORG/SPACE", which is made when it is missing.
func (cc *controller) spaceOrNew(place string) (*space, error) {
	org, name, _ := strings.Cut(place, "/")
	o := cc.database.organizationNamed(org)
	if o == nil || name == "" {
		return nil, badInput("There is no place %q; places are ORG/SPACE.", place)
	}
	if sp := cc.database.spaceNamed(o, name); sp != nil {
		return sp, nil
	}
	return cc.database.addSpace(o, name, cc.now()), nil
}

func checkPlanted(c *controlCall, planted plantedInstance, o *organization, p *plan) error {
	switch {
	case o == nil:
		return badInput("There is no organization %q.", planted.Org)
	case planted.Space == "" || planted.Name == "":
		return badInput("A planted instance needs a space and a name.")
	case p == nil:
		return badInput("There is no plan %q.", planted.Offering+"/"+planted.Plan)
	}
	if sp := c.database.spaceNamed(o, planted.Space); sp != nil && c.database.instances.named(sp, planted.Name) != nil {
		return refusedControl(http.StatusConflict, "The space %q has an instance %q already.", planted.Space, planted.Name)
	}
	names := map[string]bool{}
	for _, k := range planted.Keys {
		if k.Name == "" || names[k.Name] {
			return badInput("The keys of a planted instance need names that differ.")
		}
		names[k.Name] = true
	}
	return planted.LastOperation.check()
}

func plant(c *controlCall, planted plantedInstance, sp *space, p *plan) *instance {
	now := c.now()
	last := lastOperation{planted.LastOperation.Type, planted.LastOperation.State, planted.LastOperation.Description, now}
	row := c.addInstance(planted.Name, sp, p, last)
	row.metadata = metadata{pairs(nil).merged(planted.Labels), pairs(nil).merged(planted.Annotations)}
	row.received, row.applied = planted.Parameters, planted.Parameters
	if planted.MaintenanceVersion != nil {
		row.maintenance = *planted.MaintenanceVersion
	}
	for _, k := range planted.Keys {
		created := c.addKey(row, k.Name, lastOperation{kind: kindCreate, state: stateSucceeded, written: now})
		created.metadata = metadata{pairs(nil).merged(k.Labels), pairs(nil).merged(k.Annotations)}
		created.parameters, created.password = k.Parameters, c.random.secret()
	}
	return row
}

// renameInstance gives an instance a name as somebody with a database shell does: nothing is asked, and nothing else of
// the row changes.
func renameInstance(c *controlCall, row *instance, name string) error {
	switch {
	case strings.TrimSpace(name) == "":
		return badInput("A name cannot be blank.")
	case !c.database.instances.free(row, name):
		return refusedControl(http.StatusConflict, "There is an instance %q already where %q is.", name, row.name)
	}
	c.database.instances.rename(row, name)
	row.updated = c.now()
	return nil
}

// renameKey does the same to a key, for which the API has no other way either.
func renameKey(c *controlCall, row *key, name string) error {
	if strings.TrimSpace(name) == "" {
		return badInput("A name cannot be blank.")
	}
	if other := c.database.keyNamed(row.instance, name); other != nil && other != row {
		return refusedControl(http.StatusConflict, "The instance %q has a key %q already.", row.instance.name, name)
	}
	row.name, row.updated = name, c.now()
	return nil
}
