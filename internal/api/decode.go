package api

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strings"

	"github.com/ferry-broker/ferry/internal/broker"
	"github.com/ferry-broker/ferry/internal/canon"
	"github.com/ferry-broker/ferry/internal/osb"
)

// form reads the known fields of one JSON object by their exact names and notes every fault, so that a request is
// corrected once and not field by field. Null counts as absent.
type form struct {
	fields          []canon.Member
	path            string
	faults          *faults
	parametersBytes int64
}

// faults are what a form found; wrong values are reported before missing ones.
type faults struct {
	wrong, missing []string
}

func (f *faults) err() error {
	switch {
	case len(f.wrong) > 0:
		return badRequest("Wrong in the body: %s. Correct that and send the request again.", strings.Join(f.wrong, ", and "))
	case len(f.missing) > 0:
		return badRequest("Missing or empty in the body: %s. Add what is missing and send the request again.", strings.Join(f.missing, ", "))
	}
	return nil
}

func (f *form) value(name string) json.RawMessage {
	for _, field := range f.fields {
		if field.Key == name && !bytes.Equal(field.Value, []byte("null")) {
			return field.Value
		}
	}
	return nil
}

func (f *form) mustBe(name, kind string) {
	f.faults.wrong = append(f.faults.wrong, fmt.Sprintf("%s%s must be %s", f.path, name, kind))
}

// text returns a string, "" when there is none.
func (f *form) text(name string) (s string) {
	raw := f.value(name)
	if n := len(raw); n > 1 && raw[0] == '"' && bytes.IndexByte(raw, '\\') < 0 {
		return string(raw[1 : n-1]) // the body was checked: nothing in it to decode
	}
	if raw != nil && json.Unmarshal(raw, &s) != nil {
		f.mustBe(name, "a string")
	}
	return s
}

// checkText is text for a field whose value is not asked for.
func (f *form) checkText(name string) {
	if raw := f.value(name); raw != nil && raw[0] != '"' {
		f.mustBe(name, "a string")
	}
}

// required is text for a mandatory field, where the empty string is missing too.
func (f *form) required(name string) string {
	s := f.text(name)
	if s == "" {
		f.faults.missing = append(f.faults.missing, f.path+name)
	}
	return s
}

// object returns an object letter for letter, nil when there is none.
func (f *form) object(name string) json.RawMessage {
	raw := f.value(name)
	if raw != nil && raw[0] != '{' {
		f.mustBe(name, "an object")
		return nil
	}
	return raw
}

// inside returns the form of an object in the form; ok is false when there is none.
func (f *form) inside(name string) (inner *form, ok bool) {
	raw := f.object(name)
	if raw == nil {
		return nil, false
	}
	inner = &form{path: f.path + name + ".", faults: f.faults}
	inner.fields, _ = canon.Members(raw) // the body was checked as a whole
	return inner, true
}

// parameters are bounded on their own, because they have to fit into a record.
func (f *form) parameters() json.RawMessage {
	raw := f.object("parameters")
	if int64(len(raw)) > f.parametersBytes {
		f.mustBe("parameters", fmt.Sprintf("at most %d bytes, the limit of this broker", f.parametersBytes))
	}
	return raw
}

// context checks what the broker looks at and returns all of it.
func (f *form) context() json.RawMessage {
	if inner, ok := f.inside("context"); ok {
		inner.checkText("platform")
		inner.checkText("namespace")
	}
	return f.value("context")
}

// maintenanceInfo returns nil without a version: nothing else in it counts (MI-04).
func (f *form) maintenanceInfo() *osb.MaintenanceInfo {
	inner, ok := f.inside("maintenance_info")
	if !ok {
		return nil
	}
	if version := inner.text("version"); version != "" {
		return &osb.MaintenanceInfo{Version: version}
	}
	return nil
}

func readProvision(f *form) osb.ProvisionRequest {
	return osb.ProvisionRequest{
		ServiceID:        f.required("service_id"),
		PlanID:           f.required("plan_id"),
		OrganizationGUID: f.required("organization_guid"),
		SpaceGUID:        f.required("space_guid"),
		Context:          f.context(),
		Parameters:       f.parameters(),
		MaintenanceInfo:  f.maintenanceInfo(),
	}
}

