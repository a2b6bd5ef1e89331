package cfsim

import (
	"encoding/json"
	"errors"
	"net/http"
	"regexp"
	"unicode/utf8"
)

// updateInstance is PATCH /v3/service_instances/GUID. It changes the row at once when the backing broker has no part in
// it; otherwise updating is what the job does.
func updateInstance(c *call) (*answer, error) {
	row, err := c.instanceToChange()
	if err != nil {
		return nil, err
	}
	u, err := readUpdate(c)
	if err != nil {
		return nil, err
	}
	if err := updatable(row, u.metadataOnly); err != nil {
		return nil, err
	}
	if err := checkUpdate(c, row, &u); err != nil {
		return nil, err
	}
	if !u.metadataOnly {
		// The lock that keeps other operations away until this one has ended.
		c.onInstance(row).mark(kindUpdate, stateInProgress, "")
	}
	if needsBroker(row, u) {
		row.job = c.newJob(jobUpdateInstance, row.guid)
		c.workers.queue(row.job, &updating{instanceWork: c.onInstance(row), changes: u.changes})
		return jobAnswer(c.base, row.job), nil
	}
	c.apply(row, u.changes)
	row.updated = c.now()
	if !u.metadataOnly {
		c.onInstance(row).mark(kindUpdate, stateSucceeded, "")
	}
	return jsonAnswer(http.StatusOK, row.view(c)), nil
}

// updateRequest is a PATCH that has been read.
type updateRequest struct {
	changes
	planGUID     string
	asksBroker   bool // has parameters
	metadataOnly bool
}

// changes are what a PATCH asks for; nil means untouched.
type changes struct {
	name        *string
	tags        *[]string
	plan        *plan
	maintenance *string
	metadata    metadataPatch
	parameters  []byte
}

func readUpdate(c *call) (updateRequest, error) {
	m, err := c.message("name", "tags", "parameters", "relationships", "maintenance_info", "metadata")
	if err != nil {
		return updateRequest{}, err
	}
	u := updateRequest{
		planGUID:     m.relationship("service_plan", "Service plan", false),
		asksBroker:   m.has("parameters"),
		metadataOnly: len(m.fields) == 1 && m.has("metadata"),
	}
	if m.has("name") {
		name := m.name(true)
		u.name = &name
	}
	if tags, there := m.tags(); there {
		u.tags = &tags
	}
	u.parameters = m.parameters()
	u.maintenance = m.maintenance()
	u.metadata = m.metadata()
	return u, m.problem()
}

var semanticVersion = regexp.MustCompile(`^\d+\.\d+\.\d+(-[0-9A-Za-z.-]+)?(\+[0-9A-Za-z.-]+)?$`)

