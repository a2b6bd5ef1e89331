package broker

import (
	"context"
	"encoding/json"
	"time"

	"github.com/ferry-broker/ferry/internal/lifecycle"
)

// The words that a backend and the lifecycle share.
type (
	// Look is what a look-up saw.
	Look = lifecycle.Look
	// Row is one service instance or service key.
	Row = lifecycle.Row
	// Answer is the reply to a call.
	Answer = lifecycle.Answer
	// JobStatus is the state of a job.
	JobStatus = lifecycle.JobStatus
	// Place says which Cloud Foundry, and which org of it.
	Place = lifecycle.Place
)

// Backend is one client's Cloud Foundry: its org, its login. No method does
// network I/O before it is called, none repeats a POST or PATCH, and none outlives
// its context. All may be called concurrently.
type Backend interface {
	Finder
	Caller
	Reader
	Inventory
}

// Inventory lists what carries our marks, for the audit (docs/protocol.md section 9).
type Inventory interface {
	// Marked returns every service instance of the org that carries this client's
	// marks, and every key of those that does. An error means that the list is not
	// complete, and nothing follows from it.
	Marked(ctx context.Context) ([]Marked, error)
}

// Marked is a row that carries our marks, with the OSB ids that it stands for.
type Marked struct {
	// Key is of the instance or the binding; its Client is empty.
	Key  Key
	GUID string
	// ByName is true when the key was read from the name of the row, or of the instance
	// of a key, because the row does not carry its id (rows of before, and keys of
	// Korifi). Names can be changed in Cloud Foundry, so that such a key may be of
	// nobody, or of another; the GUID is right whatever the row is called, and so is the
	// Operation but for keys of Korifi, whose name holds it.
	ByName bool
	// Operation and Seq are the marks.
	Operation string
	Seq       int64
}

// UserTexter is implemented by errors of a backend that have something to say to a
// platform's user (errors.As): one or two sentences without hosts, URLs or secrets, as
// "Cloud Foundry does not answer at the moment." Empty: nothing to say.
type UserTexter interface {
	error
	UserText() string
}

// RetryIn is implemented by errors of a backend that say how long to stay away
// (errors.As). Zero: they do not say.
type RetryIn interface {
	error
	RetryIn() time.Duration
}

// Finder looks things up. An error means unknown, never absent: absence is an
// empty Look, and only Cloud Foundry's own JSON (an empty list, or an error body
// with code 10010 or 60004) makes one, after a call that began later has shown that
// the login can see what it looked for (docs/protocol.md 3.2). Where a login
// does not see every space of its org, that needs the name of the offering: see
// WithOffering.
type Finder interface {
	// FindInstances returns every instance of this name in the org, whatever its space,
	// and the instances with these GUIDs, whatever they are called now and in whichever
	// space of the org they are. The GUIDs cost a call of their own only when one of them
	// is not among the rows of the name (docs/protocol.md 3.2).
	FindInstances(ctx context.Context, name string, guids ...string) (Look, error)
	// FindInstance returns the instance with this GUID, or an empty Look.
	FindInstance(ctx context.Context, guid string) (Look, error)
	// FindKeys returns the keys of the instance that stand for the binding, and the keys
	// with these GUIDs, whatever they are called now; their own call is as above.
	FindKeys(ctx context.Context, instanceGUID, name string, guids ...string) (Look, error)
	// Place returns where this backend looks and calls: the API's address and the GUID of
	// the org that the configuration names. It costs a call until the org is known. Every
	// Look carries the same.
	Place(ctx context.Context) (Place, error)
	// Same reports whether a recorded place is the one where this backend looks and
	// calls. It may name an address that the same Cloud Foundry had before, as the
	// configuration says. It makes no call: while the org is not known, nothing is the
	// same. The zero Place never is.
	Same(recorded Place) bool
	// ForeignKeys returns the names of the instance's keys that do not carry our
	// marks, for people who look for them after the instance was deleted.
	ForeignKeys(ctx context.Context, instanceGUID string) ([]string, error)
	// Job returns the state of a job. JobLost when Cloud Foundry does not know it,
	// JobUnclear (with the error for the log) when it did not say.
	Job(ctx context.Context, guid string) (JobStatus, error)
}

// Caller changes things. Each method sends at most one POST, PATCH or DELETE for
// the resource itself (a space or role made on the way is not counted) and says in
// Answer.Reply what became of it: ReplyUnknown for everything that is not definite
// (protocol.md 3.5). The error is for the log and may be nil or not with any
// reply; it never holds parameters or credentials. A failure before anything was
// sent for the resource (no login, no space, no org) is ReplyBusy when another try
// can help and ReplyRefused when it cannot.
type Caller interface {
	CreateInstance(ctx context.Context, c InstanceCall) (Answer, error)
	UpdateInstance(ctx context.Context, guid string, c InstanceCall) (Answer, error)
	DeleteInstance(ctx context.Context, guid string) (Answer, error)
	CreateKey(ctx context.Context, c KeyCall) (Answer, error)
	DeleteKey(ctx context.Context, guid string) (Answer, error)
}

