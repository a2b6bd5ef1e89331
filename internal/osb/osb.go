// Package osb holds the Open Service Broker API 2.17 as it stands on the wire: request and response bodies, error
// words, header names. It has no behaviour beyond encoding.
package osb

import (
	"encoding/json"
)

// The headers that the specification names, spelled as net/http keeps them, so that a look-up does not have to spell
// them anew. HTTP does not mind the case; in texts for people it is VersionName.
const (
	VersionHeader             = "X-Broker-Api-Version"
	OriginatingIdentityHeader = "X-Broker-Api-Originating-Identity"
	RequestIdentityHeader     = "X-Broker-Api-Request-Identity"
	APIInfoLocationHeader     = "X-Api-Info-Location"

	VersionName = "X-Broker-API-Version"
)

// ProvisionRequest is the body of PUT /v2/service_instances/:instance_id (spec "Provisioning").
type ProvisionRequest struct {
	ServiceID        string           `json:"service_id"`
	PlanID           string           `json:"plan_id"`
	OrganizationGUID string           `json:"organization_guid"`
	SpaceGUID        string           `json:"space_guid"`
	Context          json.RawMessage  `json:"context,omitempty"`
	Parameters       json.RawMessage  `json:"parameters,omitempty"`
	MaintenanceInfo  *MaintenanceInfo `json:"maintenance_info,omitempty"`
}

// UpdateRequest is the body of PATCH /v2/service_instances/:instance_id (spec "Updating a Service Instance").
type UpdateRequest struct {
	ServiceID       string           `json:"service_id"`
	PlanID          string           `json:"plan_id,omitempty"`
	Context         json.RawMessage  `json:"context,omitempty"`
	Parameters      json.RawMessage  `json:"parameters,omitempty"`
	MaintenanceInfo *MaintenanceInfo `json:"maintenance_info,omitempty"`
	// PreviousValues is accepted and never judged (docs/osb-choices.md).
	PreviousValues json.RawMessage `json:"previous_values,omitempty"`
}

// BindRequest is the body of PUT …/service_bindings/:binding_id (spec "Binding" and "Binding Rotation").
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

// InstanceResponse is the body of a successful provision, update or deprovision. Zero fields are left out, so an empty
// one encodes as {}.
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

// BindingResponse is the body of a bind or of a fetched binding. A 202 carries the operation alone.
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

// OperationState is the state of a last operation.
type OperationState string

// The three states of spec "Polling Last Operation".
const (
	InProgress OperationState = "in progress"
	Succeeded  OperationState = "succeeded"
	Failed     OperationState = "failed"
)

// Error is the body of every refusal (spec "Service Broker Errors").
type Error struct {
	Error            string `json:"error,omitempty"`
	Description      string `json:"description,omitempty"`
	InstanceUsable   *bool  `json:"instance_usable,omitempty"`
	UpdateRepeatable *bool  `json:"update_repeatable,omitempty"`
	// Details is ours: what the reserved description cannot say.
	Details string `json:"ferry_details,omitempty"`
}

// The reserved error words.
const (
	AsyncRequired           = "AsyncRequired"
	ConcurrencyError        = "ConcurrencyError"
	RequiresApp             = "RequiresApp"
	MaintenanceInfoConflict = "MaintenanceInfoConflict"
)

// The descriptions of three reserved words, letter for letter: the Kubernetes client recognises the errors by word and
// description together.
const (
	AsyncRequiredDescription    = "This service plan requires client support for asynchronous service operations."
	RequiresAppDescription      = "This service supports generation of credentials through binding an application only."
	ConcurrencyErrorDescription = "The Service Broker does not support concurrent requests that mutate the same resource."
)
