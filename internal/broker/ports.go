package broker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/ferry-broker/ferry/internal/lifecycle"
)

// Store keeps records. All its reads are strongly consistent, all its writes touch one record, and writes on one record
// are linearizable. It may be called by any number of goroutines and, where several processes share it, by all of them.
type Store interface {
	// Get returns the record, or ErrNotFound for one that was never stored or has expired, however late the store
	// deletes it.
	Get(ctx context.Context, key Key) (Record, error)
	// GetAll returns for each of the keys, in their order, what Get would return during this call; it is no snapshot of
	// them all. The keys are distinct, and as many as the caller likes. Its error says that the store did not answer;
	// then nothing is known of any.
	GetAll(ctx context.Context, keys []Key) ([]Got, error)
	// Put stores record with Revision revision+1 on condition that the stored one (absent and expired count as 0) has
	// the given revision, and returns what it stored. When it returns nil the record is durable. Refused: the record
	// now stored (its Revision is 0 when there is none) and ErrConflict. Any other error leaves open whether the write
	// happened. An expired record that Put writes over is gone as if it had never been.
	Put(ctx context.Context, record Record, revision int64) (Record, error)
	// Bindings returns the unexpired records of the instance's bindings, in no order.
	Bindings(ctx context.Context, instance Key) ([]Record, error)
	// Unfinished returns up to limit operations whose Due is not after due, oldest first. It begins behind the page
	// whose Next is given as after; "" begins with the oldest. An operation that stays due at the same time meanwhile
	// is on exactly one page, whatever becomes of those before it. It may lag behind: callers read the record again
	// before they act.
	Unfinished(ctx context.Context, due time.Time, after string, limit int) (UnfinishedPage, error)
}

// Got is what Store.GetAll knows of one key: a record, or the error that Get would return.
type Got struct {
	Record Record
	Err    error
}

// UnfinishedPage is a part of what Store.Unfinished lists.
type UnfinishedPage struct {
	Operations []Unfinished
	// Next is where the following page begins, in the words of the store; empty when nothing followed. The last page
	// may be an empty one.
	Next string
	// Unreadable counts what the store passed over on this page because it could not read it, and Fault is why, for the
	// first of them. They are unfinished as well.
	Unreadable int
	Fault      error
}

// Unfinished names an operation that runs.
type Unfinished struct {
	Key       Key
	Operation string
	Due       time.Time
}

// What a store may answer besides faults of its own.
var (
	// ErrNotFound: there is no such record.
	ErrNotFound = errors.New("no such record")
	// ErrConflict: the stored revision is another one.
	ErrConflict = errors.New("the stored revision is another one")
	// ErrTooLarge: the record exceeds what the store can keep; nothing was written.
	ErrTooLarge = errors.New("the record is too large for the store")
)

// LimitError is ErrTooLarge (errors.Is) with the limit.
type LimitError struct{ Bytes int }

// Error names the limit.
func (e *LimitError) Error() string {
	return fmt.Sprintf("the record is larger than the %d bytes that the store can keep", e.Bytes)
}

// Unwrap returns ErrTooLarge.
func (e *LimitError) Unwrap() error { return ErrTooLarge }

// AuditStore keeps when each client's last audit was completed. Like Store, it is strongly consistent, and may be
// called concurrently.
type AuditStore interface {
	// LastAudit returns when the client's last audit was completed; the zero time when none ever was.
	LastAudit(ctx context.Context, client string) (time.Time, error)
	// PutLastAudit stores that one was completed; when it returns nil that is durable. A time before the stored one
	// changes nothing.
	PutLastAudit(ctx context.Context, client string, at time.Time) error
}

// RoundStore keeps a note of the last round of Broker.Sweep. Like Store, it is strongly consistent, and may be called
// concurrently.
type RoundStore interface {
	// LastRound returns the note of the last round; the zero note when there never was one.
	LastRound(ctx context.Context) (RoundNote, error)
	// PutRound stores the note of a round that has listed what is due. A note of a round that began before the stored
	// one changes nothing.
	PutRound(ctx context.Context, note RoundNote) error
}

// RoundNote says when rounds look, for drivers that would leave an operation to them.
type RoundNote struct {
	Began time.Time
	// Repeats: it lists what is due again and again, until its time is over.
	Repeats bool
}

// roundsMayBeLate is how long after its minute a round may begin.
const roundsMayBeLate = 15 * time.Second