// maintenance returns maintenance_info.version, nil when it is not sent.
func (m *message) maintenance() *string {
	raw, there := m.fields["maintenance_info"]
	if !there {
		return nil
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(raw, &fields); err != nil || fields == nil {
		m.refuse("Maintenance info must be an object")
		return nil
	}
	for name := range fields {
		if name != "version" {
			m.refuse("Maintenance info Unknown field(s): '" + name + "'")
		}
	}
	var version string
	if err := json.Unmarshal(fields["version"], &version); err != nil || !semanticVersion.MatchString(version) {
		m.refuse("Maintenance info Version must be a Semantic Version string")
	}
	return &version
}

// updatable refuses updates that the state of the row does not allow.
func updatable(row *instance, metadataOnly bool) error {
	if row.last.is(kindCreate, stateFailed) {
		return failure(http.StatusNotFound, 60004, "CF-ServiceInstanceNotFound", "The service instance could not be found: "+row.name)
	}
	if row.last.running() && (!metadataOnly || row.last.kind == kindDelete) {
		return &apiError{status: http.StatusConflict, cfError: instanceBusy(row.name)}
	}
	return nil
}

// errNameTooLong ends as the answer to an unknown error.
var errNameTooLong = errors.New("name is too long for the database")

// checkUpdate applies the rules of names, plans, versions and limits.
func checkUpdate(c *call, row *instance, u *updateRequest) error {
	if u.name != nil {
		if utf8.RuneCountInString(*u.name) > maxName {
			// The real one does not expect this error of its database either.
			return errNameTooLong
		}
		if *u.name != row.name && len(row.sharedWith) > 0 {
			return unprocessable("Service instances that have been shared cannot be renamed")
		}
		if !c.database.instances.free(row, *u.name) {
			return unprocessable("The service instance name is taken: " + *u.name)
		}
	}
	if err := checkPlanChange(c, row, u); err != nil {
		return err
	}
	if err := checkMaintenance(row, u); err != nil {
		return err
	}
	if err := checkAccessible(row, u); err != nil {
		return err
	}
	_, err := row.metadata.applied(u.metadata)
	return err
}

func checkPlanChange(c *call, row *instance, u *updateRequest) error {
	if u.planGUID == "" || u.planGUID == row.plan.guid {
		return nil
	}
	p, err := c.usablePlan(u.planGUID, row.space)
	if err != nil {
		return err
	}
	if p.offering != row.plan.offering {
		return failure(http.StatusBadRequest, 1002, "CF-InvalidRelation", "service plan relates to a different service offering")
	}
	if !row.plan.offering.spec.updateable {
		return unprocessable("The service does not support changing plans.")
	}
	if !p.bindable() && len(row.keys) > 0 {
		return unprocessable("The service plan is invalid: cannot switch to non-bindable plan when service bindings exist")
	}
	u.plan = p
	return c.conditions.allowPaid(row.space, p)
}

func checkMaintenance(row *instance, u *updateRequest) error {
	if u.maintenance == nil {
		return nil
	}
	version := *u.maintenance
	switch {
	case u.plan != nil && version != u.plan.spec.version:
		return unprocessable("maintenance_info should not be changed when switching to different plan.")
	case u.plan != nil || version == row.maintenance:
		return nil
	case row.plan.spec.version == "":
		return unprocessable("The service broker does not support upgrades for service instances created from this plan.")
	case version != row.plan.spec.version:
		return unprocessable("maintenance_info.version requested is invalid. Please ensure the catalog is up to date and you are providing a version supported by this service plan.")
	}
	return nil
}

// checkAccessible refuses what a plan that has left the catalog cannot be asked for any more.
func checkAccessible(row *instance, u *updateRequest) error {
	if row.plan.active() || u.plan != nil {
		return nil
	}
	var refused []string
	if u.asksBroker {
		refused = append(refused, "parameters")
	}
	if u.name != nil && row.plan.offering.spec.contexts {
		refused = append(refused, "name")
	}
	if u.maintenance != nil && *u.maintenance != row.maintenance {
		refused = append(refused, "maintenance_info")
	}
	if len(refused) == 0 {
		return nil
	}
	return unprocessable("Cannot update " + refused[0] + " of a service instance that belongs to inaccessible plan")
}

// needsBroker tells whether the backing broker has to know of an update.
func needsBroker(row *instance, u updateRequest) bool {
	return u.asksBroker ||
		u.plan != nil && u.plan != row.plan ||
		u.maintenance != nil && *u.maintenance != row.maintenance ||
		u.name != nil && row.plan.offering.spec.contexts
}

// apply writes changes into a row. A limit of labels that another request has used up in the meantime leaves the
// metadata as it is.
func (cc *controller) apply(row *instance, c changes) {
	if marks, err := row.metadata.applied(c.metadata); err == nil {
		row.metadata = marks
	}
	if c.name != nil && cc.database.instances.free(row, *c.name) {
		cc.database.instances.rename(row, *c.name)
	}
	if c.tags != nil {
		row.tags = *c.tags
	}
	if c.plan != nil && c.plan != row.plan {
		cc.database.instances.changePlan(row, c.plan)
		row.maintenance = c.plan.spec.version
	}
	if c.maintenance != nil {
		row.maintenance = *c.maintenance
	}
}

// updating is the work of the job service_instance.update. Nothing of what was asked for can be seen before the backing
// broker has succeeded.
type updating struct {
	instanceWork
	changes
}

// target is the plan that the instance is to have afterwards.
func (w *updating) target() *plan {
	if w.plan != nil {
		return w.plan
	}
	return w.row.plan
}

func (w *updating) moot(bool) (bool, []cfError) {
	errors := w.vanished()
	return errors != nil, errors
}

func (w *updating) call() brokerCall { return w.row.call(update) }

func (w *updating) ask() reply {
	if w.parameters != nil {
		w.row.received = w.parameters
	}
	r := w.backing.ask(w.call(), w.target().spec.fates, w.row.guid)
	if r.dashboard != "" {
		w.row.setDashboard(r.dashboard)
	}
	return r
}

func (w *updating) began() { w.mark(kindUpdate, stateInProgress, "") }

func (w *updating) succeeded() []cfError {
	if w.parameters != nil {
		w.row.applied = w.parameters
	}
	w.apply(w.row, w.changes)
	w.mark(kindUpdate, stateSucceeded, "")
	return nil
}

func (w *updating) refused(r reply) []cfError { return []cfError{w.failed(r.message)} }

func (w *updating) failed(description string) cfError {
	w.mark(kindUpdate, stateFailed, description)
	return unableTo("update", description)
}

func (w *updating) abandoned(description string) { w.mark(kindUpdate, stateFailed, description) }

func (w *updating) about() (string, verbs, *plan) {
	return w.row.guid, verbs{ask: "update", gone: "update"}, w.target()
}
