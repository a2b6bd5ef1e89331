package broker

import (
	"encoding/json"
	"time"

	"github.com/ferry-broker/ferry/internal/lifecycle"
	"github.com/ferry-broker/ferry/internal/osb"
)

// Record is one stored item: a service instance or a service binding.
type Record struct {
	Key Key `json:"key"`
	// Revision rises by one at every write; 0 is a record that was never stored.
	Revision int64 `json:"revision"`
	// Token is made anew for every write, so that a write repeated below us (its
	// answer was lost) recognises itself in what is stored.
	Token     string           `json:"token,omitempty"`
	Lifecycle lifecycle.Record `json:"lifecycle"`
	// Attributes are those now in force; Target those that a running update leads to.
	Attributes Attributes  `json:"attributes,omitzero"`
	Target     *Attributes `json:"target,omitempty"`
	// Salt keys the digests of this record.
	Salt []byte `json:"salt,omitempty"`
	// Parameters of the running create, update or bind, letter for letter as they
	// came, until Cloud Foundry accepted them. A store must not leave them
	// recoverable once a write dropped them.
	Parameters json.RawMessage `json:"parameters,omitempty"`
	// Inherited says whether a binding has its parameters from its predecessor; they
	// themselves are not kept.
	Inherited Inheritance     `json:"inherited,omitempty"`
	Context   json.RawMessage `json:"context,omitempty"`
	// OriginatingIdentity is the header of the last accepted operation, as it came.
	OriginatingIdentity string `json:"originating_identity,omitempty"`
	// APIInfoLocation is that platform's X-Api-Info-Location, as it came.
	APIInfoLocation string `json:"api_info_location,omitempty"`
	DashboardURL    string `json:"dashboard_url,omitempty"`
	// Metadata are the backing broker's labels and attributes of an instance.
	Metadata *osb.InstanceMetadata `json:"metadata,omitempty"`
}

// Inheritance is what a binding took over from its predecessor. It is empty for one
// without a predecessor, and for successors of before this was recorded.
type Inheritance string

// What a successor can have taken over.
const (
	InheritedNothing    Inheritance = "nothing"
	InheritedParameters Inheritance = "parameters"
)

// Attributes are what "same" compares, and what a call needs.
type Attributes struct {
	ServiceID string `json:"service_id,omitempty"`
	PlanID    string `json:"plan_id,omitempty"`
	// OfferingName is the name of the space; PlanGUID the plan's last known GUID in
	// Cloud Foundry, for when the plan has left the catalog.
	OfferingName string `json:"offering_name,omitempty"`
	PlanGUID     string `json:"plan_guid,omitempty"`
	// Parameters is the salted digest of the canonical parameters, empty for none.
	Parameters string `json:"parameters,omitempty"`
	// Owner is the salted digest of organization and space (for kubernetes: of the
	// namespace), or for a binding of app, route and predecessor.
	Owner              string `json:"owner,omitempty"`
	MaintenanceVersion string `json:"maintenance_version,omitempty"`
	PredecessorID      string `json:"predecessor_id,omitempty"`
}

// Expired reports whether the record is a tombstone or ghost past its time.
func (r Record) Expired(now time.Time) bool {
	at := r.Lifecycle.ExpiresAt
	return !at.IsZero() && !now.Before(at)
}

// Due is when the operation of the record counts as overdue; zero when none runs.
// Stores keep it in their sparse index.
func (r Record) Due() time.Time {
	if !r.Lifecycle.State.Busy() {
		return time.Time{}
	}
	return r.Lifecycle.Operation.Due
}
