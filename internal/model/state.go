package main

// recordState is the state of an instance's or a binding's record.
type recordState uint8

const (
	absent recordState = iota
	creating
	ready
	updating
	deleting
	createFailed
	deleteFailed
	gone
)

var recordStates = [...]string{"absent", "creating", "ready", "updating", "deleting", "create failed", "delete failed", "gone"}

// kind is what a request asks for and an operation does.
type kind uint8

const (
	noKind kind = iota
	createKind
	deleteKind
	updateKind
	bindKind
	unbindKind
)

var (
	kindNames   = [...]string{"", "create", "delete", "update", "bind", "unbind"}
	kindLetters = [...]string{"", "C", "D", "U", "B", "X"}
)

func (k kind) ofBinding() bool { return k == bindKind || k == unbindKind }

// rowState is the last operation of a row in Cloud Foundry, as look-ups show it.
type rowState uint8

const (
	noRow       rowState = iota
	rowCreating          // initial or in progress
	rowIdle              // after a success, or after a failed update or delete
	rowFailed            // the create failed
	rowUpdating
)

var rowStates = [...]string{"", "creating", "idle", "FAILED", "updating"}

// result is what was reported of an operation.
type result uint8

const (
	running result = iota
	succeeded
	failed
	lost // the restored store does not know of it
)

// record is one item of the store. Operations and GUIDs are numbers, 0 is none; a flag is 0 or 1, so that the bytes of
// a record say all about it.
type record struct {
	State        recordState
	Op           uint8    // the current operation, or the last one
	CreateOp     uint8    // the create (bind) with which this incarnation began
	GUID         uint8    // cf_guid
	Job          uint8    // a POST of the current operation was accepted
	Plan         uint8    // as last reported
	Open         [3]uint8 // the operation of each open call
	PastDeadline uint8

	InstanceCreateOp, InstanceGUID uint8 // of a binding: what it was accepted for

	Calls   uint8 // PATCHes that the update has intended
	JobOf   uint8 // the one whose job is recorded
	Removes uint8 // a key that this held bind has begun to remove
	Refused uint8 // a POST or PATCH of the current operation was refused for good
	First   uint8 // what the claim found (foundAbsent ...), while no call was intended yet

	OtherGUID uint8 // a second recorded GUID (protocol.md 1, guids)
	Seq       uint8 // where stores are restored
	Knows     uint8 // where stores are restored: a bit for each operation known by id
	Ghost     uint8 // a 410 was answered for an id without a record
	Taken     uint8 // answers "taken" of the current operation
}

// row is a service instance or a service key in Cloud Foundry.
type row struct {
	GUID       uint8
	Mark       uint8 // ferry-operation; 0: somebody else's
	State      rowState
	Final      uint8 // 0: a clean-up job has marked it as failed while its create goes on
	Deleting   uint8 // 1 a DELETE was accepted; 2 its unbind goes on in the background
	DeletedBy  uint8 // whose DELETE that is
	FailedFor  uint8 // the operation whose DELETE the backing broker refused
	Plan       uint8
	UpdateMark uint8 // ferry-update
	UpdatedBy  uint8 // the operation whose PATCH is being carried out
	UpdateFail uint8 // the operation whose PATCH failed last
	Patch      uint8 // which of that operation's PATCHes is being carried out
	FailedJobs uint8 // a bit for each of them whose job failed
	Instance   uint8 // of a key: the GUID of its instance
	After      uint8 // of a key: posted after its instance's DELETE. Of an instance: somebody else's or a leftover
	Told       uint8 // the platform was told that it is ready, and has not asked for its removal since
}

// lateCall is a POST or PATCH that hangs in front of Cloud Foundry: its sender has no answer.
type lateCall struct {
	Kind           kind
	Op, Slot, GUID uint8
	Patch          uint8
}

// operation is one that was accepted.
type operation struct {
	Kind     kind
	Plan     uint8
	Result   result
	Phase    uint8 // the platform's intent that it carries out
	Instance uint8 // of a bind: the incarnation that it is for
	Seq      uint8
	ID       uint8 // of which id, where there are two
}

// requestStep is what a handler does next.
type requestStep uint8

const (
	noRequest       requestStep = iota
	meansToClaim                // has read, and decided to claim
	readsParameters             // of a rotation: has read the instance, reads its predecessor next
	lostItsClaim                // began with a claim whose answer was lost
)

