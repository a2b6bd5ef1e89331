package cf

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/cloudfoundry/go-cfclient/v3/resource"

	"github.com/ferry-broker/ferry/internal/broker"
	"github.com/ferry-broker/ferry/internal/ccapi"
	"github.com/ferry-broker/ferry/internal/lifecycle"
)

const (
	instancesRoute = "/v3/service_instances"
	instanceRoute  = "/v3/service_instances/:guid"
)

func instancePath(guid string) string { return instancesRoute + "/" + url.PathEscape(guid) }

// instanceRow is an instance as the API shows it. go-cfclient's type fails as a whole on a date or a tag that is not as
// documented.
type instanceRow struct {
	ccapi.Identity
	Name          string             `json:"name"`
	LastOperation *lastOperation     `json:"last_operation"`
	Metadata      *resource.Metadata `json:"metadata"`
	Relationships struct {
		Space       *resource.ToOneRelationship `json:"space"`
		ServicePlan *resource.ToOneRelationship `json:"service_plan"`
	} `json:"relationships"`
	DashboardURL    ccapi.Optional[string]             `json:"dashboard_url"`
	MaintenanceInfo ccapi.Optional[maintenanceVersion] `json:"maintenance_info"`
	Provided        ccapi.Optional[provided]           `json:"broker_provided_metadata"`
}

// provided are labels and attributes that the backing broker gave the instance.
type provided struct {
	Labels     map[string]string `json:"labels"`
	Attributes map[string]string `json:"attributes"`
}

func (i instanceRow) facts() facts {
	return facts{guid: i.GUID, metadata: i.Metadata, last: i.LastOperation}
}

// instances finds, makes, changes and deletes service instances.
type instances struct {
	api        *ccapi.Client
	places     *places
	visibility *visibility
	flavors    *flavors
	changes    changes
	rows       rowReader
	room       int                                    // of filters in an address
	looks      shared[instanceQuestion, instanceList] // of FindInstances
	reads      shared[string, instanceList]           // of FindInstance, by GUID
}

func newInstances(
	api *ccapi.Client, places *places, visibility *visibility, flavors *flavors, changes changes, rows rowReader, room int,
) *instances {
	s := &instances{
		api: api, places: places, visibility: visibility, flavors: flavors, changes: changes, rows: rows, room: room,
	}
	s.looks.room, s.looks.size = room, func(q instanceQuestion) int { return sizeOf(q.name) }
	s.reads.room, s.reads.size = room, sizeOf
	return s
}

// row returns the row with what the backing broker said of the instance.
func (s *instances) row(i instanceRow, header http.Header) broker.Row {
	row := s.rows.row(i.facts(), header)
	row.DashboardURL = i.DashboardURL.Value
	if plan := i.Relationships.ServicePlan; plan != nil && plan.Data != nil {
		row.PlanGUID = plan.Data.GUID
	}
	row.MaintenanceVersion = i.MaintenanceInfo.Value.Version
	if p := i.Provided.Value; len(p.Labels)+len(p.Attributes) > 0 {
		row.Provided = &lifecycle.Provided{Labels: p.Labels, Attributes: p.Attributes}
	}
	return row
}

func (s *instances) get(ctx context.Context, guid string) (instanceRow, http.Header, error) {
	r := ccapi.Request{
		Method: http.MethodGet, Path: instancePath(guid), Route: instanceRoute,
		What: "get instance " + strconv.Quote(guid),
	}
	var row instanceRow
	header, err := s.api.Get(ctx, r, &row)
	if err == nil && row.GUID != guid {
		err = &ccapi.Error{Call: r.What, Err: errors.New("the answer is not the instance")}
	}
	return row, header, err
}

// CreateInstance sends one POST. The space is made before, if need be.
func (s *instances) CreateInstance(ctx context.Context, c broker.InstanceCall) (broker.Answer, error) {
	const noun = "the service instance"
	ctx, cancel := s.api.Bounded(ctx)
	defer cancel()
	space, err := s.places.space(ctx, c.Offering)
	if err != nil {
		return notBegun(err, noun), err
	}
	name := nameOf(c.Name)
	what := "create instance " + strconv.Quote(name) + " of plan " + strconv.Quote(c.PlanGUID)
	body, err := withParameters(resource.ServiceInstanceManagedCreate{
		Type: "managed", Name: name, Metadata: s.rows.createMetadata(c.Name, c.Marks),
		Relationships: resource.ServiceInstanceRelationships{Space: toOne(space), ServicePlan: toOne(c.PlanGUID)},
	}, c.Parameters)
	if err != nil {
		return unsendable(what, noun, err)
	}
	answer, err := s.changes.send(ctx, ccapi.Request{
		Method: http.MethodPost, Path: instancesRoute, Route: instancesRoute, Body: body, What: what,
	}, noun)
	switch {
	case spaceIsGone(err):
		s.places.memory.forget(nameOf(c.Offering)) // the next try finds or makes it again
	case ccapi.IsCode(err, ccapi.CodeNotAuthorized) && takeRole(ctx, s.api, space):
		return broker.Answer{Reply: lifecycle.ReplyBusy}, err // the next try has the role
	}
	return answer, err
}

