package cf

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

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

// keyRow returns the key's row. Its name is read for marks only where Cloud Foundry takes no others; elsewhere such a
// name is somebody's own.
func (b *Backend) keyRow(k keyRow, header http.Header) broker.Row {
	row := b.row(k.facts(), header)
	if b.tongue.dialect() == korifi {
		return looseRow(row, k.Name)
	}
	return row
}

// FindKeys returns the keys of the instance that stand for the binding: those of its name, those with these GUIDs and,
// on Korifi, those whose name carries an operation of it. It takes one call, one more when a GUID is not among what has
// the name (none on Korifi, where all keys of the instance are read), and another one or more when nothing of ours is
// left (see seen).
func (b *Backend) FindKeys(ctx context.Context, instanceGUID, name string, guids ...string) (broker.Look, error) {
	if instanceGUID == "" {
		// A filter without a value would list every key.
		return broker.Look{}, &ccapi.Error{Call: "find keys", Err: errors.New("the GUID of their instance is missing"), Unsent: true}
	}
	d, err := b.dialect(ctx)
	if err != nil {
		return broker.Look{}, err
	}
	look, err := b.newLook(ctx)
	if err != nil {
		return broker.Look{}, err
	}
	what := "find keys named " + strconv.Quote(Name(name)) + " of instance " + strconv.Quote(instanceGUID)
	query := url.Values{}
	if d != korifi {
		query.Set("names", ccapi.Filter(Name(name)))
	}
	missing := distinct(guids)
	collect := func(k keyRow, row broker.Row) {
		if k.Name != nil && standsFor(*k.Name, row, name) || slices.Contains(missing, k.GUID) {
			look.Rows = append(look.Rows, row)
			missing = slices.DeleteFunc(missing, func(guid string) bool { return guid == k.GUID })
		}
	}
	if err := b.keysOf(ctx, what, instanceGUID, query, collect); err != nil {
		return broker.Look{}, err
	}
	if d != korifi {
		named := slices.Clone(look.Rows)
		for _, part := range filters(missing) {
			err := b.keysOf(ctx, what, instanceGUID, url.Values{"guids": {ccapi.Filter(part...)}}, func(k keyRow, row broker.Row) {
				if !slices.ContainsFunc(named, func(r broker.Row) bool { return r.GUID == k.GUID }) {
					collect(k, row)
				}
			})
			if err != nil {
				return broker.Look{}, err
			}
		}
	}
	return b.seenKeys(ctx, look, instanceGUID, guids)
}

// keysOf lists keys of the instance. What belongs to another one, whoever listed it, is left out.
func (b *Backend) keysOf(ctx context.Context, what, instanceGUID string, query url.Values, each func(keyRow, broker.Row)) error {
	query.Set("service_instance_guids", ccapi.Filter(instanceGUID))
	query.Set("type", "key")
	query.Set("per_page", "200")
	return ccapi.Pages(ctx, b.api, ccapi.Request{Path: keysRoute, What: what, Query: query}, func(p ccapi.Page[keyRow]) error {
		for _, k := range p.Resources {
			if of := k.instanceGUID(); of == "" || of == instanceGUID {
				each(k, b.keyRow(k, p.Header))
			}
		}
		return nil
	})
}

// seenKeys is seen for keys: who sees the instance sees its keys. Where the offering is known its space is asked for,
// which many looks share; else the instance itself.
func (b *Backend) seenKeys(ctx context.Context, look broker.Look, instanceGUID string, guids []string) (broker.Look, error) {
	if len(look.Rows) == 0 && broker.OfferingOf(ctx) == "" {
		switch _, _, err := b.instance(ctx, instanceGUID); {
		case err == nil:
			return look, nil
		case !ccapi.IsAbsent(err):
			return broker.Look{}, err
		}
	}
	return b.seen(ctx, look, guids)
}

// standsFor reports whether a key with this name is one of the binding.
func standsFor(name string, row broker.Row, bindingID string) bool {
	if !row.MarkedByName {
		return name == Name(bindingID)
	}
	k, ok := readLooseKey(name)
	return ok && k.isOf(bindingID)
}