// request is a handler at work.
type request struct {
	Step        requestStep
	Kind        kind
	Plan, Phase uint8
	MayClaim    uint8 // life and seq are as first read
	// What a bind read of its instance.
	InstanceCreateOp, InstanceGUID uint8
	// The incarnation that it read: a rotation's predecessor's, or that of the record (where tombstones expire).
	CreateOp   uint8
	Moved      uint8 // the binding's record has moved since the instance was read
	Parameters uint8 // a rotation's: the incarnation whose parameters it has. Of a first claim: it hangs
	ID         uint8
	Own        uint8 // the operation that its lost claim has made
}

// tickStep is what a ticker does next.
type tickStep uint8

const (
	noTick      tickStep = iota
	looksUp              // the record is read
	decides              // the look-up is there
	sends                // the intent of a POST or PATCH is written
	notesAnswer          // that call was answered
	sendsDelete          // the intent of a DELETE is written
	readsLater           // a list is there that began before the record is read
	awaitsList           // of a round: the record is read, the list begins after it
	awaitsPage           // ... its first page is there
	confirms             // an empty look-up is confirmed
)

// tick is a ticker at work on one operation.
type tick struct {
	Step       tickStep
	Op         uint8
	Fresh      uint8 // the record is as this tick has read or written it
	Seen       row   // what the look-up showed
	Duplicate  uint8 // ... a second row of this operation
	Slot       uint8 // of the open call
	GUID       uint8 // what the call is about; of a key's look-up the instance
	Answer     answer
	InstanceOK uint8 // of a binding: the instance may have a key
	Open       uint8 // open calls when the record was read (openOwn ...)
	Patch      uint8 // number of the PATCH
	Older      uint8 // the look-up is older than the read
	ID         uint8 // whose record, where there are two ids
	Cut        uint8 // its store is no more
}

// hasRead reports whether the tick goes by a record that it has read.
func (t *tick) hasRead() bool {
	return t.Step != noTick && t.Step != readsLater
}

// answer is Cloud Foundry's to a POST or PATCH.
type answer uint8

const (
	noAnswer answer = iota
	accepted
	refused
	refusedForGood
)

// predecessor is the binding that a rotation copies from.
type predecessor struct {
	State    recordState
	CreateOp uint8 // of its instance
}

// budget is how often each fault can still happen.
type budget struct {
	Late        uint8 // calls that hang
	CleanUp     uint8 // rows marked as failed while their create goes on
	Fail        uint8 // creates, updates and keys that fail
	DeleteFail  uint8 // deletes and unbinds that the backing broker refuses
	Deadline    uint8
	Refuse      uint8 // POSTs and PATCHes that Cloud Foundry refuses for good
	Vanish      uint8 // rows that somebody removes while they are being created
	Foreign     uint8 // instances that somebody else makes under our name
	ForeignKeys uint8 // keys that somebody else makes on our instance
	Expire      uint8 // tombstones that expire
	LateGone    uint8 // writes of a 410 that hang
	LateClaim   uint8 // first claims that hang
	Rename      uint8 // names that a hand changes
	Hide        uint8 // names that become taken, or free, by what no look-up shows
	Blind       uint8 // roles that the login loses, so that look-ups show nothing
}

// What stands under a second id (the two are exchanged by swap).
type otherID struct {
	Record      record
	Row         row
	Phase, Done uint8
	Over        uint8
}

const maxOps = 10

// state is all there is at one moment. Everything in it is a byte, so that its bytes say all about it.
type state struct {
	Phase    uint8 // the platform's intent, an index of the script
	Done     uint8 // the delete or unbind of this phase has ended
	Bad      property
	GUIDs    uint8 // given so far
	NumOps   uint8
	Ops      [maxOps]operation // from 1
	Instance record
	Binding  record
	Row      row // the instance of our name
	Key      row // the key of our name
	OtherRow row // an instance of our name in another space
	OtherKey row // a second key of the binding, where names carry the operation
	Renamed  row // our instance under another name
	// A key of somebody else: 1 idle, 2 its unbind goes on, 3 posted after the DELETE of the instance.
	ForeignKey  uint8
	Predecessor predecessor
	Late        lateCall
	Left        budget
	// Phases below it are over by a delete (an unbind).
	OverInstance, OverBinding uint8
	GoneWrite                 uint8 // a 410's write that hangs: 1 conditional, 2 not
	Copy                      record
	Restored                  uint8 // 1 the store was copied, 2 restored
	OpsBefore                 uint8 // operations when it was restored
	Hidden                    uint8 // the name is taken by what no look-up shows
	Blind                     uint8 // the login has lost its role
	Hanging                   request
	Second                    otherID
	Current                   uint8 // which id Instance and Row are: 0 or 1
	Requests                  [2]request
	Ticks                     [4]tick
}

// rowOf returns the instance with this GUID; that of our name when there is none.
func (s *state) rowOf(guid uint8) *row {
	switch {
	case guid != 0 && s.OtherRow.GUID == guid:
		return &s.OtherRow
	case guid != 0 && s.Renamed.GUID == guid:
		return &s.Renamed
	}
	return &s.Row
}

