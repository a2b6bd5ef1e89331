package cf

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/cloudfoundry/go-cfclient/v3/resource"

	"github.com/ferry-broker/ferry/internal/broker"
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

// FindKeys returns the keys of the instance that stand for the binding.
func (b *Backend) FindKeys(ctx context.Context, instanceGUID, name string) (broker.Look, error) {
	name = Name(name)
	r := request{
		path: keysRoute,
		what: "find keys named " + strconv.Quote(name) + " of instance " + strconv.Quote(instanceGUID),
		query: url.Values{
			"names": {list(name)}, "service_instance_guids": {list(instanceGUID)}, "type": {"key"}, "per_page": {"200"},
		},
	}
	look := broker.Look{Began: b.config.Now()}
	err := pages(ctx, b, r, func(p page[keyRow]) {
		for _, k := range p.Resources {
			if k.Name != nil && *k.Name == name {
				look.Rows = append(look.Rows, b.row(k.facts(), p.header))
			}
		}
	})
	if err != nil {
		return broker.Look{}, err
	}
	return look, nil
}

// CreateKey sends one POST.
func (b *Backend) CreateKey(ctx context.Context, c broker.KeyCall) (broker.Answer, error) {
	const noun = "the service key"
	ctx, cancel := b.bounded(ctx)
	defer cancel()
	name := Name(c.Name)
	what := "create key " + strconv.Quote(name) + " of instance " + strconv.Quote(c.InstanceGUID)
	body, err := withParameters(resource.ServiceCredentialBindingCreate{
		Type: "key", Name: &name, Metadata: b.createMetadata(c.Marks),
		Relationships: resource.ServiceCredentialBindingRelationships{ServiceInstance: toOne(c.InstanceGUID)},
	}, c.Parameters)
	if err != nil {
		return unsendable(what, noun, err)
	}
	return b.call(ctx, request{
		method: http.MethodPost, path: keysRoute, route: keysRoute, body: body, what: what,
	}, noun)
}

// DeleteKey sends one DELETE.
func (b *Backend) DeleteKey(ctx context.Context, guid string) (broker.Answer, error) {
	ctx, cancel := b.bounded(ctx)
	defer cancel()
	return b.call(ctx, request{
		method: http.MethodDelete, path: keyPath(guid), route: keyRoute,
		what: "delete key " + strconv.Quote(guid),
	}, "the deletion of the service key")
}

// KeyDetails returns the credentials as Cloud Foundry sent them. go-cfclient would
// round large integers and fail on volume mounts (trap 6). A key that is there but
// not finished is answered with the code of an absent one; it is an error other
// than broker.ErrNotFound.
func (b *Backend) KeyDetails(ctx context.Context, guid string) (broker.KeyDetails, error) {
	r := request{
		method: http.MethodGet, path: keyPath(guid) + "/details", route: keyRoute + "/details",
		what: "get details of key " + strconv.Quote(guid),
	}
	var details broker.KeyDetails
	_, err := b.get(ctx, r, &details)
	switch {
	case isAbsent(err) && !unfinished(err):
		return broker.KeyDetails{}, broker.ErrNotFound
	case err != nil:
		return broker.KeyDetails{}, err
	case !bytes.HasPrefix(details.Credentials, []byte("{")):
		return broker.KeyDetails{}, &Error{Call: r.what, Err: errors.New("the answer has no credentials")}
	case string(details.VolumeMounts) == "null":
		details.VolumeMounts = nil
	}
	return details, nil
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
	if notRetrievable(err) {
		return nil, broker.ErrNotRetrievable
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