func spaceIsGone(err error) bool {
	e, ok := errors.AsType[*ccapi.Error](err)
	return ok && e.Status == http.StatusUnprocessableEntity &&
		(strings.HasPrefix(e.Text, "Invalid space.") || e.Code == ccapi.CodeBeingDeleted)
}

// instancePatch stands in for go-cfclient's, which sends "tags":null and so clears the tags and keeps the body from
// ever being metadata only, and which cannot leave out the description of a version (docs/cf-contract.md 4.1).
type instancePatch struct {
	Relationships   *resource.ServiceInstanceRelationships `json:"relationships,omitempty"`
	MaintenanceInfo *maintenanceVersion                    `json:"maintenance_info,omitempty"`
	Metadata        *resource.Metadata                     `json:"metadata"`
}

type maintenanceVersion struct {
	Version string `json:"version"`
}

// korifiCannot is what Korifi does not do: it answers such a PATCH with success and writes its mark, but changes
// nothing.
const korifiCannot = "This Cloud Foundry (Korifi) cannot change the plan, the version or the parameters of a service instance."

// UpdateInstance sends one PATCH, with only what c changes and the mark. One that Korifi would ignore is refused
// unsent. While it is not known which implementation answers, a question of one call goes before.
func (s *instances) UpdateInstance(ctx context.Context, guid string, c broker.InstanceCall) (broker.Answer, error) {
	const noun = "the update of the service instance"
	ctx, cancel := s.api.Bounded(ctx)
	defer cancel()
	what := "update instance " + strconv.Quote(guid)
	if answer, err := s.patchable(ctx, c, what, noun); err != nil {
		return answer, err
	}
	body, err := patchBody(c)
	if err != nil {
		return unsendable(what, noun, err)
	}
	answer, err := s.changes.send(ctx, ccapi.Request{
		Method: http.MethodPatch, Path: instancePath(guid), Route: instanceRoute, Body: body, What: what,
	}, noun)
	if answer.Reply == lifecycle.ReplyAbsent {
		// Absence ends an update, so it is not believed where the login may not see what is there.
		if err := s.visibility.confirmAbsence(ctx, c.Offering, new(sight)); err != nil {
			answer = notBegun(err, noun)
			answer.Reply = lifecycle.ReplyBusy
			return answer, err
		}
	}
	return s.withRole(ctx, answer, err, guid)
}

// patchable fails with an answer when the PATCH must not be sent.
func (s *instances) patchable(ctx context.Context, c broker.InstanceCall, what, noun string) (broker.Answer, error) {
	if c.PlanGUID == "" && c.MaintenanceVersion == "" && len(c.Parameters) == 0 {
		return broker.Answer{}, nil
	}
	switch flavor, err := s.flavors.ask(ctx); {
	case err != nil:
		return notBegun(err, noun), err
	case flavor == korifi:
		return broker.Answer{Reply: lifecycle.ReplyRefused, Description: korifiCannot},
			&ccapi.Error{Call: what, Err: errors.New("not sent: Korifi would ignore it"), Unsent: true}
	}
	return broker.Answer{}, nil
}

// withRole turns a refusal for want of a role into one for now, if the role can be taken. It takes calls only after
// such a refusal.
func (s *instances) withRole(ctx context.Context, answer broker.Answer, err error, instanceGUID string) (broker.Answer, error) {
	if s.takeMissingRole(ctx, err, instanceGUID) {
		return broker.Answer{Reply: lifecycle.ReplyBusy}, err // the next try has the role
	}
	return answer, err
}

// takeMissingRole tries to cure a refusal for want of a role on something of the instance, and reports whether it did.
// It takes two calls: which space it is, and the role.
func (s *instances) takeMissingRole(ctx context.Context, err error, instanceGUID string) bool {
	if !ccapi.IsCode(err, ccapi.CodeNotAuthorized) {
		return false
	}
	row, _, err := s.get(ctx, instanceGUID)
	space := spaceOf(row)
	return err == nil && space != "" && takeRole(ctx, s.api, space)
}

func patchBody(c broker.InstanceCall) ([]byte, error) {
	patch := instancePatch{Metadata: updateMetadata(c.Name, c.Marks)}
	if c.PlanGUID != "" {
		patch.Relationships = &resource.ServiceInstanceRelationships{ServicePlan: toOne(c.PlanGUID)}
	}
	if c.MaintenanceVersion != "" {
		patch.MaintenanceInfo = &maintenanceVersion{c.MaintenanceVersion}
	}
	return withParameters(patch, c.Parameters)
}

// DeleteInstance sends one DELETE. Cloud Foundry deletes the keys as well.
func (s *instances) DeleteInstance(ctx context.Context, guid string) (broker.Answer, error) {
	ctx, cancel := s.api.Bounded(ctx)
	defer cancel()
	answer, err := s.changes.send(ctx, ccapi.Request{
		Method: http.MethodDelete, Path: instancePath(guid), Route: instanceRoute,
		What: "delete instance " + strconv.Quote(guid),
	}, "the deletion of the service instance")
	return s.withRole(ctx, answer, err, guid)
}