// keyOf returns the key with this GUID; that of our name when there is none.
func (s *state) keyOf(guid uint8) *row {
	if guid != 0 && s.OtherKey.GUID == guid {
		return &s.OtherKey
	}
	return &s.Key
}

// bindingState is how requests see the binding: one of an earlier incarnation, or of an instance that is gone, is gone.
func (s *state) bindingState() recordState {
	if s.Binding.State == absent || s.Binding.State == gone {
		return s.Binding.State
	}
	if s.Binding.InstanceCreateOp != s.Instance.CreateOp || s.Instance.State == gone || s.Instance.State == absent {
		return gone
	}
	return s.Binding.State
}

// What is open, see openCalls.
const (
	openOwn = 1 << iota
	openOther
	openPost
	openPatch
)

// openCalls returns what a record's open calls are to an operation.
func (s *state) openCalls(r *record, op uint8) (open uint8) {
	for _, o := range r.Open {
		if o == 0 {
			continue
		}
		if o == op {
			open |= openOwn
		} else {
			open |= openOther
		}
		if s.Ops[o].Kind == updateKind {
			open |= openPatch
		} else {
			open |= openPost
		}
	}
	return open
}

// wroteInstance tells everybody who has read the instance's record that it has moved.
func (s *state) wroteInstance() {
	if s.GoneWrite == 1 {
		s.GoneWrite = 0
	}
	for i := range s.Ticks {
		t := &s.Ticks[i]
		if t.hasRead() && t.ID == s.Current && !s.Ops[t.Op].Kind.ofBinding() {
			t.Fresh = 0
		}
	}
}

// wroteBinding tells the same of the binding's record.
func (s *state) wroteBinding() {
	for i := range s.Requests {
		if h := &s.Requests[i]; h.Step == meansToClaim && h.Kind == bindKind {
			h.Moved = 1
		}
	}
	for i := range s.Ticks {
		t := &s.Ticks[i]
		if t.hasRead() && s.Ops[t.Op].Kind.ofBinding() {
			t.Fresh = 0
		}
	}
}

func (s *state) wrote(binding bool) {
	if binding {
		s.wroteBinding()
	} else {
		s.wroteInstance()
	}
}

// seqMoved: PUTs, PATCHes and binds that read the record before claim nothing any more.
func (s *state) seqMoved(binding bool) {
	for i := range s.Requests {
		h := &s.Requests[i]
		if h.Kind.ofBinding() == binding && h.Kind != deleteKind && h.Kind != unbindKind && h.ID == s.Current {
			h.MayClaim = 0
		}
	}
}

// lifeMoved: no request that read the record before claims anything any more.
func (s *state) lifeMoved(binding bool) {
	for i := range s.Requests {
		if h := &s.Requests[i]; h.Kind.ofBinding() == binding && h.ID == s.Current {
			h.MayClaim = 0
		}
	}
}

// ended: the platform has seen the delete or unbind of this phase end.
func (s *state) ended(k kind) {
	s.Done = 1
	if k.ofBinding() {
		s.OverBinding = s.Phase + 1
	} else {
		s.OverInstance = s.Phase + 1
	}
}

// endDelete: the delete or unbind has succeeded.
func (s *state) endDelete(op uint8) {
	s.lifeMoved(s.Ops[op].Kind.ofBinding())
	s.setResult(op, succeeded)
	if s.Ops[op].Phase == s.Phase {
		s.ended(s.Ops[op].Kind)
	}
}

func (s *state) newOp(k kind, plan, phase uint8) uint8 {
	s.NumOps++
	s.Ops[s.NumOps] = operation{Kind: k, Plan: plan, Phase: phase, ID: s.Current}
	return s.NumOps
}

func (s *state) setResult(op uint8, r result) {
	if s.Ops[op].Result != running && s.Ops[op].Result != r {
		s.violates(reportFlips)
	}
	s.Ops[op].Result = r
}

// violates notes the first property that does not hold.
func (s *state) violates(p property) {
	if s.Bad == 0 {
		s.Bad = p
	}
}

// swap exchanges the two ids, so that all rules are written for one.
func (s *state) swap() {
	s.Instance, s.Second.Record = s.Second.Record, s.Instance
	s.Row, s.Second.Row = s.Second.Row, s.Row
	s.Phase, s.Second.Phase = s.Second.Phase, s.Phase
	s.Done, s.Second.Done = s.Second.Done, s.Done
	s.OverInstance, s.Second.Over = s.Second.Over, s.OverInstance
	s.Current ^= 1
}