// NextLook returns how long it takes until a round looks for what is due, and false when that is not known, because
// rounds do not seem to come. every is how often a round that repeats lists what is due.
func (n RoundNote) NextLook(now time.Time, every time.Duration) (time.Duration, bool) {
	next := n.Began.Add(RoundEvery).Sub(now)
	if n.Began.IsZero() || n.Began.After(now) || next < -roundsMayBeLate {
		return 0, false
	}
	if next = max(0, next); n.Repeats {
		next = min(next, every)
	}
	return next, true
}

// CatalogStore keeps the last good catalog of each client.
type CatalogStore interface {
	// Catalog returns the stored catalog of the client, or ErrNotFound.
	Catalog(ctx context.Context, client string) (StoredCatalog, error)
	// PutCatalog stores c on condition of the revision, as Store.Put does. A reader never sees a half-written catalog.
	PutCatalog(ctx context.Context, c StoredCatalog, revision int64) (StoredCatalog, error)
}

// StoredCatalog is a client's marketplace as it was fetched.
type StoredCatalog struct {
	Client   string    `json:"client"`
	Revision int64     `json:"revision"`
	Fetched  time.Time `json:"fetched"`
	// Body is the JSON of a Marketplace. A store may compress or split it.
	Body []byte `json:"body"`
}

// Catalog answers for the catalogs of all clients. It may be called by any number of goroutines. What it returns is a
// value that nobody changes; a refresh between two calls may make their answers differ, so whoever asks twice can get
// two catalogs.
type Catalog interface {
	// Plan returns the plan of that offering. It never waits for Cloud Foundry when a catalog is known, however old.
	// ErrUnknownPlan (errors.Is) when the catalog is known and has no such plan in such an offering; the error's text
	// says which of the two is unknown. Another error: no catalog is known yet.
	Plan(ctx context.Context, client, serviceID, planID string) (Plan, error)
	// PlanOf returns the plan that has this GUID in Cloud Foundry, under the terms of Plan.
	PlanOf(ctx context.Context, client, planGUID string) (Plan, error)
	// Ready reports whether Plan can answer for the client at once, from memory.
	Ready(client string) bool
	// CheckParameters returns nil when the plan publishes no schema for this use, or the parameters satisfy it; else an
	// error made for users that names the JSON pointer and the rule, never a value. It answers from what is known,
	// never waits for Cloud Foundry, and is bounded in time and memory whatever schema and parameters are like.
	CheckParameters(ctx context.Context, q ParametersQuery) error
	// Refresh reads the client's marketplace from Cloud Foundry and returns when the catalog is the new one, or why the
	// old one stays.
	Refresh(ctx context.Context, client string) error
}

// Plan is what the use cases know of a plan of a client's catalog.
type Plan struct {
	ServiceID, PlanID      string
	OfferingName, PlanName string
	PlanGUID               string
	Bindable               bool
	BindingRotatable       bool
	PlanUpdateable         bool
	InstancesRetrievable   bool
	BindingsRetrievable    bool
	AllowContextUpdates    bool
	MaintenanceVersion     string
	// MaximumPollingDuration is 0 when the plan names none.
	MaximumPollingDuration time.Duration
}

// ParametersQuery are parameters on their way to a plan.
type ParametersQuery struct {
	Client, ServiceID, PlanID string
	// Kind and Verb choose the schema: an instance's create or update, or a binding's create.
	Kind lifecycle.Kind
	Verb lifecycle.Verb
	// Parameters as they came; empty counts as {} for a create and a bind. An update without parameters is not asked
	// about.
	Parameters json.RawMessage
}

// ErrUnknownPlan says that the catalog has no such plan in such an offering.
var ErrUnknownPlan = errors.New("the plan is not in the catalog")

// ErrNoCatalog says that no catalog is known yet, because Cloud Foundry was never reached.
var ErrNoCatalog = errors.New("no catalog is known yet")

// Workflow drives operations: it calls Broker.Advance again and again until the step says done.
type Workflow interface {
	// Start begins to drive an operation, once the first delay is over. "Already started" is success. An error means
	// that it may not have started; the operation is stored, so the janitor will find it.
	Start(ctx context.Context, start Start) error
}

// Start names the operation to drive.
type Start struct {
	Key       Key
	Operation string
	// Restart is 0 for the first start and the stored number of a restart later.
	Restart int
	// Delay is how long the first tick waits.
	Delay time.Duration
}

// ErrStopping is what Start returns when its process is stopping: whoever opens the store next goes on with the
// operation.
var ErrStopping = errors.New("the process is stopping")

