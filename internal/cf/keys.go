package cf

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"
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

// FindKeys returns the keys of the instance that stand for the binding: those of its name, those with these GUIDs and,
// on Korifi, those whose name carries an operation of it. It takes one call, one more when a GUID is not among what has
// the name (none on Korifi, where all keys of the instance are read), and another one or more when nothing of ours is
// left (see visibility).
func (s *keys) FindKeys(ctx context.Context, q broker.Lookup) (broker.Look, error) {
	if q.Instance == "" {
		// A filter without a value would list every key.
		return broker.Look{}, &ccapi.Error{Call: "find keys", Err: errors.New("the GUID of their instance is missing"), Unsent: true}
	}
	flavor, err := s.flavors.ask(ctx)
	if err != nil {
		return broker.Look{}, err
	}
	look, err := s.visibility.begin(ctx)
	if err != nil {
		return broker.Look{}, err
	}
	what := "find keys named " + strconv.Quote(nameOf(q.Name)) + " of instance " + strconv.Quote(q.Instance)
	found := foundKeys{bindingID: q.Name, missing: distinct(q.GUIDs)}
	byName := url.Values{}
	if flavor != korifi {
		byName.Set("names", ccapi.Filter(nameOf(q.Name)))
	}
	if err := s.list(ctx, what, q.Instance, byName, found.add); err != nil {
		return broker.Look{}, err
	}
	if flavor != korifi {
		for _, part := range filters(found.missing) {
			byGUID := url.Values{"guids": {ccapi.Filter(part...)}}
			if err := s.list(ctx, what, q.Instance, byGUID, found.add); err != nil {
				return broker.Look{}, err
			}
		}
	}
	look.Rows = found.rows
	return s.confirmed(ctx, look, q)
}

// foundKeys are the keys that stand for a binding, each once.
type foundKeys struct {
	bindingID string
	missing   []string // GUIDs that were asked for and not met yet
	rows      []broker.Row
}

func (f *foundKeys) add(k keyRow, row broker.Row) {
	wanted := k.Name != nil && standsFor(*k.Name, row, f.bindingID) || slices.Contains(f.missing, k.GUID)
	if !wanted || slices.ContainsFunc(f.rows, func(r broker.Row) bool { return r.GUID == k.GUID }) {
		return
	}
	f.rows = append(f.rows, row)
	f.missing = slices.DeleteFunc(f.missing, func(guid string) bool { return guid == k.GUID })
}

// list lists keys of the instance. What belongs to another one, whoever listed it, is left out.
func (s *keys) list(ctx context.Context, what, instanceGUID string, query url.Values, each func(keyRow, broker.Row)) error {
	query.Set("service_instance_guids", ccapi.Filter(instanceGUID))
	query.Set("type", "key")
	query.Set("per_page", "200")
	return ccapi.Pages(ctx, s.api, ccapi.Request{Path: keysRoute, What: what, Query: query}, func(p ccapi.Page[keyRow]) error {
		for _, k := range p.Resources {
			if of := k.instanceGUID(); of == "" || of == instanceGUID {
				each(k, s.row(k, p.Header))
			}
		}
		return nil
	})
}

// confirmed is that of visibility for keys: who sees the instance sees its keys. Where the offering is known its space
// is asked for, which many looks share; else the instance itself.
func (s *keys) confirmed(ctx context.Context, look broker.Look, q broker.Lookup) (broker.Look, error) {
	if len(look.Rows) == 0 && q.Offering == "" {
		switch _, _, err := s.instances.get(ctx, q.Instance); {
		case err == nil:
			return look, nil
		case !ccapi.IsAbsent(err):
			return broker.Look{}, err
		}
	}
	return s.visibility.confirmed(ctx, look, q)
}

// standsFor reports whether a key with this name is one of the binding.
func standsFor(name string, row broker.Row, bindingID string) bool {
	if !row.MarkedByName {
		return name == nameOf(bindingID)
	}
	k, ok := readKeyName(name)
	return ok && k.isOf(bindingID)
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