// InstanceCall is what a POST or PATCH of a service instance needs.
type InstanceCall struct {
	// Name is the OSB instance id. Offering is the offering's name, which is also
	// the name of the space, made on demand.
	Name     string
	Offering string
	// PlanGUID is Cloud Foundry's; in an update empty means no change.
	PlanGUID string
	// Parameters are sent letter for letter; empty: the field is left out.
	Parameters json.RawMessage
	// MaintenanceVersion is sent in an update only; empty means no change.
	MaintenanceVersion string
	Marks              Marks
}

// KeyCall is what a POST of a service key needs.
type KeyCall struct {
	// Name is the OSB binding id.
	Name         string
	InstanceGUID string
	Parameters   json.RawMessage
	Marks        Marks
}

// Marks are written on what a call makes: the annotations ferry-operation and
// ferry-seq of a create, ferry-update of an update, and the label ferry-client.
type Marks struct {
	Client    string
	Operation string
	Seq       int64
}

// Reader reads what is handed on to platforms and never stored.
type Reader interface {
	// KeyDetails returns the credentials of a key; none where it has none. ErrNotFound
	// when Cloud Foundry says that the key is absent, ErrCredentials when what it has
	// cannot be handed on; any other error means: not now.
	KeyDetails(ctx context.Context, guid string) (KeyDetails, error)
	// InstanceParameters and KeyParameters return what the backing broker says now,
	// ErrNotRetrievable where it cannot be asked, ErrBusy while an operation runs, or
	// ErrNotFound when Cloud Foundry does not know the resource, which nothing has
	// confirmed. Any other error means that they are not told now.
	InstanceParameters(ctx context.Context, guid string) (json.RawMessage, error)
	KeyParameters(ctx context.Context, guid string) (json.RawMessage, error)
	// Marketplace returns the offerings and plans that the client's org sees.
	Marketplace(ctx context.Context) (Marketplace, error)
}

// KeyDetails are a key's secrets, byte for byte as Cloud Foundry sent them
// (numbers exact). They are handed to the platform and forgotten.
type KeyDetails struct {
	Credentials    json.RawMessage `json:"credentials,omitempty"`
	SyslogDrainURL string          `json:"syslog_drain_url,omitempty"`
	VolumeMounts   json.RawMessage `json:"volume_mounts,omitempty"`
	// RouteServiceURL and Endpoints are not in the details of today's service keys;
	// a Cloud Foundry that tells them is handed on.
	RouteServiceURL string          `json:"route_service_url,omitempty"`
	Endpoints       json.RawMessage `json:"endpoints,omitempty"`
}

// Marketplace is what a client's org sees, in Cloud Foundry's own words.
type Marketplace struct {
	Offerings []MarketOffering `json:"offerings"`
}

// MarketOffering is a service offering of Cloud Foundry.
type MarketOffering struct {
	GUID                 string          `json:"guid"`
	CatalogID            string          `json:"catalog_id"`
	Name                 string          `json:"name"`
	Description          string          `json:"description"`
	Tags                 []string        `json:"tags,omitempty"`
	Requires             []string        `json:"requires,omitempty"`
	Bindable             bool            `json:"bindable"`
	PlanUpdateable       bool            `json:"plan_updateable"`
	InstancesRetrievable bool            `json:"instances_retrievable"`
	BindingsRetrievable  bool            `json:"bindings_retrievable"`
	AllowContextUpdates  bool            `json:"allow_context_updates"`
	Shareable            bool            `json:"shareable,omitempty"`
	DocumentationURL     string          `json:"documentation_url,omitempty"`
	Metadata             json.RawMessage `json:"metadata,omitempty"`
	Plans                []MarketPlan    `json:"plans"`
}

// MarketPlan is a service plan of Cloud Foundry.
type MarketPlan struct {
	GUID                   string          `json:"guid"`
	CatalogID              string          `json:"catalog_id"`
	Name                   string          `json:"name"`
	Description            string          `json:"description"`
	Free                   bool            `json:"free"`
	Bindable               bool            `json:"bindable"`
	PlanUpdateable         bool            `json:"plan_updateable"`
	MaximumPollingDuration time.Duration   `json:"maximum_polling_duration,omitempty"`
	MaintenanceVersion     string          `json:"maintenance_version,omitempty"`
	MaintenanceDescription string          `json:"maintenance_description,omitempty"`
	Costs                  json.RawMessage `json:"costs,omitempty"`
	Metadata               json.RawMessage `json:"metadata,omitempty"`
	// Schemas are the three parameter schemas, each empty or a JSON object.
	CreateSchema json.RawMessage `json:"create_schema,omitempty"`
	UpdateSchema json.RawMessage `json:"update_schema,omitempty"`
	BindSchema   json.RawMessage `json:"bind_schema,omitempty"`
}
