package lifecycle

import (
	"slices"
	"time"
)

// Kind says what a record stands for.
type Kind string

// The two kinds of records.
const (
	Instance Kind = "instance"
	Binding  Kind = "binding"
)

// State is where a record stands in its life. The zero value is Absent.
type State string

// The states of the lifecycle table. A ghost is what is kept of an id that had no record when it was told to be gone:
// every rule treats it as absent, only its counters matter.
const (
	Absent       State = ""
	Ghost        State = "ghost"
	Creating     State = "creating"
	Ready        State = "ready"
	Updating     State = "updating"
	Deleting     State = "deleting"
	CreateFailed State = "create failed"
	UpdateFailed State = "update failed"
	DeleteFailed State = "delete failed"
	Gone         State = "gone"
)

// Busy reports whether an operation runs in this state.
func (s State) Busy() bool { return s == Creating || s == Updating || s == Deleting }

// Living reports whether the state stands for something that a platform can see.
func (s State) Living() bool { return s != Absent && s != Ghost && s != Gone }

// Verb is the kind of an operation. Bindings have create and delete only.
type Verb string

// The kinds of operations.
const (
	Create Verb = "create"
	Update Verb = "update"
	Delete Verb = "delete"
)

// Record is the part of a stored record that decides. It is a value: Next never changes the one that it was given.
type Record struct {
	Kind  Kind  `json:"kind"`
	State State `json:"state"`
	// Life rises by one when the id becomes gone, and whenever an absent or gone id is told to be gone.
	Life int64 `json:"life"`
	// Seq rises with every accepted operation. It begins at the Unix time in seconds.
	Seq       int64     `json:"seq"`
	Operation Operation `json:"operation"`
	// CreateOp is the create or bind with which this incarnation began.
	CreateOp Reference `json:"create_op"`
	// CFGUID is the row in use. It is set when the create has succeeded.
	CFGUID string `json:"cf_guid,omitempty"`
	// GUIDs are rows of Cloud Foundry that operations of this record made, in former lives too. Each is ours whatever
	// it is called (docs/protocol.md 3.2).
	GUIDs []string `json:"guids,omitempty"`
	// Place is the Cloud Foundry that the rows are in. It is zero until the first call, and in records of old versions.
	Place     Place      `json:"place,omitzero"`
	OpenCalls []OpenCall `json:"open_calls,omitempty"`
	// LastCall is the number of the newest open call ever written.
	LastCall int        `json:"last_call,omitempty"`
	Finished []Finished `json:"finished,omitempty"`
	// InstanceCreateOp and InstanceGUID name the incarnation of the instance for which a bind was accepted. The GUID
	// may come later than the claim.
	InstanceCreateOp string `json:"instance_create_op,omitempty"`
	InstanceGUID     string `json:"instance_guid,omitempty"`
	// ExpiresAt is when a tombstone or ghost may be forgotten; zero for the living.
	ExpiresAt time.Time `json:"expires_at,omitzero"`
}

// Reference names an operation and its place in the order of the record.
type Reference struct {
	ID  string `json:"id"`
	Seq int64  `json:"seq"`
}

// Place says which Cloud Foundry, and where in it: the address of its API and the GUID of the org. The zero value means
// that it is not known.
type Place struct {
	API     string `json:"api,omitempty"`
	OrgGUID string `json:"org_guid,omitempty"`
}

// Operation is the current or the last operation of a record.
type Operation struct {
	ID       string    `json:"id"`
	Seq      int64     `json:"seq"`
	Verb     Verb      `json:"verb"`
	Started  time.Time `json:"started,omitzero"`
	Deadline time.Time `json:"deadline,omitzero"`
	// Held is true for a bind or unbind without accepts_incomplete: its request is held until it has ended.
	Held bool `json:"held,omitempty"`
	// IDWasFree is true when the claim found nothing living, so that the first call may go without a look-up
	// (docs/protocol.md 3.8).
	IDWasFree bool `json:"fresh,omitempty"`
	// Job and JobGUID are the newest Cloud Foundry job of this operation and the row that it works on. The GUID is
	// empty for a create.
	Job     string `json:"job,omitempty"`
	JobGUID string `json:"job_guid,omitempty"`
	// CreatedWithoutJob is true when Cloud Foundry answered the create as carried out, without a job.
	CreatedWithoutJob bool `json:"made,omitempty"`
	// Calls counts the open calls of this operation ever written, Answered those of them whose fate became known.
	Calls    int `json:"calls,omitempty"`
	Answered int `json:"answered,omitempty"`
	// NameTaken counts the answers that the name is taken.
	NameTaken int `json:"taken,omitempty"`
	// FinalRefusal is why the create or update was refused for good, and Code its OSB error word.
	FinalRefusal string `json:"refused,omitempty"`
	// InstanceMissing: the refusal says that the instance is not there any more.
	InstanceMissing bool   `json:"unusable,omitempty"`
	Code            string `json:"code,omitempty"`
	// TemporaryRefusal is a refusal that another try may cure. NoAnswer is what is known of a Cloud Foundry that did
	// not answer what it was asked last. Both are words for the operation's user; they may quote a backing broker, so
	// they are in no log and end with the operation.
	TemporaryRefusal string `json:"trouble,omitempty"`
	NoAnswer         string `json:"unheard,omitempty"`
	// FailedDeletes counts the deletes of this operation that reached the backing broker and removed nothing, and
	// FailedDeletesByBroker those of them that the backing broker refused itself. NotBefore is when the next may be
	// sent.
	FailedDeletes         int       `json:"turned_down,omitempty"`
	FailedDeletesByBroker int       `json:"by_broker,omitempty"`
	NotBefore             time.Time `json:"not_before,omitzero"`
	// PaceResetAt is when the pace last began anew, because Cloud Foundry answered again, and PaceResets how often it
	// did.
	PaceResetAt time.Time `json:"resumed,omitzero"`
	PaceResets  int       `json:"resumes,omitempty"`
	// MarketplaceReread: the plan was refused, found in the marketplace that was read again, and gets one more try.
	MarketplaceReread bool `json:"reread,omitempty"`
	// NoBindingsLeft: when the delete was sent, the store had no binding left that could outlive the instance.
	NoBindingsLeft bool `json:"unbound,omitempty"`
	// Cleanup is the removal of a leftover that a create or bind found, or left itself.
	Cleanup Cleanup   `json:"cleanup,omitzero"`
	Lease   Lease     `json:"lease,omitzero"`
	Due     time.Time `json:"due,omitzero"`
	// Restarts counts how often the janitor has started the workflow again.
	Restarts int `json:"restarts,omitempty"`
}

