package cf

import (
	"cmp"
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
		Type: "managed", Name: name, Metadata: b.createMetadata(c.Name, c.Marks),
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
// out the description of a version (docs/cf-contract.md 4.1).
type instancePatch struct {
	Relationships   *resource.ServiceInstanceRelationships `json:"relationships,omitempty"`
	MaintenanceInfo *maintenanceVersion                    `json:"maintenance_info,omitempty"`
	Metadata        *resource.Metadata                     `json:"metadata"`
}

type maintenanceVersion struct {
	Version string `json:"version"`
}

// korifiCannot is what Korifi does not do: it answers such a PATCH with success and
// writes its mark, but changes nothing.
const korifiCannot = "This Cloud Foundry (Korifi) cannot change the plan, the version or the parameters of a service instance."

// UpdateInstance sends one PATCH, with only what c changes and the mark. One that
// Korifi would ignore is refused unsent. While it is not known which implementation
// answers, a question of one call goes before.
func (b *Backend) UpdateInstance(ctx context.Context, guid string, c broker.InstanceCall) (broker.Answer, error) {
	const noun = "the update of the service instance"
	ctx, cancel := b.bounded(ctx)
	defer cancel()
	what := "update instance " + strconv.Quote(guid)
	if answer, err := b.patchable(ctx, c, what, noun); err != nil {
		return answer, err
	}
	body, err := patchBody(c)
	if err != nil {
		return unsendable(what, noun, err)
	}
	answer, err := b.call(ctx, request{
		method: http.MethodPatch, path: instancePath(guid), route: instanceRoute, body: body, what: what,
	}, noun)
	if answer.Reply == lifecycle.ReplyAbsent {
		// Absence ends an update, so it is not believed to a login that is blind.
		if blind := b.confirm(ctx, cmp.Or(c.Offering, broker.OfferingOf(ctx))); blind != nil {
			answer = b.notBegun(blind, noun)
			answer.Reply = lifecycle.ReplyBusy
			return answer, blind
		}
	}
	return b.curable(ctx, answer, err, guid)
}

// patchable fails with an answer when the PATCH must not be sent.
func (b *Backend) patchable(ctx context.Context, c broker.InstanceCall, what, noun string) (broker.Answer, error) {
	if c.PlanGUID == "" && c.MaintenanceVersion == "" && len(c.Parameters) == 0 {
		return broker.Answer{}, nil
	}
	switch d, err := b.dialect(ctx); {
	case err != nil:
		return b.notBegun(err, noun), err
	case d == korifi:
		return broker.Answer{Reply: lifecycle.ReplyRefused, Description: korifiCannot},
			&Error{Call: what, Err: errors.New("not sent: Korifi would ignore it"), unsent: true}
	}
	return broker.Answer{}, nil
}

// curable turns a refusal for want of a role into one for now, if the role can be
// taken. It takes calls only after such a refusal.
func (b *Backend) curable(ctx context.Context, answer broker.Answer, err error, instanceGUID string) (broker.Answer, error) {
	if b.roleIsMissing(ctx, err, instanceGUID) {
		return broker.Answer{Reply: lifecycle.ReplyBusy}, err // the next try has the role
	}
	return answer, err
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
func (b *Backend) DeleteInstance(ctx context.Context, guid string) (broker.Answer, error) {
	ctx, cancel := b.bounded(ctx)
	defer cancel()
	answer, err := b.call(ctx, request{
		method: http.MethodDelete, path: instancePath(guid), route: instanceRoute,
		what: "delete instance " + strconv.Quote(guid),
	}, "the deletion of the service instance")
	return b.curable(ctx, answer, err, guid)
}
