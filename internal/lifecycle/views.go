package lifecycle

import "time"

// Look is what one look-up in Cloud Foundry saw, and when it began. Whoever makes it must have read the record, and
// noted the time, before Began.
type Look struct {
	Began time.Time
	Rows  []Row
	// Place is where the look-up was made.
	Place Place
}

// Row is a service instance or a service key as Cloud Foundry showed it.
type Row struct {
	GUID string
	// Operation and Seq are Ferry's marks. Marked is false when they are missing or cannot be read; the row is then
	// somebody else's.
	Marked    bool
	Operation string
	Seq       int64
	// Update is the mark of the last update that took effect.
	Update string
	// MarkedByName is true for a key whose name carries its operation, because it could not be marked. Such names do
	// not exclude each other.
	MarkedByName bool
	// Last is Cloud Foundry's last_operation, and Age how long before the answer's own Date it was written. An age of 0
	// may also mean that the answer did not tell.
	Last LastOperation
	Age  time.Duration
	// PlanGUID and MaintenanceVersion are what an instance has now, whatever was asked for since; empty where Cloud
	// Foundry did not say.
	PlanGUID           string
	MaintenanceVersion string
	// DashboardURL and Provided are what the backing broker said of an instance. They decide nothing and are handed on.
	DashboardURL string
	Provided     *Provided
}

// busy reports whether Cloud Foundry works on the row.
func (r Row) busy() bool { return r.Last.State == LastInProgress || r.Last.State == LastInitial }

// Provided are the labels and attributes that a backing broker gave an instance.
type Provided struct {
	Labels     map[string]string
	Attributes map[string]string
}

// LastOperation is Cloud Foundry's last_operation of a row. An empty one (rows of an older API) counts as a create that
// succeeded.
type LastOperation struct {
	Verb        Verb
	State       LastState
	Description string
}

// failed reports whether an operation of this verb has failed.
func (l LastOperation) failed(verb Verb) bool { return l.Verb == verb && l.State == LastFailed }

// LastState is the state of a last operation.
type LastState string

// Cloud Foundry's states.
const (
	LastInitial    LastState = "initial"
	LastInProgress LastState = "in progress"
	LastSucceeded  LastState = "succeeded"
	LastFailed     LastState = "failed"
)

// JobStatus is what Cloud Foundry said of a job.
type JobStatus struct {
	State JobState
	// FromBackingBroker is true when a failure is the backing broker's own answer, and not a conflict, a timeout or
	// trouble inside Cloud Foundry.
	FromBackingBroker bool
	// Description is fit for users: it has no hosts and no URLs.
	Description string
	// Code is an OSB error word such as RequiresApp, or empty.
	Code string
	// GUID is the row that the job works on, where Cloud Foundry names it.
	GUID string
}

// JobState is the state of a Cloud Foundry job.
type JobState string

// The states of a job. JobLost means that Cloud Foundry does not know the job; JobUnclear that it did not say, which
// ends nothing.
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

// InstanceView is what a binding must know of its instance's record. The zero value is an absent instance.
type InstanceView struct {
	State    State
	CreateOp string
	CFGUID   string
	// Offering is the name of the instance's offering. It decides nothing; a look-up of keys needs it to know which
	// space its login has to be able to see.
	Offering string
}

// BindingView is what an instance's delete must know of a binding's record.
type BindingView struct {
	ID               string
	State            State
	InstanceCreateOp string
	// HasOpenCreate: a call that creates the key may still take effect.
	HasOpenCreate bool
	// Problem is what its unbind waits for, or why that failed, in words for users.
	Problem string
}

// of reports whether the binding belongs to this incarnation of the instance. One of another incarnation counts as
// gone.
func (b BindingView) of(r Record) bool { return b.InstanceCreateOp == r.CreateOp.ID }
