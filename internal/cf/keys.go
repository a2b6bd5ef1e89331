package cf

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/cloudfoundry/go-cfclient/v3/resource"

	"github.com/ferry-broker/ferry/internal/broker"
	"github.com/ferry-broker/ferry/internal/lifecycle"
)

const (
	keysRoute = "/v3/service_credential_bindings"
	keyRoute  = "/v3/service_credential_bindings/:guid"
)

func keyPath(guid string) string { return keysRoute + "/" + url.PathEscape(guid) }

// keyRow is a key as the API shows it.
type keyRow struct {
	resource.ServiceCredentialBinding
	LastOperation *lastOperation `json:"last_operation"`
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

// keyRow returns the key's row. Its name is read for marks only where Cloud Foundry
// takes no others; elsewhere such a name is somebody's own.
func (b *Backend) keyRow(k keyRow, header http.Header) broker.Row {
	row := b.row(k.facts(), header)
	if b.tongue.dialect() == korifi {
		return looseRow(row, k.Name)
	}
	return row
}

// FindKeys returns the keys of the instance that stand for the binding: those of its
// name and, on Korifi, those whose name carries an operation of it. It takes one
// call; a look that finds nothing takes one more (see seen).
func (b *Backend) FindKeys(ctx context.Context, instanceGUID, name string, guids ...string) (broker.Look, error) {
	d, err := b.dialect(ctx)
	if err != nil {
		return broker.Look{}, err
	}
	r := request{
		path: keysRoute,
		what: "find keys named " + strconv.Quote(Name(name)) + " of instance " + strconv.Quote(instanceGUID),
		query: url.Values{
			"service_instance_guids": {list(instanceGUID)}, "type": {"key"}, "per_page": {"200"},
		},
	}
	if d != korifi {
		r.query.Set("names", list(Name(name)))
	}
	look := broker.Look{Began: b.config.Now()}
	err = pages(ctx, b, r, func(p page[keyRow]) {
		for _, k := range p.Resources {
			if row := b.keyRow(k, p.header); k.Name != nil && standsFor(*k.Name, row, name) {
				look.Rows = append(look.Rows, row)
			}
		}
	})
	if err != nil {
		return broker.Look{}, err
	}
	return b.seen(ctx, look)
}

// standsFor reports whether a key with this name is one of the binding.
func standsFor(name string, row broker.Row, bindingID string) bool {
	if !row.Loose {
		return name == Name(bindingID)
	}
	k, ok := readLooseKey(name)
	return ok && k.isOf(bindingID)
}

// CreateKey sends one POST. A Cloud Foundry that takes no marks on keys (Korifi) is
// known from its refusal, which makes nothing: the answer is busy then, and the next
// try puts them into the name.
func (b *Backend) CreateKey(ctx context.Context, c broker.KeyCall) (broker.Answer, error) {
	const noun = "the service key"
	ctx, cancel := b.bounded(ctx)
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
	answer, err := b.call(ctx, request{
		method: http.MethodPost, path: keysRoute, route: keysRoute, body: body, what: what,
	}, noun)
	if metadata != nil && metadataRefused(err) {
		b.tongue.learn(korifi)
		return broker.Answer{Reply: lifecycle.ReplyBusy}, err
	}
	return b.curable(ctx, answer, err, c.InstanceGUID)
}

// DeleteKey sends one DELETE.
func (b *Backend) DeleteKey(ctx context.Context, guid string) (broker.Answer, error) {
	ctx, cancel := b.bounded(ctx)
	defer cancel()
	answer, err := b.call(ctx, request{
		method: http.MethodDelete, path: keyPath(guid), route: keyRoute,
		what: "delete key " + strconv.Quote(guid),
	}, "the deletion of the service key")
	if isCode(err, codeNotAuthorized) {
		if k, _, readErr := b.key(ctx, guid); readErr == nil {
			return b.curable(ctx, answer, err, k.instanceGUID())
		}
	}
	return answer, err
}

// key reads one key.
func (b *Backend) key(ctx context.Context, guid string) (keyRow, http.Header, error) {
	r := request{
		method: http.MethodGet, path: keyPath(guid), route: keyRoute, what: "get key " + strconv.Quote(guid),
	}
	var row keyRow
	header, err := b.get(ctx, r, &row)
	if err == nil && row.GUID != guid {
		err = &Error{Call: r.what, Err: errors.New("the answer is not the key")}
	}
	return row, header, err
}

// KeyDetails returns the credentials as Cloud Foundry sent them. go-cfclient would
// round large integers and fail on volume mounts (trap 6). A key that is there but
// not finished is answered with the code of an absent one; it is an error other
// than broker.ErrNotFound. So is one that the login may see but not read: before a
// key counts as absent, two more calls look for it and for the org.
func (b *Backend) KeyDetails(ctx context.Context, guid string) (broker.KeyDetails, error) {
	r := request{
		method: http.MethodGet, path: keyPath(guid) + "/details", route: keyRoute + "/details",
		what: "get details of key " + strconv.Quote(guid),
	}
	var details broker.KeyDetails
	_, err := b.get(ctx, r, &details)
	switch {
	case isAbsent(err) && !unfinished(err):
		return broker.KeyDetails{}, b.keyIsGone(ctx, guid)
	case err != nil:
		return broker.KeyDetails{}, err
	case !bytes.HasPrefix(details.Credentials, []byte("{")):
		return broker.KeyDetails{}, &Error{Call: r.what, Err: errors.New("the answer has no credentials")}
	case string(details.VolumeMounts) == "null":
		details.VolumeMounts = nil
	}
	return details, nil
}

// keyIsGone returns broker.ErrNotFound when neither the key is there nor the login
// blind, and another error else.
func (b *Backend) keyIsGone(ctx context.Context, guid string) error {
	_, _, err := b.key(ctx, guid)
	switch {
	case err == nil:
		return &Error{
			Call: "get details of key " + strconv.Quote(guid), Title: "the key is there, its details are not",
			Detail: "the login may not read them", advice: adviceRole,
		}
	case !isAbsent(err):
		return err
	}
	if err := b.confirmSight(ctx); err != nil {
		return err
	}
	return broker.ErrNotFound
}

func unfinished(err error) bool {
	e, ok := errors.AsType[*Error](err)
	return ok && (strings.HasPrefix(e.text, "Creation of service key") || strings.HasPrefix(e.text, "Deletion of service key"))
}

// InstanceParameters returns what the backing broker says of the instance, or
// broker.ErrNotRetrievable.
func (b *Backend) InstanceParameters(ctx context.Context, guid string) (json.RawMessage, error) {
	return b.parameters(ctx, request{
		path: instancePath(guid) + "/parameters", route: instanceRoute + "/parameters",
		what: "get parameters of instance " + strconv.Quote(guid),
	})
}

// KeyParameters returns what the backing broker says of the key, or
// broker.ErrNotRetrievable.
func (b *Backend) KeyParameters(ctx context.Context, guid string) (json.RawMessage, error) {
	return b.parameters(ctx, request{
		path: keyPath(guid) + "/parameters", route: keyRoute + "/parameters",
		what: "get parameters of key " + strconv.Quote(guid),
	})
}

func (b *Backend) parameters(ctx context.Context, r request) (json.RawMessage, error) {
	r.method = http.MethodGet
	var parameters json.RawMessage
	_, err := b.get(ctx, r, &parameters)
	switch {
	case notRetrievable(err):
		return nil, broker.ErrNotRetrievable
	case isCode(err, codeInProgress):
		return nil, fmt.Errorf("%w: %w", broker.ErrBusy, err)
	}
	return parameters, err
}

// notRetrievable reports whether Cloud Foundry said that it cannot be read: not
// offered by the backing broker, no such resource, or (Korifi) no such call.
func notRetrievable(err error) bool {
	e, ok := errors.AsType[*Error](err)
	return ok && (isCode(err, codeInstanceNotRead, codeBindingNotRead) ||
		(e.Status == http.StatusNotFound && e.Code != 0))
}

// withoutValue keeps a decoding error from quoting what could not be decoded: it
// may be a credential.
func withoutValue(err error) error {
	if e, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		return errors.New("the answer has an unexpected value in " + strconv.Quote(e.Field))
	}
	return errors.New("the answer is not the JSON that was expected")
}