// CreateKey sends one POST. A Cloud Foundry that takes no marks on keys (Korifi) is known from its refusal, which makes
// nothing: the answer is busy then, and the next try puts them into the name.
func (b *Backend) CreateKey(ctx context.Context, c broker.KeyCall) (broker.Answer, error) {
	const noun = "the service key"
	ctx, cancel := b.api.Bounded(ctx)
	defer cancel()
	name, metadata := Name(c.Name), b.createMetadata(c.Name, c.Marks)
	if b.tongue.dialect() == korifi {
		name, metadata = LooseKeyName(c.Name, c.Marks.Operation, c.Marks.Seq), nil
	}
	what := "create key " + strconv.Quote(name) + " of instance " + strconv.Quote(c.InstanceGUID)
	body, err := withParameters(resource.ServiceCredentialBindingCreate{
		Type: "key", Name: &name, Metadata: metadata,
		Relationships: resource.ServiceCredentialBindingRelationships{ServiceInstance: toOne(c.InstanceGUID)},
	}, c.Parameters)
	if err != nil {
		return unsendable(what, noun, err)
	}
	answer, err := b.call(ctx, ccapi.Request{
		Method: http.MethodPost, Path: keysRoute, Route: keysRoute, Body: body, What: what,
	}, noun)
	if metadata != nil && metadataRefused(err) {
		b.tongue.learn(korifi)
		return broker.Answer{Reply: lifecycle.ReplyBusy}, err // the next try is another request
	}
	return b.curable(ctx, answer, err, c.InstanceGUID)
}

// DeleteKey sends one DELETE.
func (b *Backend) DeleteKey(ctx context.Context, guid string) (broker.Answer, error) {
	ctx, cancel := b.api.Bounded(ctx)
	defer cancel()
	answer, err := b.call(ctx, ccapi.Request{
		Method: http.MethodDelete, Path: keyPath(guid), Route: keyRoute,
		What: "delete key " + strconv.Quote(guid),
	}, "the deletion of the service key")
	if ccapi.IsCode(err, ccapi.CodeNotAuthorized) {
		if k, _, readErr := b.key(ctx, guid); readErr == nil {
			return b.curable(ctx, answer, err, k.instanceGUID())
		}
	}
	return answer, err
}

// key reads one key.
func (b *Backend) key(ctx context.Context, guid string) (keyRow, http.Header, error) {
	r := ccapi.Request{
		Method: http.MethodGet, Path: keyPath(guid), Route: keyRoute, What: "get key " + strconv.Quote(guid),
	}
	var row keyRow
	header, err := b.api.Get(ctx, r, &row)
	if err == nil && row.GUID != guid {
		err = &ccapi.Error{Call: r.What, Err: errors.New("the answer is not the key")}
	}
	return row, header, err
}

func unfinished(err error) bool {
	e, ok := errors.AsType[*ccapi.Error](err)
	return ok && (strings.HasPrefix(e.Text, "Creation of service key") || strings.HasPrefix(e.Text, "Deletion of service key"))
}

// InstanceParameters returns what the backing broker says of the instance, or broker.ErrNotRetrievable, or
// broker.ErrNotFound, which nothing has confirmed. Where the API has no such call (Korifi), its answer says nothing of
// the instance, and one more call asks whether that is there.
func (b *Backend) InstanceParameters(ctx context.Context, guid string) (json.RawMessage, error) {
	parameters, err := b.parameters(ctx, ccapi.Request{
		Path: instancePath(guid) + "/parameters", Route: instanceRoute + "/parameters",
		What: "get parameters of instance " + strconv.Quote(guid),
	})
	if errors.Is(err, errNoSuchCall) {
		if _, _, gone := b.instance(ctx, guid); ccapi.IsAbsent(gone) {
			return nil, broker.ErrNotFound
		}
	}
	return parameters, err
}

// KeyParameters returns what the backing broker says of the key, or broker.ErrNotRetrievable, or broker.ErrNotFound,
// which nothing has confirmed.
func (b *Backend) KeyParameters(ctx context.Context, guid string) (json.RawMessage, error) {
	return b.parameters(ctx, ccapi.Request{
		Path: keyPath(guid) + "/parameters", Route: keyRoute + "/parameters",
		What: "get parameters of key " + strconv.Quote(guid),
	})
}

func (b *Backend) parameters(ctx context.Context, r ccapi.Request) (json.RawMessage, error) {
	r.Method = http.MethodGet
	var parameters json.RawMessage
	_, err := b.api.Get(ctx, r, &parameters)
	switch {
	case ccapi.IsAbsent(err):
		return nil, broker.ErrNotFound
	case ccapi.IsCode(err, ccapi.CodeInstanceNotRead, ccapi.CodeBindingNotRead):
		return nil, broker.ErrNotRetrievable
	case noSuchCall(err):
		return nil, errNoSuchCall
	case ccapi.IsCode(err, ccapi.CodeInProgress):
		return nil, fmt.Errorf("%w: %w", broker.ErrBusy, err)
	}
	return parameters, err
}

