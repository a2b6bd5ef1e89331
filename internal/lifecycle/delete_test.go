package lifecycle_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	lc "github.com/ferry-broker/ferry/internal/lifecycle"
)

// removals are the rows of docs/protocol.md section 6 that an unbind shares.
func removals() map[string]tickTest {
	row, failed := mine(lc.Create, lc.LastSucceeded), mine(lc.Delete, lc.LastFailed)
	deleting := mine(lc.Delete, lc.LastInProgress)
	quiet := deleting
	quiet.Age = 3 * time.Minute
	created, updating := mine(lc.Create, lc.LastInProgress), mine(lc.Update, lc.LastInProgress)
	sent := func(r *lc.Record) { r.Operation.JobGUID = "guid" }
	often := both(sent, owning("guid"), func(r *lc.Record) { r.Operation.FailedDeletesByBroker = 4 })
	const d = lc.Deleting
	remove, other := does(d, lc.SendDelete, "guid"), does(d, lc.SendDelete, "other")
	asked := under(bare(), instance(lc.Ready))
	return map[string]tickTest{
		"own job is asked before a look-up":     {accepted, asked, asksJob(d)},
		"own job processing saves the look-up":  {accepted, withJob(asked, inState(lc.JobProcessing)), waits(d)},
		"own job polling saves the look-up":     {accepted, withJob(asked, inState(lc.JobPolling)), waits(d)},
		"row being deleted saves the job":       {accepted, seen(deleting), waits(d)},
		"but not one that is never written":     {accepted, seen(quiet), asksJob(d)},
		"row that waits for its job asks":       {accepted, seen(row), asksJob(d)},
		"own job unclear waits":                 {accepted, withJob(asked, inState(lc.JobUnclear)), waits(d)},
		"none is gone":                          {as, seen(), ends(lc.Gone)},
		"none after the job is gone":            {accepted, withJob(seen(), inState(lc.JobComplete)), ends(lc.Gone)},
		"none waits for an open POST":           {opened(lc.Create, 90), seen(), waits(d)},
		"none does not wait for an open PATCH":  {opened(lc.Update, 90), seen(), ends(lc.Gone)},
		"stranger's row is none":                {as, seen(stranger()), ends(lc.Gone)},
		"unmarked row of the recorded GUID":     {as, seen(lc.Row{GUID: "guid"}), remove},
		"row is removed by its GUID":            {as, seen(row), remove},
		"row being created is removed":          {as, seen(created), remove},
		"row of a lower seq is removed":         {as, seen(foreign(90)), other},
		"row of an unknown operation fails":     {as, seen(unknown()), ends(lc.DeleteFailed)},
		"deadline ends it":                      {overdue, seen(created), ends(lc.DeleteFailed)},
		"deadline finds it gone":                {overdue, seen(), ends(lc.Gone)},
		"deadline looks, whatever its job does": {both(accepted, overdue), seen(created), asksJob(d)},
		"deadline waits for an update at work":  {overdue, seen(updating), waits(d)},
		"unknown row after ours":                {as, seen(unknown(), row), remove},
		"unknown row waits for an open POST":    {opened(lc.Create, 90), seen(unknown()), waits(d)},
		"row of a recorded GUID":                {owning("other"), seen(unknown()), other},
		"delete failed waits for an open PATCH": {both(accepted, opened(lc.Update, 90)), withJob(seen(failed), byBroker("")), waits(d)},
		"refusals wait for an update at work":   {often, seen(updating), waits(d)},
		"row and own job processing waits":      {accepted, withJob(seen(row), inState(lc.JobProcessing)), waits(d)},
		"row and own job ended removes again":   {accepted, withJob(seen(row), inState(lc.JobComplete)), remove},
		"row and own job lost removes again":    {accepted, withJob(seen(row), inState(lc.JobLost)), remove},
		"other row after the job is removed":    {accepted, withJob(seen(foreign(90)), inState(lc.JobComplete)), other},
		"answer unknown removes again":          {sent, seen(row), remove},
		"delete failed on the broker's word":    {accepted, withJob(seen(failed), byBroker("")), ends(lc.DeleteFailed)},
		"delete failed in Cloud Foundry itself": {accepted, withJob(seen(failed), inState(lc.JobFailed)), remove},
		"delete failed long ago":                {as, seen(failed), remove},
		"broker's word, but the row says no":    {accepted, withJob(seen(row), byBroker("")), remove},
	}
}

// ofMany makes the tick one of many that share a list.
func ofMany(t lc.Tick) lc.Tick {
	t.OneOfMany = true
	return t
}

