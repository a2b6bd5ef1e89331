package cf

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"

	"github.com/ferry-broker/ferry/internal/broker"
)

// detailsRow is what the API tells of a key's secrets. Nothing of it has to be there:
// keys of syslog and volume services have no credentials.
type detailsRow struct {
	Credentials     json.RawMessage  `json:"credentials"`
	SyslogDrainURL  optional[string] `json:"syslog_drain_url"`
	VolumeMounts    json.RawMessage  `json:"volume_mounts"`
	RouteServiceURL optional[string] `json:"route_service_url"`
	Endpoints       json.RawMessage  `json:"endpoints"`
}

// KeyDetails returns what Cloud Foundry has of a key, letter for letter; go-cfclient
// would round large integers and fail on volume mounts (docs/cf-contract.md 4.1). A key without
// credentials is none the worse for it. A key that is there but not finished is answered
// with the code of an absent one; it is an error other than broker.ErrNotFound. So is one
// that the login may see but not read: before a key counts as absent, two or more calls
// look for it and confirm the absence.
func (b *Backend) KeyDetails(ctx context.Context, guid string) (broker.KeyDetails, error) {
	r := request{
		method: http.MethodGet, path: keyPath(guid) + "/details", route: keyRoute + "/details",
		what: "get details of key " + strconv.Quote(guid),
	}
	var row detailsRow
	_, err := b.get(ctx, r, &row)
	switch {
	case isAbsent(err) && !unfinished(err):
		return broker.KeyDetails{}, b.keyIsGone(ctx, guid)
	case err != nil:
		return broker.KeyDetails{}, err
	}
	if kind := kindOf(row.Credentials); kind != "" && kind != "an object" {
		return broker.KeyDetails{}, &unusableCredentials{call: r.what, kind: kind}
	}
	return broker.KeyDetails{
		Credentials: ofKind(row.Credentials, "an object"), SyslogDrainURL: row.SyslogDrainURL.value,
		VolumeMounts: ofKind(row.VolumeMounts, "an array"), RouteServiceURL: row.RouteServiceURL.value,
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
	if err := b.confirm(ctx, broker.OfferingOf(ctx)); err != nil {
		return err
	}
	return broker.ErrNotFound
}