// errNoSuchCall is broker.ErrNotRetrievable where the API does not know the call.
var errNoSuchCall = fmt.Errorf("%w: the API has no such call", broker.ErrNotRetrievable)

// noSuchCall reports whether the API does not know the call; of what it knows and does not find it says so by another
// code (isAbsent).
func noSuchCall(err error) bool {
	e, ok := errors.AsType[*ccapi.Error](err)
	return ok && e.Status == http.StatusNotFound && e.Code != 0 && !ccapi.IsAbsent(err)
}

// detailsRow is what the API tells of a key's secrets. Nothing of it has to be there: keys of syslog and volume
// services have no credentials.
type detailsRow struct {
	Credentials     json.RawMessage        `json:"credentials"`
	SyslogDrainURL  ccapi.Optional[string] `json:"syslog_drain_url"`
	VolumeMounts    json.RawMessage        `json:"volume_mounts"`
	RouteServiceURL ccapi.Optional[string] `json:"route_service_url"`
	Endpoints       json.RawMessage        `json:"endpoints"`
}

// KeyDetails returns what Cloud Foundry has of a key, letter for letter; go-cfclient would round large integers and
// fail on volume mounts (docs/cf-contract.md 4.1). A key without credentials is none the worse for it. A key that is
// there but not finished is answered with the code of an absent one; it is an error other than broker.ErrNotFound. So
// is one that the login may see but not read: before a key counts as absent, two or more calls look for it and confirm
// the absence.
func (b *Backend) KeyDetails(ctx context.Context, guid string) (broker.KeyDetails, error) {
	r := ccapi.Request{
		Method: http.MethodGet, Path: keyPath(guid) + "/details", Route: keyRoute + "/details",
		What: "get details of key " + strconv.Quote(guid),
	}
	var row detailsRow
	_, err := b.api.Get(ctx, r, &row)
	switch {
	case ccapi.IsAbsent(err) && !unfinished(err):
		return broker.KeyDetails{}, b.keyIsGone(ctx, guid)
	case err != nil:
		return broker.KeyDetails{}, err
	}
	if kind := kindOf(row.Credentials); kind != "" && kind != "an object" {
		return broker.KeyDetails{}, &unusableCredentials{call: r.What, kind: kind}
	}
	return broker.KeyDetails{
		Credentials: ofKind(row.Credentials, "an object"), SyslogDrainURL: row.SyslogDrainURL.Value,
		VolumeMounts: ofKind(row.VolumeMounts, "an array"), RouteServiceURL: row.RouteServiceURL.Value,
		Endpoints: ofKind(row.Endpoints, "an array"),
	}, nil
}

// unusableCredentials is broker.ErrCredentials. It names what there is, never its value.
type unusableCredentials struct{ call, kind string }

func (e *unusableCredentials) Error() string {
	return fmt.Sprintf("cloud foundry: %s: %v but %s", e.call, broker.ErrCredentials, e.kind)
}

// Unwrap returns broker.ErrCredentials.
func (e *unusableCredentials) Unwrap() error { return broker.ErrCredentials }

// UserText implements broker.UserTexter.
func (e *unusableCredentials) UserText() string {
	return "The backing broker made credentials that are " + e.kind + " and not a JSON object; " +
		"they cannot be handed on. Its operator has to look at it."
}

// ofKind returns JSON of the wanted kind; null and any other kind tell nothing.
func ofKind(text json.RawMessage, kind string) json.RawMessage {
	if kindOf(text) != kind {
		return nil
	}
	return text
}

// kindOf names the kind of a JSON value; "" is none, or null.
func kindOf(text json.RawMessage) string {
	text = bytes.TrimSpace(text)
	if len(text) == 0 {
		return ""
	}
	switch text[0] {
	case '{':
		return "an object"
	case '[':
		return "an array"
	case '"':
		return "a text"
	case 'n':
		return ""
	case 't', 'f':
		return "a boolean"
	default:
		return "a number"
	}
}

// keyIsGone returns broker.ErrNotFound when neither the key is there nor the login blind, and another error else.
func (b *Backend) keyIsGone(ctx context.Context, guid string) error {
	_, _, err := b.key(ctx, guid)
	switch {
	case err == nil:
		return &ccapi.Error{
			Call: "get details of key " + strconv.Quote(guid), Title: "the key is there, its details are not",
			Detail: "the login may not read them", Advice: ccapi.AdviceRole,
		}
	case !ccapi.IsAbsent(err):
		return err
	}
	if err := b.confirm(ctx, broker.OfferingOf(ctx)); err != nil {
		return err
	}
	return broker.ErrNotFound
}