// readUpdate does not look into previous_values: platforms send stale ones (docs/osb-choices.md).
func readUpdate(f *form) osb.UpdateRequest {
	return osb.UpdateRequest{
		ServiceID:       f.required("service_id"),
		PlanID:          f.text("plan_id"),
		Context:         f.context(),
		Parameters:      f.parameters(),
		MaintenanceInfo: f.maintenanceInfo(),
		PreviousValues:  f.value("previous_values"),
	}
}

// readBind asks for service_id and plan_id unless the binding has a predecessor whose they are (spec "Binding
// Rotation", docs/osb-choices.md).
func readBind(f *form) osb.BindRequest {
	b := osb.BindRequest{
		AppGUID:              f.text("app_guid"),
		Context:              f.context(),
		Parameters:           f.parameters(),
		PredecessorBindingID: f.text("predecessor_binding_id"),
	}
	identify := f.required
	if b.PredecessorBindingID != "" {
		identify = f.text
	}
	b.ServiceID, b.PlanID = identify("service_id"), identify("plan_id")
	if inner, ok := f.inside("bind_resource"); ok {
		b.BindResource = &osb.BindResource{AppGUID: inner.text("app_guid"), Route: inner.text("route")}
	}
	return b
}

// withBody joins a reader of a body's fields and the use case that takes what it read. The order of its checks
// continues that of serveOSB: size, syntax, types of all fields, mandatory fields.
func withBody[B any](read func(*form) B, serve func(*handler, context.Context, *exchange, B) (answer, error)) action {
	return func(h *handler, ctx context.Context, e *exchange) (answer, error) {
		raw, err := readBody(e.request, h.RequestBytes)
		if err != nil {
			return answer{}, err
		}
		fields, err := parseObject(raw)
		if err != nil {
			return answer{}, unreadable(e.request, err)
		}
		f := form{fields: fields, faults: &faults{}, parametersBytes: h.ParametersBytes}
		body := read(&f)
		if err := f.faults.err(); err != nil {
			return answer{}, err
		}
		return serve(h, ctx, e, body)
	}
}

// readBody reads at most limit bytes. The server throws away what is left of a larger body, or closes the connection.
func readBody(r *http.Request, limit int64) ([]byte, error) {
	if r.Body == nil {
		return nil, nil
	}
	if r.ContentLength > limit {
		return nil, tooLarge(limit)
	}
	var buffer bytes.Buffer
	if r.ContentLength > 0 {
		buffer.Grow(int(r.ContentLength) + bytes.MinRead)
	}
	_, err := buffer.ReadFrom(io.LimitReader(r.Body, limit+1))
	switch {
	case err != nil:
		return nil, badRequest("The body could not be read to its end. Send the request again.")
	case int64(buffer.Len()) > limit:
		return nil, tooLarge(limit)
	}
	return buffer.Bytes(), nil
}

var errNoBody = errors.New("there is no body")

// parseObject returns the members of the one JSON object in raw. Names are kept as they are: encoding/json would fill a
// struct's service_id from "Service_ID" too, and a field that nobody knows must not change anything (HTTP-06).
func parseObject(raw []byte) ([]canon.Member, error) {
	raw = bytes.TrimSpace(raw)
	if len(raw) == 0 {
		return nil, errNoBody
	}
	return canon.Members(raw)
}

// unreadable answers for a body that is no JSON object. A wrong Content-Type alone is no reason to refuse (HTTP-03):
// curl sends its form type with perfect JSON. It is named when the body cannot be read, as the likely cause.
func unreadable(r *http.Request, err error) error {
	const advice = "a JSON object in UTF-8, each key once"
	kind, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if kind != "" && kind != "application/json" {
		return badRequest("The body cannot be read: %v. Send %s, with Content-Type application/json.", err, advice)
	}
	return badRequest("The body cannot be read: %v. Send %s.", err, advice)
}

