package broker

import (
	"encoding/json"
	"errors"
	"strings"
	"time"

	"github.com/ferry-broker/ferry/internal/canon"
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

// Key names a record. IDs are opaque bytes chosen by platforms (any UTF-8 or not,
// '#' and '/' included) and are compared byte for byte.
type Key struct {
	// Client is the configured client's name, [a-z0-9-]{1,40}.
	Client     string
	InstanceID string
	// BindingID is empty for the record of a service instance.
	BindingID string
}

// Instance returns the key of the service instance that k belongs to.
func (k Key) Instance() Key { return Key{Client: k.Client, InstanceID: k.InstanceID} }

// Kind says whether k names an instance or a binding.
func (k Key) Kind() lifecycle.Kind {
	if k.BindingID == "" {
		return lifecycle.Instance
	}
	return lifecycle.Binding
}

// sketch is what a request says of itself before any salt is known: the parts that
// "same" compares, in canonical form.
type sketch struct {
	serviceID, planID string
	// parameters in canonical form; nil for absent, null and {}.
	parameters []byte
	// owner in canonical form: who the thing is for.
	owner         []byte
	predecessorID string
}

// attributes turns the sketch into what a record with this salt keeps of it.
func (s sketch) attributes(salt []byte) Attributes {
	a := Attributes{ServiceID: s.serviceID, PlanID: s.planID, PredecessorID: s.predecessorID}
	a.Parameters = digest(salt, s.parameters)
	a.Owner = digest(salt, s.owner)
	return a
}

// same compares with the attributes in force. Names, annotations, identities and
// maintenance_info never count.
func (s sketch) same(r Record) bool {
	a, b := s.attributes(r.Salt), r.Attributes
	if s.predecessorID != "" && r.Key.BindingID != "" { // a rotation may leave them out
		a.ServiceID, a.PlanID = or(a.ServiceID, b.ServiceID), or(a.PlanID, b.PlanID)
	}
	return a.ServiceID == b.ServiceID && a.PlanID == b.PlanID && a.Parameters == b.Parameters &&
		a.Owner == b.Owner && a.PredecessorID == b.PredecessorID
}

func digest(salt, canonical []byte) string {
	if len(canonical) == 0 {
		return ""
	}
	return canon.Digest(salt, canonical)
}

// canonicalParameters returns the canonical form, or a refusal that names what is
// wrong without showing any value.
func canonicalParameters(raw json.RawMessage) ([]byte, error) {
	canonical, err := canon.Parameters(raw)
	if errors.Is(err, canon.ErrNotObject) {
		return nil, refuse(CodeBadRequest, "parameters must be a JSON object.")
	}
	if err != nil {
		return nil, refuse(CodeBadRequest, "parameters: %v. Correct the JSON and send the request again.", err)
	}
	return canonical, nil
}

// owner is the canonical form of whom an instance is made for. A Kubernetes
// cluster id may change over time, so its namespace stands for it.
func owner(q osb.ProvisionRequest) []byte {
	var c struct{ Platform, Namespace string }
	if json.Unmarshal(q.Context, &c) == nil && strings.EqualFold(c.Platform, "kubernetes") {
		return words("kubernetes", c.Namespace, q.SpaceGUID)
	}
	return words(q.OrganizationGUID, q.SpaceGUID)
}

// purpose is the canonical form of what a binding is made for; nil for nothing.
func purpose(q osb.BindRequest) []byte {
	app, route := q.AppGUID, ""
	if q.BindResource != nil {
		route = q.BindResource.Route
		if q.BindResource.AppGUID != "" {
			app = q.BindResource.AppGUID
		}
	}
	if app == "" && route == "" {
		return nil
	}
	return words(app, route)
}

// words joins strings so that different lists never look alike.
func words(list ...string) []byte {
	out, _ := json.Marshal(list) // strings always encode
	return out
}
