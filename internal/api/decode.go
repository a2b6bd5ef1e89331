package api

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/ferry-broker/ferry/internal/osb"
)

// form reads the known fields of one JSON object by their exact names and notes
// every fault, so that a request is corrected once and not field by field. Null
// counts as absent.
type form struct {
	fields          map[string]json.RawMessage
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
	if raw := f.fields[name]; !bytes.Equal(raw, []byte("null")) {
		return raw
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
	// The body was checked as a whole, so this cannot fail.
	_ = json.Unmarshal(raw, &inner.fields)
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
		inner.text("platform")
		inner.text("namespace")
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

// readUpdate does not look into previous_values: platforms send stale ones
// (osb-choices G3).
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

// readBind asks for service_id and plan_id unless the binding has a predecessor
// whose they are (spec "Binding Rotation", osb-choices H1).
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
