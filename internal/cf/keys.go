package cf

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strconv"

	"github.com/cloudfoundry/go-cfclient/v3/resource"

	"github.com/ferry-broker/ferry/internal/broker"
	"github.com/ferry-broker/ferry/internal/ccapi"
	"github.com/ferry-broker/ferry/internal/lifecycle"
)

const (
	keysRoute = "/v3/service_credential_bindings"
	keyRoute  = "/v3/service_credential_bindings/:guid"
)

func keyPath(guid string) string { return keysRoute + "/" + url.PathEscape(guid) }

// keyRow is a key as the API shows it.
type keyRow struct {
	ccapi.Identity
	Name          *string            `json:"name"`
	LastOperation *lastOperation     `json:"last_operation"`
	Metadata      *resource.Metadata `json:"metadata"`
	Relationships struct {
		ServiceInstance *resource.ToOneRelationship `json:"service_instance"`
	} `json:"relationships"`
}

func (k keyRow) facts() facts {
	return facts{guid: k.GUID, metadata: k.Metadata, last: k.LastOperation}
}

// instanceGUID returns the GUID of the key's instance.
func (k keyRow) instanceGUID() string {
	if r := k.Relationships.ServiceInstance; r != nil && r.Data != nil {
		return r.Data.GUID
	}
	return ""
}

// keys finds, makes and deletes service keys, and reads what is in them.
type keys struct {
	api        *ccapi.Client
	instances  *instances
	visibility *visibility
	flavors    *flavors
	changes    changes
	rows       rowReader
	room       int                          // of filters in an address
	looks      shared[keyQuestion, keyList] // of FindKeys
}

func newKeys(instances *instances) *keys {
	s := &keys{
		api: instances.api, instances: instances, visibility: instances.visibility, flavors: instances.flavors,
		changes: instances.changes, rows: instances.rows, room: instances.room,
	}
	s.looks.room, s.looks.size = s.room, func(q keyQuestion) int { return sizeOf(q.instance) + sizeOf(nameOf(q.bindingID)) }
	return s
}

// row returns the key's row. Its name is read for marks only where Cloud Foundry takes no others; elsewhere such a name
// is somebody's own.
func (s *keys) row(k keyRow, header http.Header) broker.Row {
	row := s.rows.row(k.facts(), header)
	if s.flavors.known() == korifi {
		return withMarksOfName(row, k.Name)
	}
	return row
}

// CreateKey sends one POST. A Cloud Foundry that takes no marks on keys (Korifi) is known from its refusal, which makes
// nothing: the answer is busy then, and the next try puts them into the name.
func (s *keys) CreateKey(ctx context.Context, c broker.KeyCall) (broker.Answer, error) {
	const noun = "the service key"
	ctx, cancel := s.api.Bounded(ctx)
	defer cancel()
	name, metadata := nameOf(c.Name), s.rows.createMetadata(c.Name, c.Marks)
	if s.flavors.known() == korifi {
		name, metadata = keyNameWithMarks(c.Name, c.Marks.Operation, c.Marks.Seq), nil
	}
	what := "create key " + strconv.Quote(name) + " of instance " + strconv.Quote(c.InstanceGUID)
	body, err := withParameters(resource.ServiceCredentialBindingCreate{
		Type: "key", Name: &name, Metadata: metadata,
		Relationships: resource.ServiceCredentialBindingRelationships{ServiceInstance: toOne(c.InstanceGUID)},
	}, c.Parameters)
	if err != nil {
		return unsendable(what, noun, err)
	}
	answer, err := s.changes.send(ctx, ccapi.Request{
		Method: http.MethodPost, Path: keysRoute, Route: keysRoute, Body: body, What: what,
	}, noun)
	if metadata != nil && metadataRefused(err) {
		s.flavors.learn(korifi)
		return broker.Answer{Reply: lifecycle.ReplyBusy}, err // the next try is another request
	}
	return s.instances.withRole(ctx, answer, err, c.InstanceGUID)
}

// DeleteKey sends one DELETE.
func (s *keys) DeleteKey(ctx context.Context, guid string) (broker.Answer, error) {
	ctx, cancel := s.api.Bounded(ctx)
	defer cancel()
	answer, err := s.changes.send(ctx, ccapi.Request{
		Method: http.MethodDelete, Path: keyPath(guid), Route: keyRoute,
		What: "delete key " + strconv.Quote(guid),
	}, "the deletion of the service key")
	if ccapi.IsCode(err, ccapi.CodeNotAuthorized) {
		if k, _, readErr := s.get(ctx, guid); readErr == nil {
			return s.instances.withRole(ctx, answer, err, k.instanceGUID())
		}
	}
	return answer, err
}

// get reads one key.
func (s *keys) get(ctx context.Context, guid string) (keyRow, http.Header, error) {
	r := ccapi.Request{
		Method: http.MethodGet, Path: keyPath(guid), Route: keyRoute, What: "get key " + strconv.Quote(guid),
	}
	var row keyRow
	header, err := s.api.Get(ctx, r, &row)
	if err == nil && row.GUID != guid {
		err = &ccapi.Error{Call: r.What, Err: errors.New("the answer is not the key")}
	}
	return row, header, err
}
