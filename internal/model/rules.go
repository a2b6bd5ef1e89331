package main

// rules are the safeguards of docs/protocol.md, each of which can be taken away. The number behind one is the section
// that asks for it.
type rules struct {
	// Requests.
	ClaimOnRevision       bool // 2.2: a claim is conditional
	ClaimOnFirstRead      bool // 2.3: no claim when life or seq is not that of the first read
	GoneMovesLife         bool // 2.4: a 410 for an absent or gone id is a write
	GoneOnRevision        bool // 2.4: and a conditional one
	KeepOpenCalls         bool // 2.2: open calls outlive the claim
	RepeatOnlyWhereAbsent bool // 2.3: a first claim whose answer was lost may be repeated only where there is no item
	// Ticks.
	TakeLease          bool // 3.1: a tick begins with a conditional write
	PostOnRevision     bool // 3.3
	PatchOnRevision    bool // 3.3
	DeleteOnRevision   bool // 3.3
	RecordOpenCalls    bool // 3.3: an open call is written before a POST or PATCH
	RemoveOwnWhenStale bool // 3.5: a superseded actor removes its own open call
	ReportOnRevision   bool // 3.6
	JudgeBeforeLook    bool // 3.1: open calls are judged before the look-up
	GoneWaits          bool // 3, absence rule: "gone" waits for open POSTs
	FailedWaits        bool // 3, absence rule: "failed" waits for open calls
	CallsEndInTime     bool // 0.3: no call takes effect after its entry has expired
	SendersEndInTime   bool // 0.3: no actor sends after its entry has expired
	// Rows.
	AdoptOnlyOwn      bool // 4: only a row that this operation has marked becomes the instance
	SpareNewer        bool // 6: a row marked by a later operation is not removed
	DeleteWhatWasSeen bool // 3.3: DELETE by the GUID of the look-up
	LookByName        bool // 3.2: also when the GUID is known
	LookInWholeOrg    bool // 3.2
	SpareUnmarked     bool // 1: a row without marks is somebody else's
	FailureIsFinal    bool // 4: "create failed" only when the failure is final
	OldFailureIsOld   bool // 4: on Korifi, by the time since last_operation.updated_at
	OwnDeleteFailed   bool // 6: "delete failed" only from a job of this operation
	// Updates.
	WaitForOthersCalls bool // 5.6: an update waits for the open calls of other operations
	CountPatches       bool // 5.3, 5.4: over a row that is being updated a failed job counts only as the only PATCH's
	// Bindings.
	BindingOfIncarnation  bool // 7: a binding is tied to incarnation and GUID
	ReadInstanceAgain     bool // 7: the instance is read again after the claim
	BindingsFirst         bool // 6: bindings are gone before the DELETE of their instance
	FailedUnbindWaits     bool // 6: so are the open POSTs of those that could not be unbound
	GUIDBeforePost        bool // 7: a bind claimed early writes the GUID before its POST
	GUIDOfSameIncarnation bool // 7: and only that of the incarnation it was accepted for
	OwnRecordFirst        bool // 7: own record, then the instance's, then the claim
	NeverAdoptRemoved     bool // 4: a key whose removal this bind has begun is never adopted
	OneKey                bool // 7: where names carry the operation, success waits for the POSTs of others
	SamePredecessorLife   bool // 7: a rotation's predecessor is of the incarnation that was read
	ParametersAgain       bool // 7: a rotation that reads again reads the parameters again
	// Tombstones.
	OutliveRequests bool // 8: a tombstone outlives the requests under way
	OutliveCalls    bool // 8: and late calls and an audit
	// GUIDs, and names that are taken.
	LookByGUID        bool // 3.2: look-ups also ask for the recorded GUIDs
	LookBeforePost    bool // 3.2: before a POST, too
	KeepFormerGUIDs   bool // 1: a create over a failed one keeps the GUIDs of the former life
	GUIDOfReadyOnly   bool // 7: a bind takes the GUID only from a record that is not creating
	RemoveDuplicate   bool // 4: of two rows of one operation the one that is not recorded goes
	AuditByGUID       bool // 9: the audit compares GUIDs
	NameTakenIsWaited bool // 4: taken three times by what is not to be seen: failed
	TakenWaits        bool // 4: but not while a call is open
	// Restored stores.
	RemoveOnlyKnown    bool // 4: a create removes only the rows of operations that the record knows
	DeleteFailsOverNew bool // 6: a delete that meets a row of an unknown operation fails
	UnknownIsNotNone   bool // 6: and does not count it as none
	AuditByOperation   bool // 9: the audit removes by operation, not by seq
	LookAfterDeadline  bool // 9: a create past its deadline looks once more
	RestoreWhenQuiet   bool // section 12: a store is restored while no call is under way
	// What lives on.
	PlanOfRow         bool // 9: plan and version are taken from the row that lives on
	DeleteFailedWaits bool // 9: "delete failed" waits for PATCHes
	DeadlineWaits     bool // 9: so does the deadline
	// Lists for many ticks.
	ListAfterRead    bool // 3.9: what ends an operation takes a list begun after its record was read
	ConfirmAfterList bool // 3.2: an empty list is confirmed by a call begun after it
	RoleStaysAway    bool // 3.2, assumed: a role that is lost is not given back between a list and its confirmation
	AloneWhenTorn    bool // 3.9: a row missing on a page of several is looked up alone
}
