package osb

import "encoding/json"

// Catalog is the body of GET /v2/catalog (spec "Catalog Management").
type Catalog struct {
	Services []ServiceOffering `json:"services"`
}

// ServiceOffering is one service of a catalog.
type ServiceOffering struct {
	ID                   string           `json:"id"`
	Name                 string           `json:"name"`
	Description          string           `json:"description"`
	Tags                 []string         `json:"tags,omitempty"`
	Requires             []string         `json:"requires,omitempty"`
	Bindable             bool             `json:"bindable"`
	InstancesRetrievable bool             `json:"instances_retrievable"`
	BindingsRetrievable  bool             `json:"bindings_retrievable"`
	AllowContextUpdates  bool             `json:"allow_context_updates"`
	PlanUpdateable       bool             `json:"plan_updateable"`
	Metadata             json.RawMessage  `json:"metadata,omitempty"`
	DashboardClient      *DashboardClient `json:"dashboard_client,omitempty"`
	Plans                []ServicePlan    `json:"plans"`
}

// DashboardClient is Cloud Foundry's single sign-on client of an offering.
type DashboardClient struct {
	ID          string `json:"id"`
	Secret      string `json:"secret"`
	RedirectURI string `json:"redirect_uri,omitempty"`
}

// ServicePlan is one plan of an offering. MaximumPollingDuration is in seconds.
type ServicePlan struct {
	ID                     string           `json:"id"`
	Name                   string           `json:"name"`
	Description            string           `json:"description"`
	Metadata               json.RawMessage  `json:"metadata,omitempty"`
	Free                   bool             `json:"free"`
	Bindable               bool             `json:"bindable"`
	PlanUpdateable         bool             `json:"plan_updateable"`
	BindingRotatable       bool             `json:"binding_rotatable,omitempty"`
	Schemas                *Schemas         `json:"schemas,omitempty"`
	MaximumPollingDuration int64            `json:"maximum_polling_duration,omitempty"`
	MaintenanceInfo        *MaintenanceInfo `json:"maintenance_info,omitempty"`
}

// Schemas are the parameter schemas of a plan.
type Schemas struct {
	ServiceInstance *InstanceSchemas `json:"service_instance,omitempty"`
	ServiceBinding  *BindingSchemas  `json:"service_binding,omitempty"`
}

// InstanceSchemas are the schemas of a plan's instances.
type InstanceSchemas struct {
	Create *InputParameters `json:"create,omitempty"`
	Update *InputParameters `json:"update,omitempty"`
}

// BindingSchemas are the schemas of a plan's bindings.
type BindingSchemas struct {
	Create *InputParameters `json:"create,omitempty"`
}

// InputParameters holds one JSON schema.
type InputParameters struct {
	Parameters json.RawMessage `json:"parameters"`
}
