package lifecycle_test

import (
	"testing"
	"time"

	lc "github.com/ferry-broker/ferry/internal/lifecycle"
)

// TestAnOlderLookEndsNothing: one list may serve many operations, but "not there"
// ends one only when the list began after the record was read (protocol.md 3.9).
func TestAnOlderLookEndsNothing(t *testing.T) {
	t.Parallel()
	refused := lc.Operation{ID: "mine", Seq: 100, Verb: lc.Create, FinalRefusal: "no", Calls: 1, Answered: 1}
	for name, r := range map[string]lc.Record{
		"a delete":           {Kind: lc.Instance, State: lc.Deleting, Seq: 100, Operation: lc.Operation{ID: "mine", Seq: 100, Verb: lc.Delete}},
		"an unbind":          {Kind: lc.Binding, State: lc.Deleting, Seq: 100, InstanceGUID: "i", Operation: lc.Operation{ID: "mine", Seq: 100, Verb: lc.Delete}},
		"a refused create":   {Kind: lc.Instance, State: lc.Creating, Seq: 100, Operation: refused},
		"a vanished one too": {Kind: lc.Instance, State: lc.Creating, Seq: 100, Operation: lc.Operation{ID: "mine", Seq: 100, Verb: lc.Create, CreatedWithoutJob: true, Calls: 1, Answered: 1}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r.Operation.Deadline = noon().Add(time.Hour)
			for began, want := range map[time.Duration]lc.Outcome{0: lc.Ended, time.Second: lc.Ended, -time.Second: lc.Ongoing} {
				tick := seen()
				tick.Look.Began = tick.ReadAt.Add(began)
				d, err := lc.Next(r, tick)
				if err != nil || d.Outcome != want {
					t.Errorf("the look-up began %v after the read: %q, %v; want %q", began, d.Outcome, err, want)
				}
			}
		})
	}
}
