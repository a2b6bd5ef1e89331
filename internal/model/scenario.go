package main

import (
	"fmt"
	"reflect"
	"slices"
)

// phase is one intent of the platform. It sends the request any number of times, at any time after the phase has begun.
type phase struct {
	Kind  kind
	Plan  uint8
	After after
}

// after says when a phase may begin.
type after uint8

const (
	anyTime   after = iota
	deleted         // the delete or unbind of the phase before has ended
	whenReady       // the instance is ready
)

// scenario is a world to search: what the platform wants, which faults may happen and how often, and which parts of the
// protocol play.
type scenario struct {
	Name   string
	Covers string // sections of docs/protocol.md
	// Brief makes the world small enough for every test run; nil where it is.
	Brief  reduction
	Script []phase
	Faults budget
	MaxOps uint8
	// Tickers and Slots are how many actors tick, and how many open calls a record can hold; 0 means two.
	Tickers, Slots int

	StartReady bool // an instance is there
	Leftover   bool // a row of an earlier incarnation is there, its record is gone
	Audit      bool // the audit runs
	// Without are safeguards that do not exist here.
	Without []string

	// Ticks.
	NoLook    uint8 // first ticks that POST without a look-up, by what the claim found (foundAbsent ...)
	OpenFirst bool  // a create of an id without record is claimed with its open call, and the handler POSTs at once
	Inline    bool  // a handler goes on as a ticker, on the revision of its claim
	Vanished  bool  // a create that was accepted and shows no row is reported failed
	TwoSpaces bool  // the second plan is in another space
	// Updates.
	RefusePatch bool // PATCHes may be refused for good
	PatchJobs   bool // updates are judged by the job that is recorded, each PATCH has its own
	Plans       bool // the plan of what lives on is compared, also behind failed deletes and deadlines
	// Bindings.
	Async        bool // unbinds may go on in the background, and the DELETE of their instance fails meanwhile
	Early        bool // a bind may be claimed while its instance is created
	Held         bool // a bind removes its own failed key before it reports failed
	CleanUpKeys  bool // keys, too, may be marked as failed while their create goes on
	NamedKeys    bool // the names of keys carry the operation (Korifi)
	NoFailedJobs bool // the job of a failed create never says FAILED (Korifi)
	TimedOut     bool // the job of a DELETE may say FAILED while the deletion goes on (Korifi)
	Rotate       bool // binds copy from a predecessor
	RotateAgain  bool // ... and read it again when they were held, or their claim was lost
	// GUIDs and restored stores.
	GUIDs       bool // GUIDs are recorded as early as they are known
	RenameKnown bool // only rows whose GUID is recorded are renamed
	LookByMark  bool // look-ups also ask by mark
	Restore     bool // the store is restored once, to a copy or to nothing
	LastLook    bool // a create ends at its deadline by a look-up
	ClaimFirst  bool // creates begin with the claim
	// Two ids and one list.
	TwoIDs     uint8 // 1: a round, and an execution for each id. 2: two rounds. 3: a round alone
	SecondHalf bool  // the second id is ready, and only deleted
	OldLists   bool  // a round's list may be older than one of its reads
	Pages      bool  // a list has several pages and is confirmed; a role may be lost
}

// model is a scenario under rules. It is never changed after newModel; any number of searches may use it at once.
type model struct {
	scenario
	rules
}

// newModel returns the scenario under all rules but those that it, or the caller, goes without.
func newModel(sc scenario, without ...string) (*model, error) {
	m := &model{scenario: sc}
	if m.Tickers == 0 {
		m.Tickers = 2
	}
	if m.Slots == 0 {
		m.Slots = 2
	}
	all := reflect.ValueOf(&m.rules).Elem()
	for i := range all.NumField() {
		all.Field(i).SetBool(true)
	}
	for _, name := range slices.Concat(sc.Without, without) {
		rule := all.FieldByName(name)
		if !rule.IsValid() {
			return nil, fmt.Errorf("no rule is called %q", name)
		}
		rule.SetBool(false)
	}
	return m, nil
}

// initial is the state in which the search begins.
func (m *model) initial() state {
	s := state{Left: m.Faults}
	living := row{GUID: 1, Mark: 1, State: rowIdle, Final: 1}
	switch {
	case m.Leftover:
		s.NumOps, s.GUIDs = 2, 1
		s.Ops[1] = operation{Kind: createKind, Result: failed, Phase: outside}
		s.Ops[2] = operation{Kind: deleteKind, Result: succeeded, Phase: outside}
		s.Instance = record{State: gone, Op: 2, CreateOp: 1}
		s.Row = living
		s.Row.After = 2
	case m.TwoIDs > 0 && m.SecondHalf:
		s.NumOps, s.GUIDs, s.Second.Phase = 1, 1, 1
		s.Ops[1] = operation{Kind: createKind, Result: succeeded, ID: 1}
		s.Second.Record = record{State: ready, Op: 1, CreateOp: 1, GUID: 1}
		s.Second.Row = living
	case m.StartReady:
		s.NumOps, s.GUIDs = 1, 1
		s.Ops[1] = operation{Kind: createKind, Result: succeeded, Phase: outside}
		s.Instance = record{State: ready, Op: 1, CreateOp: 1, GUID: 1}
		s.Row = living
		if m.Rotate {
			s.Predecessor = predecessor{State: ready, CreateOp: 1}
		}
	}
	return s
}

// Phases of operations that no request of the script has asked for.
const (
	outside = 99
	cascade = 98 // an unbind that the delete of the instance began
)

// spaceOf returns the place of our name that a POST of this operation goes to.
func (m *model) spaceOf(s *state, op uint8) *row {
	if m.TwoSpaces && s.Ops[op].Plan == 1 {
		return &s.OtherRow
	}
	return &s.Row
}

// emit is called once for each state that may follow.
type emit func(state, label)

// next emits every state that may follow.
func (m *model) next(s *state, out emit) {
	judged := func(n state, l label) {
		m.judge(&n)
		out(n, l)
	}
	requests{m}.next(s, judged)
	ticks{m}.next(s, judged)
	cloud{m}.next(s, judged)
	world{m}.next(s, judged)
	if m.TwoIDs > 0 {
		onID(s, 1, requests{m}.next, judged)
		onID(s, 1, world{m}.expire, judged)
	}
}

// onID calls f as if that id were the only one.
func onID(s *state, id int, f func(*state, emit), out emit) {
	x := *s
	if id == 0 {
		f(&x, out)
		return
	}
	x.swap()
	f(&x, func(n state, l label) {
		n.swap()
		l.Second = true
		out(n, l)
	})
}
