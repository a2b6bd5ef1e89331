package osb

import "encoding/json"

// OperationState is the state of a last operation.
type OperationState string

// The three states of spec "Polling Last Operation".
const (
	InProgress OperationState = "in progress"
	Succeeded  OperationState = "succeeded"
	Failed     OperationState = "failed"
)

// InstanceResponse is the body of a successful provision, update or deprovision.
// Zero fields are left out, so an empty one encodes as {}.
type InstanceResponse struct {
	DashboardURL string            `json:"dashboard_url,omitempty"`
	Operation    string            `json:"operation,omitempty"`
	Metadata     *InstanceMetadata `json:"metadata,omitempty"`
}

// InstanceMetadata is OSB 2.16's metadata of a service instance.
type InstanceMetadata struct {
	Labels     map[string]string `json:"labels,omitempty"`
	Attributes map[string]string `json:"attributes,omitempty"`
}

// BindingResponse is the body of a bind or of a fetched binding. A 202 carries the
// operation alone.
type BindingResponse struct {
	Operation       string          `json:"operation,omitempty"`
	Credentials     json.RawMessage `json:"credentials,omitempty"`
	SyslogDrainURL  string          `json:"syslog_drain_url,omitempty"`
	VolumeMounts    json.RawMessage `json:"volume_mounts,omitempty"`
	RouteServiceURL string          `json:"route_service_url,omitempty"`
	Endpoints       json.RawMessage `json:"endpoints,omitempty"`
	Parameters      json.RawMessage `json:"parameters,omitempty"`
}

// FetchedInstance is the body of GET /v2/service_instances/:instance_id.
type FetchedInstance struct {
	ServiceID       string            `json:"service_id"`
	PlanID          string            `json:"plan_id"`
	DashboardURL    string            `json:"dashboard_url,omitempty"`
	Parameters      json.RawMessage   `json:"parameters,omitempty"`
	MaintenanceInfo *MaintenanceInfo  `json:"maintenance_info,omitempty"`
	Metadata        *InstanceMetadata `json:"metadata,omitempty"`
}

// LastOperation is the body of a last_operation answer.
type LastOperation struct {
	State            OperationState `json:"state"`
	Description      string         `json:"description,omitempty"`
	InstanceUsable   *bool          `json:"instance_usable,omitempty"`
	UpdateRepeatable *bool          `json:"update_repeatable,omitempty"`
}
