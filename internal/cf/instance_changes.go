package cf

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"strings"

	"github.com/cloudfoundry/go-cfclient/v3/resource"

	"github.com/ferry-broker/ferry/internal/broker"
	"github.com/ferry-broker/ferry/internal/lifecycle"
)

// CreateInstance sends one POST. The space is made before, if need be.
func (b *Backend) CreateInstance(ctx context.Context, c broker.InstanceCall) (broker.Answer, error) {
	const noun = "the service instance"
	ctx, cancel := b.bounded(ctx)
	defer cancel()
	space, err := b.space(ctx, c.Offering)
	if err != nil {
		return b.notBegun(err, noun), err
	}
	name := Name(c.Name)
	what := "create instance " + strconv.Quote(name) + " of plan " + strconv.Quote(c.PlanGUID)
	body, err := withParameters(resource.ServiceInstanceManagedCreate{
		Type: "managed", Name: name, Metadata: b.createMetadata(c.Marks),
		Relationships: resource.ServiceInstanceRelationships{Space: toOne(space), ServicePlan: toOne(c.PlanGUID)},
	}, c.Parameters)
	if err != nil {
		return unsendable(what, noun, err)
	}
	answer, err := b.call(ctx, request{
		method: http.MethodPost, path: instancesRoute, route: instancesRoute, body: body, what: what,
	}, noun)
	switch {
	case spaceIsGone(err):
		b.places.forget(Name(c.Offering)) // the next try finds or makes it again
	case isCode(err, codeNotAuthorized) && b.takeRole(ctx, space):
		return broker.Answer{Reply: lifecycle.ReplyBusy}, err // the next try has the role
	}
	return answer, err
}

func spaceIsGone(err error) bool {
	e, ok := errors.AsType[*Error](err)
	return ok && e.Status == http.StatusUnprocessableEntity &&
		(strings.HasPrefix(e.text, "Invalid space.") || e.Code == codeBeingDeleted)
}

// instancePatch stands in for go-cfclient's, which sends "tags":null and so clears
// the tags and keeps the body from ever being metadata only, and which cannot leave
// out the description of a version (trap 4).
type instancePatch struct {
	Relationships   *resource.ServiceInstanceRelationships `json:"relationships,omitempty"`
	MaintenanceInfo *maintenanceVersion                    `json:"maintenance_info,omitempty"`
	Metadata        *resource.Metadata                     `json:"metadata"`
}

type maintenanceVersion struct {
	Version string `json:"version"`
}

// UpdateInstance sends one PATCH, with only what c changes and the mark.
func (b *Backend) UpdateInstance(ctx context.Context, guid string, c broker.InstanceCall) (broker.Answer, error) {
	const noun = "the update of the service instance"
	ctx, cancel := b.bounded(ctx)
	defer cancel()
	patch := instancePatch{Metadata: updateMetadata(c.Marks)}
	if c.PlanGUID != "" {
		patch.Relationships = &resource.ServiceInstanceRelationships{ServicePlan: toOne(c.PlanGUID)}
	}
	if c.MaintenanceVersion != "" {
		patch.MaintenanceInfo = &maintenanceVersion{c.MaintenanceVersion}
	}
	what := "update instance " + strconv.Quote(guid)
	body, err := withParameters(patch, c.Parameters)
	if err != nil {
		return unsendable(what, noun, err)
	}
	return b.call(ctx, request{
		method: http.MethodPatch, path: instancePath(guid), route: instanceRoute, body: body, what: what,
	}, noun)
}

// DeleteInstance sends one DELETE. Cloud Foundry deletes the keys as well.
func (b *Backend) DeleteInstance(ctx context.Context, guid string) (broker.Answer, error) {
	ctx, cancel := b.bounded(ctx)
	defer cancel()
	return b.call(ctx, request{
		method: http.MethodDelete, path: instancePath(guid), route: instanceRoute,
		what: "delete instance " + strconv.Quote(guid),
	}, "the deletion of the service instance")
}