// TestDelete is docs/protocol.md section 6, row by row.
func TestDelete(t *testing.T) {
	t.Parallel()
	tests := removals()
	unlisted := seen(mine(lc.Create, lc.LastSucceeded))
	unlisted.BindingsKnown = false
	vanished := unlisted
	vanished.Look = &lc.Look{Began: noon()}
	const d = lc.Deleting
	tests["none asks for the bindings"] = tickTest{as, vanished, does(d, lc.ListBindings, "")}
	tests["none at the deadline does not"] = tickTest{overdue, vanished, ends(lc.Gone)}
	tests["looks by name"] = tickTest{as, bare(), does(d, lc.FindByName, "")}
	tests["one of many looks first"] = tickTest{accepted, ofMany(bare()), does(d, lc.FindByName, "")}
	tests["row asks for the bindings"] = tickTest{as, unlisted, does(d, lc.ListBindings, "")}
	runTicks(t, stored(lc.Instance, d), tests)
}

// TestUnbind is section 7; the rows are those of a delete.
func TestUnbind(t *testing.T) {
	t.Parallel()
	tests := removals()
	never := func(r *lc.Record) { r.InstanceGUID = "" }
	const d = lc.Deleting
	tests["no key was ever posted"] = tickTest{never, bare(), ends(lc.Gone)}
	tests["reads the instance"] = tickTest{as, bare(), does(d, lc.ReadInstance, "")}
	tests["looks under the recorded instance"] = tickTest{as, under(bare(), instance(lc.Ready)), does(d, lc.FindByName, "parent")}
	tests["one of many looks first"] = tickTest{accepted, ofMany(under(bare(), instance(lc.Ready))), does(d, lc.FindByName, "parent")}
	tests["instance updating does not matter"] = tickTest{as, under(seen(mine(lc.Create, lc.LastSucceeded)), instance(lc.Updating)), does(d, lc.SendDelete, "guid")}
	tests["open POST to an instance that is gone"] = tickTest{opened(lc.Create, 90), under(seen(), instance(lc.Gone)), ends(lc.Gone)}
	tests["open POST to an instance being deleted"] = tickTest{opened(lc.Create, 90), under(seen(), instance(lc.Deleting)), waits(d)}
	runTicks(t, stored(lc.Binding, d), tests)
}

// TestDeleteWaitsForItsBindings: bindings of this incarnation go first.
func TestDeleteWaitsForItsBindings(t *testing.T) {
	t.Parallel()
	view := func(s lc.State, open bool) lc.BindingView {
		return lc.BindingView{ID: string(s), State: s, InstanceCreateOp: "made", HasOpenCreate: open}
	}
	former := view(lc.Ready, true)
	former.InstanceCreateOp = "former"
	type test struct {
		bindings []lc.BindingView
		do       lc.Action
		unbound  []string
		noneLeft bool
	}
	each(t, map[string]test{
		"none":                             {nil, lc.SendDelete, nil, true},
		"of a former incarnation":          {[]lc.BindingView{former}, lc.SendDelete, nil, true},
		"gone":                             {[]lc.BindingView{view(lc.Gone, true), view(lc.Ghost, false)}, lc.SendDelete, nil, true},
		"creating, ready and failed":       {[]lc.BindingView{view(lc.Creating, false), view(lc.Ready, false), view(lc.CreateFailed, false)}, lc.Unbind, []string{"creating", "ready", "create failed"}, false},
		"deleting":                         {[]lc.BindingView{view(lc.Deleting, false)}, lc.Wait, nil, false},
		"deleting beside a ready one":      {[]lc.BindingView{view(lc.Deleting, false), view(lc.Ready, false)}, lc.Unbind, []string{"ready"}, false},
		"unbind failed":                    {[]lc.BindingView{view(lc.DeleteFailed, false)}, lc.SendDelete, nil, false},
		"unbind failed, with an open POST": {[]lc.BindingView{view(lc.DeleteFailed, true)}, lc.Wait, nil, false},
	}, func(t *testing.T, test test) {
		tick := seen(mine(lc.Create, lc.LastSucceeded))
		tick.Bindings = test.bindings
		d := decide(t, stored(lc.Instance, lc.Deleting), tick)
		if diff := cmp.Diff(test.unbound, d.Effect.Bindings); diff != "" || d.Effect.Do != test.do {
			t.Errorf("does %q, want %q; unbinds (-want +got):\n%s", d.Effect.Do, test.do, diff)
		}
		if d.Record.Operation.NoBindingsLeft != test.noneLeft {
			t.Errorf("no bindings left: %t, want %t", d.Record.Operation.NoBindingsLeft, test.noneLeft)
		}
	})
}

// TestGone: the tombstone keeps the counters, and what may still take effect.
func TestGone(t *testing.T) {
	t.Parallel()
	r := stored(lc.Instance, lc.Deleting)
	r.OpenCalls = []lc.OpenCall{open(lc.Update, 90)}
	got := decide(t, r, seen()).Record
	if got.Life != r.Life+1 || got.Seq != r.Seq || !got.ExpiresAt.Equal(noon().Add(keep)) || len(got.OpenCalls) != 1 {
		t.Errorf("tombstone %+v", got)
	}
}