const (
	// maxEcho bounds the request identity in answers and logs; gateways refuse answers whose headers are too large.
	maxEcho = 1024
	// maxOriginator bounds the originating identity, which is kept in records.
	maxOriginator = 16 << 10
)

// echo returns the request identity in the form in which it goes back: several values joined by the comma at which a
// gateway may have split them, no control characters, which could end the header early, and bounded.
func echo(header http.Header) string {
	values := header.Values(osb.RequestIdentityHeader)
	if len(values) == 0 {
		return ""
	}
	text := strings.Join(values, ",")
	if len(text) <= maxEcho && strings.IndexFunc(text, unprintable) < 0 {
		return strings.TrimSpace(text)
	}
	clean := make([]byte, 0, maxEcho)
	for _, c := range []byte(text) {
		if len(clean) < maxEcho && (c >= ' ' && c != 0x7f || c == '\t') {
			clean = append(clean, c)
		}
	}
	return strings.TrimSpace(string(clean))
}

func unprintable(r rune) bool { return r != '\t' && (r < ' ' || r == 0x7f) }

// noteOriginator takes the originating identity as it came (spec "Originating Identity"). It decides nothing, so one
// that cannot be read is noted for the log and passed on (docs/osb-choices.md); one too large to be kept is left out.
func noteOriginator(e *exchange) {
	value := strings.Join(e.request.Header.Values(osb.OriginatingIdentityHeader), ",")
	if value == "" {
		return
	}
	id, ok := originatorID(value)
	e.badOriginator = !ok
	e.originatorID = id
	if len(value) <= maxOriginator {
		e.originator = value
	}
}

// originatorID returns the user's id from a platform, one space and the Base64 of a JSON object: user_id for Cloud
// Foundry, uid for Kubernetes, empty when it has neither. It is not ok when the value is of another form.
func originatorID(value string) (id string, ok bool) {
	platform, encoded, found := strings.Cut(value, " ")
	if !found || platform == "" || len(value) > maxOriginator {
		return "", false
	}
	// Some platforms leave the padding out.
	text, err := base64.RawStdEncoding.DecodeString(strings.TrimRight(encoded, "="))
	if err != nil {
		return "", false
	}
	var object map[string]json.RawMessage
	if json.Unmarshal(text, &object) != nil || object == nil {
		return "", false
	}
	for _, name := range []string{"user_id", "uid"} {
		if json.Unmarshal(object[name], &id) == nil && id != "" {
			return id, true
		}
	}
	return "", true
}

// apiInfoLocation is where a Cloud Foundry platform says that its API is.
func (e *exchange) apiInfoLocation() string {
	value := e.request.Header.Get(osb.APIInfoLocationHeader)
	return value[:min(len(value), maxEcho)]
}

// call returns what every changing request carries besides its body.
func call(e *exchange) broker.Call {
	return broker.Call{
		Client: e.client.Name,
		// Only the literal word counts, and of several the first (ASY-16, HTTP-22).
		AcceptsIncomplete:   e.query("accepts_incomplete") == "true",
		OriginatingIdentity: e.originator,
		APIInfoLocation:     e.apiInfoLocation(),
	}
}

// query returns the first value of a parameter, decoded, "" when there is none.
func (e *exchange) query(name string) string {
	raw := e.request.URL.RawQuery
	if e.values == nil && strings.ContainsAny(raw, "%+;") {
		e.values = e.request.URL.Query()
	}
	if e.values != nil {
		return e.values.Get(name)
	}
	for pair := range strings.SplitSeq(raw, "&") { // nothing in it to decode
		if key, value, _ := strings.Cut(pair, "="); key == name {
			return value
		}
	}
	return ""
}

// fetch returns the request of a GET; service_id and plan_id in its query are hints that nobody needs
// (docs/osb-choices.md).
func fetch(e *exchange) broker.FetchRequest {
	return broker.FetchRequest{Client: e.client.Name, InstanceID: e.instanceID, BindingID: e.bindingID}
}
