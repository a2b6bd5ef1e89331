package cf

import (
	"cmp"
	"context"
	"encoding/json"
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

// CreateInstance sends one POST. The space is made before, if need be.
func (b *Backend) CreateInstance(ctx context.Context, c broker.InstanceCall) (broker.Answer, error) {
	const noun = "the service instance"
	ctx, cancel := b.api.Bounded(ctx)
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
	answer, err := b.call(ctx, ccapi.Request{
		Method: http.MethodPost, Path: instancesRoute, Route: instancesRoute, Body: body, What: what,
	}, noun)
	switch {
	case spaceIsGone(err):
		b.places.forget(Name(c.Offering)) // the next try finds or makes it again
	case ccapi.IsCode(err, ccapi.CodeNotAuthorized) && b.takeRole(ctx, space):
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
func (b *Backend) UpdateInstance(ctx context.Context, guid string, c broker.InstanceCall) (broker.Answer, error) {
	const noun = "the update of the service instance"
	ctx, cancel := b.api.Bounded(ctx)
	defer cancel()
	what := "update instance " + strconv.Quote(guid)
	if answer, err := b.patchable(ctx, c, what, noun); err != nil {
		return answer, err
	}
	body, err := patchBody(c)
	if err != nil {
		return unsendable(what, noun, err)
	}
	answer, err := b.call(ctx, ccapi.Request{
		Method: http.MethodPatch, Path: instancePath(guid), Route: instanceRoute, Body: body, What: what,
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
			&ccapi.Error{Call: what, Err: errors.New("not sent: Korifi would ignore it"), Unsent: true}
	}
	return broker.Answer{}, nil
}

// curable turns a refusal for want of a role into one for now, if the role can be taken. It takes calls only after such
// a refusal.
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
	ctx, cancel := b.api.Bounded(ctx)
	defer cancel()
	answer, err := b.call(ctx, ccapi.Request{
		Method: http.MethodDelete, Path: instancePath(guid), Route: instanceRoute,
		What: "delete instance " + strconv.Quote(guid),
	}, "the deletion of the service instance")
	return b.curable(ctx, answer, err, guid)
}

// call sends a request that changes something and says what became of it.
func (b *Backend) call(ctx context.Context, r ccapi.Request, noun string) (broker.Answer, error) {
	answer, err := b.api.Send(ctx, r)
	if err != nil {
		return b.refused(err, noun), err
	}
	reply, err := taken(r, answer)
	if reply.Job != "" {
		b.tongue.learnFromJob(reply.Job)
	}
	return reply, err
}

// taken reads the answer of a call that succeeded. One that is neither a job nor the resource nor (to a DELETE) empty
// may be anybody's, so it leaves the fate open (protocol.md 3.5). go-cfclient would take a lost Location for success.
func taken(r ccapi.Request, answer *ccapi.Response) (broker.Answer, error) {
	switch answer.Status {
	case http.StatusAccepted:
		if job := jobOf(answer.Header.Get("Location")); job != "" {
			accepted := broker.Answer{Reply: lifecycle.ReplyAccepted, Job: job}
			if r.Method == http.MethodPost {
				accepted.GUID = guidInJob(job)
			}
			return accepted, nil
		}
		return unclear(r, answer, "accepted without the address of a job")
	case http.StatusOK, http.StatusCreated:
		var made ccapi.Identity
		if json.Unmarshal(answer.Body, &made) == nil && made.GUID != "" {
			done := broker.Answer{Reply: lifecycle.ReplyDone}
			if r.Method == http.MethodPost {
				done.GUID = made.GUID
			}
			return done, nil
		}
	case http.StatusNoContent:
		if r.Method == http.MethodDelete {
			return broker.Answer{Reply: lifecycle.ReplyDone}, nil
		}
	}
	return unclear(r, answer, "the answer is not the resource")
}

func unclear(r ccapi.Request, answer *ccapi.Response, why string) (broker.Answer, error) {
	err := &ccapi.Error{Call: r.What, Status: answer.Status, Err: errors.New(why)}
	return broker.Answer{Reply: lifecycle.ReplyUnknown}, err
}

// jobOf returns the GUID in the address of a job. Only the path counts: a Cloud Controller may know itself under
// another name than we do.
func jobOf(location string) string {
	address, err := url.Parse(location)
	if err != nil {
		return ""
	}
	_, guid, found := strings.Cut(address.Path, "/v3/jobs/")
	if !found || strings.Contains(guid, "/") {
		return ""
	}
	return guid
}

// withParameters puts parameters into a JSON object, byte for byte. encoding/json would compact and escape them.
func withParameters(body any, parameters json.RawMessage) ([]byte, error) {
	rest, err := json.Marshal(body)
	if err != nil || len(parameters) == 0 {
		return rest, err
	}
	if !json.Valid(parameters) {
		return nil, errParameters
	}
	whole := make([]byte, 0, len(rest)+len(parameters)+len(`{"parameters":,`))
	whole = append(whole, `{"parameters":`...)
	whole = append(whole, parameters...)
	whole = append(whole, ',')
	return append(whole, rest[1:]...), nil
}

var errParameters = errors.New("the parameters are not JSON")

// unsendable is the answer to a call whose body cannot be built; another try would fail in the same way.
func unsendable(what, noun string, err error) (broker.Answer, error) {
	return broker.Answer{
		Reply:       lifecycle.ReplyRefused,
		Description: "Ferry cannot send " + noun + ": " + err.Error(),
	}, &ccapi.Error{Call: what, Err: err, Unsent: true}
}