// Advancer does one step of one operation. Broker implements it; workflows call it.
type Advancer interface {
	// Advance does one tick of the operation. An error means that nothing is known to have changed and that the caller
	// tries again after a pause.
	Advance(ctx context.Context, key Key, operation string) (Step, error)
}

// CrowdAdvancer does one step of many operations. Broker implements it.
type CrowdAdvancer interface {
	// AdvanceAll does one tick of each of the operations, which are all of one client, side by side, and returns when
	// all have ended. What they look for in Cloud Foundry is asked together. It calls ended once for each operation,
	// with its index and what Advance would return, as soon as its tick is over, from any goroutine. A tick that panics
	// ends with an error, a *PanicError.
	AdvanceAll(ctx context.Context, operations []Unfinished, ended func(i int, step Step, err error))
}

// Step is what a tick left to do.
type Step struct {
	// Done: the operation has ended, or is not the current one any more.
	Done bool
	// Wait is how long to wait before the next tick.
	Wait time.Duration
}

// Backend is one client's Cloud Foundry: its org, its login. No method does network I/O before it is called, none
// repeats a POST or PATCH, and none outlives its context. All may be called concurrently.
//
// It is wide because it is one thing. What a call has made is found again by a look-up, through the same login, the
// same limiter, the same names and marks, and the same knowledge of the place; whoever implements one of the methods
// has what the others need, and nobody calls a part of them alone. A test that needs another answer of one method
// embeds a Backend and overrides that.
type Backend interface {
	// Look-ups. An error means unknown, never absent: absence is an empty Look, and only Cloud Foundry's own JSON (an
	// empty list, or an error body with code 10010 or 60004) makes one, after a call that began later has shown that
	// the login can see what it looked for (docs/protocol.md 3.2). Where a login does not see every space of its org,
	// that needs the name of the offering.

	// Look-ups at the same time share lists, which may name many of them. Every list that a look-up takes its rows from
	// begins after the look-up was called (docs/protocol.md 3.9), and so after Look.Began. The error of a shared list
	// is the error of all who share it. A look-up whose context ends returns at once. Alone, a look-up costs what is
	// said below.

	// FindInstances returns every instance of the name in the org, whatever its space, and the instances with the
	// GUIDs, whatever they are called now and in whichever space of the org they are. The GUIDs cost a call of their
	// own only when one of them is not among the rows of the name (docs/protocol.md 3.2).
	FindInstances(ctx context.Context, q Lookup) (Look, error)
	// FindInstance returns the instance with this GUID, or an empty Look. The offering is as in a Lookup.
	FindInstance(ctx context.Context, guid, offering string) (Look, error)
	// FindKeys returns the keys of the instance that stand for the binding, and the keys with the GUIDs, whatever they
	// are called now; their own call is as above.
	FindKeys(ctx context.Context, q Lookup) (Look, error)
	// Job returns the state of a job. JobLost when Cloud Foundry does not know it, JobUnclear (with the error for the
	// log) when it did not say.
	Job(ctx context.Context, guid string) (JobStatus, error)
	// ForeignKeys returns the names of the instance's keys that do not carry our marks, for people who look for them
	// after the instance was deleted.
	ForeignKeys(ctx context.Context, instanceGUID string) ([]string, error)
	// Marked returns every service instance of the org that carries this client's marks, and every key of those that
	// does, for the audit (docs/protocol.md section 9). An error means that the list is not complete, and nothing
	// follows from it.
	Marked(ctx context.Context) ([]Marked, error)

	// Place returns where this backend looks and calls: the API's address and the GUID of the org that the
	// configuration names. It costs a call until the org is known. Every Look carries the same.
	Place(ctx context.Context) (Place, error)
	// Same reports whether a recorded place is the one where this backend looks and calls. It may name an address that
	// the same Cloud Foundry had before, as the configuration says. It makes no call: while the org is not known,
	// nothing is the same. The zero Place never is.
	Same(recorded Place) bool

	// Calls. Each sends at most one POST, PATCH or DELETE for the resource itself (a space or role made on the way is
	// not counted) and says in Answer.Reply what became of it: ReplyUnknown for everything that is not definite
	// (docs/protocol.md 3.5). The error is for the log and may be nil or not with any reply; it never holds parameters
	// or credentials. A failure before anything was sent for the resource (no login, no space, no org) is ReplyBusy
	// when another try can help and ReplyRefused when it cannot.

	CreateInstance(ctx context.Context, c InstanceCall) (Answer, error)
	UpdateInstance(ctx context.Context, guid string, c InstanceCall) (Answer, error)
	DeleteInstance(ctx context.Context, guid string) (Answer, error)
	CreateKey(ctx context.Context, c KeyCall) (Answer, error)
	DeleteKey(ctx context.Context, guid string) (Answer, error)

	// Reads of what is handed on to platforms and never stored.

	// KeyDetails returns the credentials of a key; none where it has none. The offering is as in a Lookup. ErrNotFound
	// when Cloud Foundry says that the key is absent, ErrCredentials when what it has cannot be handed on; any other
	// error means: not now.
	KeyDetails(ctx context.Context, guid, offering string) (KeyDetails, error)
	// InstanceParameters and KeyParameters return what the backing broker says now, ErrNotRetrievable where it cannot
	// be asked, ErrBusy while an operation runs, or ErrNotFound when Cloud Foundry does not know the resource, which
	// nothing has confirmed. Any other error means that they are not told now.
	InstanceParameters(ctx context.Context, guid string) (json.RawMessage, error)
	KeyParameters(ctx context.Context, guid string) (json.RawMessage, error)
	// Marketplace returns the offerings and plans that the client's org sees.
	Marketplace(ctx context.Context) (Marketplace, error)
}

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