// Cleanup names the leftover that is being removed, and the job that does it.
type Cleanup struct {
	GUID string `json:"guid,omitempty"`
	Job  string `json:"job,omitempty"`
}

// Lease says which driver works on an operation, so that two do not do the same work. Safety never depends on it.
type Lease struct {
	Holder string    `json:"holder,omitempty"`
	Until  time.Time `json:"until,omitzero"`
}

// OpenCall is a create or update that may still take effect in Cloud Foundry. It belongs to the record and outlives its
// operation.
type OpenCall struct {
	Number int       `json:"n"`
	Seq    int64     `json:"seq"`
	Verb   Verb      `json:"verb"`
	Until  time.Time `json:"until"`
}

// Finished is the result of an operation that has ended or was superseded.
type Finished struct {
	ID          string `json:"id"`
	Verb        Verb   `json:"verb"`
	Succeeded   bool   `json:"succeeded"`
	Description string `json:"description,omitempty"`
	// OwnWords says that Description is Ferry's own sentence. All others may quote a backing broker, and are dropped
	// when the next operation begins.
	OwnWords bool      `json:"own,omitempty"`
	Code     string    `json:"code,omitempty"`
	EndedAt  time.Time `json:"ended"`
	// InstanceUnusable: the instance works no more after the update that failed.
	InstanceUnusable bool `json:"unusable,omitempty"`
	// UpdateNotRepeatable: the same update would fail again.
	UpdateNotRepeatable bool `json:"final,omitempty"`
}

// FinishedLimit is how many results a record remembers.
const FinishedLimit = 20

// Result returns how the operation with this id ended, if the record remembers it.
func (r Record) Result(id string) (Finished, bool) {
	i := slices.IndexFunc(r.Finished, func(f Finished) bool { return f.ID == id })
	if i < 0 {
		return Finished{}, false
	}
	return r.Finished[i], true
}

// withResult appends a result and forgets the oldest beyond the limit.
func (r Record) withResult(f Finished, now time.Time) Record {
	f.EndedAt = now
	r.Finished = append(r.Finished, f)
	if over := len(r.Finished) - FinishedLimit; over > 0 {
		r.Finished = r.Finished[over:]
	}
	return r
}

// Running reports whether the operation with this id is the current one and has not ended.
func (r Record) Running(id string) bool {
	return r.State.Busy() && r.Operation.ID == id
}

// HasOpenCall reports whether a call of this verb may still take effect at the given time. An empty verb means any.
func (r Record) HasOpenCall(verb Verb, at time.Time) bool {
	return slices.ContainsFunc(r.OpenCalls, func(c OpenCall) bool {
		return (verb == "" || c.Verb == verb) && c.Until.After(at)
	})
}

// hasOpenCallOfOthers reports whether a call of another operation may still take effect.
func (r Record) hasOpenCallOfOthers(at time.Time) bool {
	return slices.ContainsFunc(r.OpenCalls, func(c OpenCall) bool {
		return c.Seq != r.Operation.Seq && c.Until.After(at)
	})
}

// OwnsRow reports whether the row with this GUID was made by an operation of this record, as far as it remembers.
func (r Record) OwnsRow(guid string) bool {
	return guid != "" && (guid == r.CFGUID || slices.Contains(r.GUIDs, guid))
}

// KnownGUIDs are the GUIDs that OwnsRow reports, for a look-up.
func (r Record) KnownGUIDs() []string {
	guids := slices.Clone(r.GUIDs)
	if r.CFGUID != "" && !slices.Contains(guids, r.CFGUID) {
		guids = append(guids, r.CFGUID)
	}
	return guids
}

// KnowsOperation reports whether the operation is, or was, one of this record, as far as it remembers. Sequence numbers
// would prove nothing: a store that was restored gives them twice.
func (r Record) KnowsOperation(id string) bool {
	if id == r.Operation.ID || id == r.CreateOp.ID {
		return true
	}
	_, finished := r.Result(id)
	return finished
}

// guidLimit is how many GUIDs a record remembers, the one in use aside.
const guidLimit = 10

// rememberGUID notes a row as ours, in place, and forgets the oldest beyond the limit.
func (r *Record) rememberGUID(guid string) {
	if guid == "" || slices.Contains(r.GUIDs, guid) {
		return
	}
	r.GUIDs = append(r.GUIDs, guid)
	if over := len(r.GUIDs) - guidLimit; over > 0 {
		r.GUIDs = slices.Clone(r.GUIDs[over:])
	}
}

// Clone returns a copy that shares nothing with r.
func (r Record) Clone() Record {
	r.GUIDs = slices.Clone(r.GUIDs)
	r.OpenCalls = slices.Clone(r.OpenCalls)
	r.Finished = slices.Clone(r.Finished)
	return r
}
