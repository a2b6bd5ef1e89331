package osb

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

// The descriptions of three reserved words, letter for letter: the Kubernetes
// client recognises the errors by word and description together.
const (
	AsyncRequiredDescription    = "This service plan requires client support for asynchronous service operations."
	RequiresAppDescription      = "This service supports generation of credentials through binding an application only."
	ConcurrencyErrorDescription = "The Service Broker does not support concurrent requests that mutate the same resource."
)
