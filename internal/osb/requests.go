package osb

import "encoding/json"

// ProvisionRequest is the body of PUT /v2/service_instances/:instance_id
// (spec "Provisioning").
type ProvisionRequest struct {
	ServiceID        string           `json:"service_id"`
	PlanID           string           `json:"plan_id"`
	OrganizationGUID string           `json:"organization_guid"`
	SpaceGUID        string           `json:"space_guid"`
	Context          json.RawMessage  `json:"context,omitempty"`
	Parameters       json.RawMessage  `json:"parameters,omitempty"`
	MaintenanceInfo  *MaintenanceInfo `json:"maintenance_info,omitempty"`
}

// UpdateRequest is the body of PATCH /v2/service_instances/:instance_id
// (spec "Updating a Service Instance").
type UpdateRequest struct {
	ServiceID       string           `json:"service_id"`
	PlanID          string           `json:"plan_id,omitempty"`
	Context         json.RawMessage  `json:"context,omitempty"`
	Parameters      json.RawMessage  `json:"parameters,omitempty"`
	MaintenanceInfo *MaintenanceInfo `json:"maintenance_info,omitempty"`
	// PreviousValues is accepted and never judged (osb-choices G3).
	PreviousValues json.RawMessage `json:"previous_values,omitempty"`
}

// BindRequest is the body of PUT …/service_bindings/:binding_id (spec "Binding"
// and "Binding Rotation").
type BindRequest struct {
	ServiceID            string          `json:"service_id"`
	PlanID               string          `json:"plan_id"`
	AppGUID              string          `json:"app_guid,omitempty"`
	BindResource         *BindResource   `json:"bind_resource,omitempty"`
	Context              json.RawMessage `json:"context,omitempty"`
	Parameters           json.RawMessage `json:"parameters,omitempty"`
	PredecessorBindingID string          `json:"predecessor_binding_id,omitempty"`
}

// BindResource says what a binding is for.
type BindResource struct {
	AppGUID string `json:"app_guid,omitempty"`
	Route   string `json:"route,omitempty"`
}

// MaintenanceInfo carries the version of a plan's maintenance_info.
type MaintenanceInfo struct {
	Version     string `json:"version"`
	Description string `json:"description,omitempty"`
}
