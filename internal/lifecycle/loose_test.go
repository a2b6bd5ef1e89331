package lifecycle_test

import (
	"testing"
	"time"

	lc "github.com/ferry-broker/ferry/internal/lifecycle"
)

// TestLooseNamesDoNotExcludeEachOther: where a key's name carries its operation, a key
// of an older operation may still appear beside it (docs/protocol.md section 7).
func TestLooseNamesDoNotExcludeEachOther(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		loose bool
		open  []lc.OpenCall
		want  lc.Outcome
	}{
		"nothing else is open":            {true, nil, lc.Ended},
		"an older POST is open":           {true, []lc.OpenCall{open(lc.Create, 99)}, lc.Ongoing},
		"the own POST is open":            {true, []lc.OpenCall{open(lc.Create, 100)}, lc.Ended},
		"a marked key excludes another's": {false, []lc.OpenCall{open(lc.Create, 99)}, lc.Ended},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			row := mine(lc.Create, lc.LastSucceeded)
			row.MarkedByName = test.loose
			tick := seen(row)
			d, err := lc.Next(lc.Record{
				Kind: lc.Binding, State: lc.Creating, Seq: 100, OpenCalls: test.open,
				InstanceCreateOp: tick.Instance.CreateOp, InstanceGUID: "i",
				Operation: lc.Operation{ID: "mine", Seq: 100, Verb: lc.Create, Calls: 1, Deadline: noon().Add(time.Hour)},
			}, tick)
			if err != nil || d.Outcome != test.want {
				t.Errorf("%q, %v; want %q", d.Outcome, err, test.want)
			}
		})
	}
}
