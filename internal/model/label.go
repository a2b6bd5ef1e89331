package main

import "fmt"

// event is the kind of a step: a fixed vocabulary, for whoever reads traces by program.
type event uint8

const (
	platform    event = iota + 1 // the platform wants the next thing
	requestRead                  // a request reads, or is answered
	claim                        // an operation is accepted
	tickBegins                   // a tick begins, or ends with nothing done
	lookedUp                     // a look-up, or a page of one, or its confirmation
	intent                       // the write before a call
	sent                         // a call takes effect, is refused, or hangs
	answered                     // the write after a call
	reported                     // the write that ends an operation, or notes what was seen
	death                        // a handler, a ticker or a round dies
	expiry                       // an open call, a tombstone or a deadline
	byCloud                      // Cloud Foundry goes on by itself
	byStore                      // a hanging write arrives, the store is restored
	operator                     // somebody else acts: strangers, hands, roles, the audit
)

var events = [...]string{"", "platform", "request", "claim", "tick", "look-up", "intent", "send", "answer", "report", "death",
	"expiry", "cloud", "store", "operator"}

func (e event) String() string { return events[e] }

// label says what happens in a step. What is one of a few fixed sentences; the numbers belong to it.
type label struct {
	Event   event
	What    string
	Request kind
	Op      uint8
	GUID    uint8
	Second  bool // of the second id
}

// text is the label for people. The state is the one after the step.
func (l label) text(s *state) string {
	text := l.What
	switch {
	case l.Request != noKind && l.Op != 0:
		text = fmt.Sprintf("a request to %s %s as %s", kindNames[l.Request], l.What, s.opName(l.Op))
	case l.Request != noKind:
		text = fmt.Sprintf("a request to %s %s", kindNames[l.Request], l.What)
	case l.Op != 0:
		text = s.opName(l.Op) + ": " + l.What
	}
	if l.GUID != 0 {
		text += fmt.Sprintf(" (g%d)", l.GUID)
	}
	if l.Second {
		text = "B: " + text
	}
	return text
}

// opName is an operation for people: a letter for its kind, and its number.
func (s *state) opName(op uint8) string {
	if op == 0 {
		return "-"
	}
	return fmt.Sprintf("%s%d", kindLetters[s.Ops[op].Kind], op)
}

func (s *state) recordText(r *record) string {
	text := recordStates[r.State]
	if r.Op != 0 {
		text += " " + s.opName(r.Op)
	}
	for _, op := range r.Open {
		if op != 0 {
			text += " open:" + s.opName(op)
		}
	}
	return text
}

func (s *state) rowText(r *row) string {
	if r.GUID == 0 {
		return "none"
	}
	text := fmt.Sprintf("g%d(%s) %s", r.GUID, s.opName(r.Mark), rowStates[r.State])
	if r.Deleting != 0 {
		text += ", delete accepted"
	}
	return text
}

// text is the state for people, as far as it differs from none.
func (s *state) text() string {
	text := fmt.Sprintf("record: %s; row: %s", s.recordText(&s.Instance), s.rowText(&s.Row))
	add := func(there bool, what, value string) {
		if there {
			text += "; " + what + value
		}
	}
	add(s.OtherRow.GUID != 0, "in the other space: ", s.rowText(&s.OtherRow))
	add(s.Renamed.GUID != 0, "under another name: ", s.rowText(&s.Renamed))
	add(s.Hidden != 0, "the name is taken by what is not to be seen", "")
	add(s.Blind != 0, "the role is lost", "")
	add(s.Second != otherID{}, "B's record: ", s.recordText(&s.Second.Record))
	add(s.Second != otherID{}, "row: ", s.rowText(&s.Second.Row))
	add(s.Restored == 1, "copy: ", s.recordText(&s.Copy))
	add(s.Hanging.Step != noRequest, "a claim hangs", "")
	add(s.Binding.State != absent || s.Key.GUID != 0, "binding: ", s.recordText(&s.Binding))
	add(s.Key.GUID != 0, "key: ", s.rowText(&s.Key))
	add(s.OtherKey.GUID != 0, "other key: ", s.rowText(&s.OtherKey))
	add(s.ForeignKey != 0, "a stranger's key", "")
	add(s.Late.Kind != noKind, "hanging call of ", s.opName(s.Late.Op))
	if s.Bad != 0 {
		text += "  *** " + s.Bad.String()
	}
	return text
}
