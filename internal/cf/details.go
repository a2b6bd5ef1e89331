package cf

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/ferry-broker/ferry/internal/broker"
	"github.com/ferry-broker/ferry/internal/ccapi"
)

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
func (s *keys) KeyDetails(ctx context.Context, guid, offering string) (broker.KeyDetails, error) {
	r := ccapi.Request{
		Method: http.MethodGet, Path: keyPath(guid) + "/details", Route: keyRoute + "/details",
		What: "get details of key " + strconv.Quote(guid),
	}
	var row detailsRow
	_, err := s.api.Get(ctx, r, &row)
	switch {
	case ccapi.IsAbsent(err) && !unfinished(err):
		return broker.KeyDetails{}, s.isGone(ctx, guid, offering)
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

// Error names the call and what the credentials are instead of an object.
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

// isGone returns broker.ErrNotFound when neither the key is there nor anything hidden from the login, and another error
// otherwise.
func (s *keys) isGone(ctx context.Context, guid, offering string) error {
	_, _, err := s.get(ctx, guid)
	switch {
	case err == nil:
		return &ccapi.Error{
			Call: "get details of key " + strconv.Quote(guid), Title: "the key is there, its details are not",
			Detail: "the login may not read them", Advice: ccapi.AdviceRole,
		}
	case !ccapi.IsAbsent(err):
		return err
	}
	if err := s.visibility.confirmAbsence(ctx, offering, new(sight)); err != nil {
		return err
	}
	return broker.ErrNotFound
}

func unfinished(err error) bool {
	e, ok := errors.AsType[*ccapi.Error](err)
	return ok && (strings.HasPrefix(e.Text, "Creation of service key") || strings.HasPrefix(e.Text, "Deletion of service key"))
}

// InstanceParameters returns what the backing broker says of the instance, or broker.ErrNotRetrievable, or
// broker.ErrNotFound, which nothing has confirmed. Where the API has no such call (Korifi), its answer says nothing of
// the instance, and one more call asks whether that is there.
func (s *instances) InstanceParameters(ctx context.Context, guid string) (json.RawMessage, error) {
	parameters, err := parameters(ctx, s.api, ccapi.Request{
		Path: instancePath(guid) + "/parameters", Route: instanceRoute + "/parameters",
		What: "get parameters of instance " + strconv.Quote(guid),
	})
	if errors.Is(err, errNoSuchCall) {
		if _, _, gone := s.get(ctx, guid); ccapi.IsAbsent(gone) {
			return nil, broker.ErrNotFound
		}
	}
	return parameters, err
}

// KeyParameters returns what the backing broker says of the key, or broker.ErrNotRetrievable, or broker.ErrNotFound,
// which nothing has confirmed.
func (s *keys) KeyParameters(ctx context.Context, guid string) (json.RawMessage, error) {
	return parameters(ctx, s.api, ccapi.Request{
		Path: keyPath(guid) + "/parameters", Route: keyRoute + "/parameters",
		What: "get parameters of key " + strconv.Quote(guid),
	})
}

func parameters(ctx context.Context, api *ccapi.Client, r ccapi.Request) (json.RawMessage, error) {
	r.Method = http.MethodGet
	var parameters json.RawMessage
	_, err := api.Get(ctx, r, &parameters)
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
// code (ccapi.IsAbsent).
func noSuchCall(err error) bool {
	e, ok := errors.AsType[*ccapi.Error](err)
	return ok && e.Status == http.StatusNotFound && e.Code != 0 && !ccapi.IsAbsent(err)
}
