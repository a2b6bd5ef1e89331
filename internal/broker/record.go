package broker

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/ferry-broker/ferry/internal/canon"
	"github.com/ferry-broker/ferry/internal/lifecycle"
	"github.com/ferry-broker/ferry/internal/osb"
)

// Key names a record. IDs are opaque bytes chosen by platforms (any UTF-8 or not, '#' and '/' included) and are
// compared byte for byte.
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

// Record is one stored item: a service instance or a service binding.
type Record struct {
	Key Key `json:"key"`
	// Revision rises by one at every write; 0 is a record that was never stored.
	Revision int64 `json:"revision"`
	// Token is made anew for every write, so that a write repeated below us (its answer was lost) recognises itself in
	// what is stored.
	Token     string           `json:"token,omitempty"`
	Lifecycle lifecycle.Record `json:"lifecycle"`
	// Attributes are those now in force; Target those that a running update leads to.
	Attributes Attributes  `json:"attributes,omitzero"`
	Target     *Attributes `json:"target,omitempty"`
	// Salt keys the digests of this record.
	Salt []byte `json:"salt,omitempty"`
	// Parameters of the running create, update or bind, letter for letter as they came, until Cloud Foundry accepted
	// them. Once a write has dropped them, no read of the store returns them and no record holds them
	// (docs/adr/0019-one-promise-for-parameters.md).
	Parameters json.RawMessage `json:"parameters,omitempty"`
	// Inherited says whether a binding has its parameters from its predecessor; they themselves are not kept.
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

// Expired reports whether the record is a tombstone or ghost past its time.
func (r Record) Expired(now time.Time) bool {
	at := r.Lifecycle.ExpiresAt
	return !at.IsZero() && !now.Before(at)
}

// Due is when the operation of the record counts as overdue; zero when none runs. Stores keep it in their sparse index.
func (r Record) Due() time.Time {
	if !r.Lifecycle.State.Busy() {
		return time.Time{}
	}
	return r.Lifecycle.Operation.Due
}

// Attributes are what "same" compares, and what a call needs.
type Attributes struct {
	ServiceID string `json:"service_id,omitempty"`
	PlanID    string `json:"plan_id,omitempty"`
	// OfferingName is the name of the space; PlanGUID the plan's last known GUID in Cloud Foundry, for when the plan
	// has left the catalog.
	OfferingName string `json:"offering_name,omitempty"`
	PlanGUID     string `json:"plan_guid,omitempty"`
	// Parameters is the salted digest of the canonical parameters, empty for none.
	Parameters string `json:"parameters,omitempty"`
	// Owner is the salted digest of organization and space (for kubernetes: of the namespace), or for a binding of app,
	// route and predecessor.
	Owner              string `json:"owner,omitempty"`
	MaintenanceVersion string `json:"maintenance_version,omitempty"`
	PredecessorID      string `json:"predecessor_id,omitempty"`
}

// Inheritance is what a binding took over from its predecessor. It is empty for one without a predecessor, and for
// successors of before this was recorded.
type Inheritance string

// What a successor can have taken over.
const (
	InheritedNothing    Inheritance = "nothing"
	InheritedParameters Inheritance = "parameters"
)

// asked is what a request asks for, before any salt is known: the parts that "same" compares, in canonical form.
type asked struct {
	serviceID, planID string
	// parameters in canonical form; nil for absent, null and {}.
	parameters []byte
	// owner in canonical form: who the thing is for.
	owner         []byte
	predecessorID string
}

// attributes is what a record with this salt keeps of it.
func (q asked) attributes(salt []byte) Attributes {
	a := Attributes{ServiceID: q.serviceID, PlanID: q.planID, PredecessorID: q.predecessorID}
	a.Parameters = digest(salt, q.parameters)
	a.Owner = digest(salt, q.owner)
	return a
}

// same compares with the attributes in force. Names, annotations, identities and maintenance_info never count. What
// costs nothing comes first: a record that says no there, as one that is absent does, needs no digests.
func (q asked) same(r Record) bool {
	b := r.Attributes
	if q.predecessorID != "" && r.Key.BindingID != "" { // a rotation may leave them out
		q.serviceID, q.planID = or(q.serviceID, b.ServiceID), or(q.planID, b.PlanID)
	}
	return q.serviceID == b.ServiceID && q.planID == b.PlanID && q.predecessorID == b.PredecessorID &&
		digest(r.Salt, q.parameters) == b.Parameters && digest(r.Salt, q.owner) == b.Owner
}

func digest(salt, canonical []byte) string {
	if len(canonical) == 0 {
		return ""
	}
	return canon.Digest(salt, canonical)
}

// canonicalParameters returns the canonical form, or a refusal that names what is wrong without showing any value.
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

// owner is the canonical form of whom an instance is made for. A Kubernetes cluster id may change over time, so its
// namespace stands for it.
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

// records reads and writes the store for requests and drivers.
type records struct {
	store  Store
	random random
}

// read returns the record, or an empty one for an id that has none. Its errors answer a request.
func (r records) read(ctx context.Context, key Key) (Record, error) {
	rec, err := r.store.Get(ctx, key)
	if errors.Is(err, ErrNotFound) {
		return absent(key), nil
	}
	if err != nil && ctx.Err() != nil {
		return Record{}, late(err) // the store may well be there
	}
	if err != nil {
		return Record{}, unavailable(err)
	}
	return rec, nil
}

func absent(key Key) Record {
	return Record{Key: key, Lifecycle: lifecycle.Record{Kind: key.Kind()}}
}

// getAll reads the records of the map's keys into it.
func (r records) getAll(ctx context.Context, into map[Key]Got) error {
	if len(into) == 0 {
		return nil
	}
	keys := slices.Collect(maps.Keys(into))
	got, err := r.store.GetAll(ctx, keys)
	if err != nil {
		return err
	}
	for i, key := range keys {
		into[key] = got[i]
	}
	return nil
}

// instanceView reads what a binding must know of its instance.
func (r records) instanceView(ctx context.Context, binding Key) (lifecycle.InstanceView, error) {
	rec, err := r.read(ctx, binding.Instance())
	return view(rec), err
}

func view(instance Record) lifecycle.InstanceView {
	l := instance.Lifecycle
	return lifecycle.InstanceView{State: l.State, CreateOp: l.CreateOp.ID, CFGUID: l.CFGUID, Offering: instance.Attributes.OfferingName}
}

// put writes the record under a new token, on condition of the revision, and reports whether that was won; else it
// returns what is stored now. A write that was repeated below us, or whose answer was lost, recognises its token in
// what is stored.
func (r records) put(ctx context.Context, next Record, revision int64) (Record, bool, error) {
	stored, won, _, err := r.write(ctx, next, revision)
	return stored, won, err
}

// write is put that also says whether the answer to the write was lost: the record that it then returns was read
// afterwards.
func (r records) write(ctx context.Context, next Record, revision int64) (_ Record, won, lost bool, _ error) {
	token, err := r.random.token()
	if err != nil {
		return Record{}, false, false, err
	}
	next.Token = token
	stored, err := r.store.Put(ctx, next, revision)
	switch {
	case err == nil:
		return stored, true, false, nil
	case errors.Is(err, ErrConflict):
		if stored.Revision == 0 {
			stored = absent(next.Key)
		}
		return stored, stored.Token == token, false, nil
	case errors.Is(err, ErrTooLarge):
		return Record{}, false, false, err
	}
	stored, won, err = r.verify(ctx, next, revision, err)
	return stored, won, true, err
}

// verify looks whether a write happened whose answer was lost. While the revision has not moved, it may still happen.
func (r records) verify(ctx context.Context, next Record, revision int64, cause error) (Record, bool, error) {
	stored, err := r.store.Get(ctx, next.Key)
	if err != nil || stored.Revision <= revision {
		return Record{}, false, cause
	}
	return stored, stored.Token == next.Token, nil
}