// Lookup says what to look for.
type Lookup struct {
	// Name is the OSB instance id, or for keys the binding id.
	Name string
	// GUIDs are those of rows that are looked for whatever they are called.
	GUIDs []string
	// Instance is the GUID of the instance whose keys are looked for.
	Instance string
	// Offering is the name of the offering, and so of the space that the rows are in. Where nothing is found, a login
	// that does not see every space of the org has to see that one before the absence counts. Empty: not known.
	Offering string
}

// InstanceCall is what a POST or PATCH of a service instance needs.
type InstanceCall struct {
	// Name is the OSB instance id. Offering is the offering's name, which is also the name of the space, made on
	// demand.
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

// Marks are written on what a call makes: the annotations ferry-operation and ferry-seq of a create, ferry-update of an
// update, and the label ferry-client.
type Marks struct {
	Client    string
	Operation string
	Seq       int64
}

// KeyDetails are a key's secrets, byte for byte as Cloud Foundry sent them (numbers exact). They are handed to the
// platform and forgotten.
type KeyDetails struct {
	Credentials    json.RawMessage `json:"credentials,omitempty"`
	SyslogDrainURL string          `json:"syslog_drain_url,omitempty"`
	VolumeMounts   json.RawMessage `json:"volume_mounts,omitempty"`
	// RouteServiceURL and Endpoints are not in the details of today's service keys; a Cloud Foundry that tells them is
	// handed on.
	RouteServiceURL string          `json:"route_service_url,omitempty"`
	Endpoints       json.RawMessage `json:"endpoints,omitempty"`
}

// Marked is a row that carries our marks, with the OSB ids that it stands for.
type Marked struct {
	// Key is of the instance or the binding; its Client is empty.
	Key  Key
	GUID string
	// ByName is true when the key was read from the name of the row, or of the instance of a key, because the row does
	// not carry its id (rows of before, and keys of Korifi). Names can be changed in Cloud Foundry, so that such a key
	// may be of nobody, or of another; the GUID is right whatever the row is called, and so is the Operation but for
	// keys of Korifi, whose name holds it.
	ByName bool
	// Operation and Seq are the marks.
	Operation string
	Seq       int64
}

// ErrNotRetrievable says that the backing broker does not support reading it back.
var ErrNotRetrievable = errors.New("the backing broker does not support fetching this")

// ErrBusy says that Cloud Foundry does not read it while an operation runs.
var ErrBusy = errors.New("an operation is in progress")

// ErrCredentials says that the credentials of a key are no JSON object, which OSB demands and another try does not
// change. The error that wraps it is a UserTexter.
var ErrCredentials = errors.New("the credentials are not a JSON object")

// UserTexter is implemented by errors of a backend that have something to say to a platform's user (errors.As): one or
// two sentences without hosts, URLs or secrets, as "Cloud Foundry does not answer at the moment." Empty: nothing to
// say.
type UserTexter interface {
	error
	UserText() string
}

// RetryIn is implemented by errors of a backend that say how long to stay away (errors.As). Zero: they do not say.
type RetryIn interface {
	error
	RetryIn() time.Duration
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
