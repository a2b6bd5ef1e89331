package lifecycle

import "time"

// Look is what one look-up in Cloud Foundry saw, and when it began. Whoever makes
// it must have read the record, and noted the time, before Began.
type Look struct {
	Began time.Time
	Rows  []Row
	// Place is where the look-up was made.
	Place Place
}

// Place says which Cloud Foundry a look-up was made in: the address of its API and the
// GUID of the org. The zero value is not known.
type Place struct {
	API     string `json:"api,omitempty"`
	OrgGUID string `json:"org_guid,omitempty"`
}

// Row is a service instance or a service key as Cloud Foundry showed it.
type Row struct {
	GUID string
	// Operation and Seq are Ferry's marks; Marked is false when they are missing
	// or unreadable, and the row is then somebody else's.
	Marked    bool
	Operation string
	Seq       int64
	// Update is the mark of the last update that took effect.
	Update string
	// MarkedByName is true for a key whose name carries its operation, because it could not
	// be marked: such names do not exclude each other.
	MarkedByName bool
	// Last is Cloud Foundry's last_operation.
	Last LastOperation
	// Age is how long before the answer's own Date the last operation was written.
	Age time.Duration
	// PlanGUID and MaintenanceVersion of an instance are what it has now, whatever was
	// asked for since; empty where Cloud Foundry did not say.
	PlanGUID           string
	MaintenanceVersion string
	// DashboardURL and Provided are what the backing broker said of an instance;
	// they decide nothing and are handed on.
	DashboardURL string
	Provided     *Provided
}

// Provided are the labels and attributes that a backing broker gave an instance.
type Provided struct {
	Labels     map[string]string
	Attributes map[string]string
}

// LastOperation is Cloud Foundry's last_operation of a row. An empty one (rows of
// an older API) counts as a create that succeeded.
type LastOperation struct {
	Verb        Verb
	State       LastState
	Description string
}

// LastState is the state of a last operation.
type LastState string

// Cloud Foundry's states.
const (
	LastInitial    LastState = "initial"
	LastInProgress LastState = "in progress"
	LastSucceeded  LastState = "succeeded"
	LastFailed     LastState = "failed"
)

// JobState is the state of a Cloud Foundry job.
type JobState string

// The states of a job. JobLost means that Cloud Foundry does not know the job
// (10010); JobUnclear that it did not say, which ends nothing.
const (
	JobProcessing JobState = "PROCESSING"
	JobPolling    JobState = "POLLING"
	JobComplete   JobState = "COMPLETE"
	JobFailed     JobState = "FAILED"
	JobLost       JobState = "lost"
	JobUnclear    JobState = "unclear"
)

// Ended reports whether the job will do nothing more.
func (s JobState) Ended() bool { return s == JobComplete || s == JobFailed || s == JobLost }

// JobStatus is what Cloud Foundry said of a job.
type JobStatus struct {
	State JobState
	// FromBackingBroker is true when a failure is the backing broker's own answer, and
	// not a conflict, a timeout or trouble inside Cloud Foundry.
	FromBackingBroker bool
	// Description is fit for the user: no hosts, no URLs.
	Description string
	// Code is an OSB error word such as RequiresApp, or empty.
	Code string
	// GUID is the row that the job works on, where Cloud Foundry names it.
	GUID string
}

// InstanceView is what a binding must know of its instance's record. The zero
// value is an absent instance.
type InstanceView struct {
	State    State
	CreateOp string
	CFGUID   string
	// Offering is the name of the instance's offering; it decides nothing, and tells a
	// look-up of keys which space has to be in sight.
	Offering string
}

// BindingView is what an instance's delete must know of a binding's record.
type BindingView struct {
	ID               string
	State            State
	InstanceCreateOp string
	HasOpenCreate    bool
	// Problem is what its unbind waits for, or why it failed, in words for users.
	Problem string
}

// Reply is how a call that was sent ended.
type Reply string

// The kinds of replies. All but ReplyUnknown are definite (protocol.md 3.5).
const (
	// ReplyAccepted: 202 with a job.
	ReplyAccepted Reply = "accepted"
	// ReplyDone: 200, 201 or 204, the call has taken effect.
	ReplyDone Reply = "done"
	// ReplyRefused: refused for good; trying again cannot help.
	ReplyRefused Reply = "refused"
	// ReplyTaken: the name exists already; a look-up tells whose it is.
	ReplyTaken Reply = "taken"
	// ReplyBusy: refused for now (an operation in progress, a limit); try later.
	ReplyBusy Reply = "busy"
	// ReplyAbsent: Cloud Foundry's own word that the resource does not exist.
	ReplyAbsent Reply = "absent"
	// ReplyUnknown: the call may or may not have taken effect.
	ReplyUnknown Reply = "unknown"
)

// Answer is the reply to a call, with what it brought.
type Answer struct {
	Reply Reply
	// Job is the job of an accepted call, and GUID the row that it makes, where the
	// answer names one.
	Job  string
	GUID string
	// Description and Code explain a refusal to the user, also one that is only for now
	// (ReplyBusy). Description is fit for users: no hosts, no URLs, no secrets.
	Description string
	Code        string
	// FromBackingBroker is true when the refusal is the backing broker's own answer.
	FromBackingBroker bool
	// StalePlan: refused because the plan's GUID means nothing any more; another
	// try may help once the marketplace has been read again. With ReplyBusy: it has been,
	// and the plan is there.
	StalePlan bool
	// RetryAfter is how long Cloud Foundry asked us to stay away; 0: it did not say.
	RetryAfter time.Duration
}
