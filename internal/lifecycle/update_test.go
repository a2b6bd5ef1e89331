package lifecycle_test

import (
	"cmp"
	"testing"
	"time"

	lc "github.com/ferry-broker/ferry/internal/lifecycle"
)

// TestUpdate is docs/protocol.md section 5, in its order.
func TestUpdate(t *testing.T) {
	t.Parallel()
	idle, busy, failed := mine(lc.Create, lc.LastSucceeded), mine(lc.Update, lc.LastInProgress), mine(lc.Update, lc.LastFailed)
	quiet, other := busy, idle
	quiet.Age, other.GUID = 3*time.Minute, "other"
	marked, elsewhere := mine(lc.Update, lc.LastSucceeded), mine(lc.Update, lc.LastSucceeded)
	marked.Update, elsewhere.Update = "mine", "theirs"
	calls := func(n, answered int) func(*lc.Record) {
		return func(r *lc.Record) { r.Operation.Calls, r.Operation.Answered = n, answered }
	}
	longOver := func(r *lc.Record) { r.Operation.Deadline = noon().Add(-settleAfter) }
	const u = lc.Updating
	patch := does(u, lc.SendUpdate, "guid")
	runTicks(t, stored(lc.Instance, u), map[string]tickTest{
		"looks by GUID":                            {as, bare(), does(u, lc.FindByGUID, "guid")},
		"row gone fails":                           {as, seen(), ends(lc.UpdateFailed)},
		"row of another GUID is not it":            {as, seen(other), ends(lc.UpdateFailed)},
		"mark mine succeeds":                       {as, seen(marked), ends(lc.Ready)},
		"mark mine succeeds over a failed job":     {accepted, withJob(seen(marked), inState(lc.JobFailed)), ends(lc.Ready)},
		"mark of another is not mine":              {as, seen(elsewhere), patch},
		"accepted asks its job":                    {accepted, seen(failed), asksJob(u)},
		"a row in progress speaks for its job":     {accepted, seen(busy), waits(u)},
		"but not when it is written no more":       {accepted, seen(quiet), asksJob(u)},
		"a job that runs is waited for":            {accepted, withJob(seen(quiet), inState(lc.JobPolling)), waits(u)},
		"one that failed under such a row fails":   {accepted, withJob(seen(quiet), inState(lc.JobFailed)), ends(lc.UpdateFailed)},
		"without a job there is none to ask":       {as, seen(quiet), waits(u)},
		"own job failed fails":                     {accepted, withJob(seen(failed), inState(lc.JobFailed)), ends(lc.UpdateFailed)},
		"own job failed waits for an open call":    {both(accepted, opened(lc.Update, 100)), withJob(seen(failed), inState(lc.JobFailed)), waits(u)},
		"own job failed, another PATCH at work":    {both(accepted, calls(2, 1)), withJob(seen(busy), inState(lc.JobFailed)), waits(u)},
		"own job failed and nothing at work":       {both(accepted, calls(2, 1)), withJob(seen(failed), inState(lc.JobFailed)), ends(lc.UpdateFailed)},
		"refused for good, another PATCH at work":  {both(refused, calls(2, 1)), seen(busy), waits(u)},
		"deadline looks once more":                 {both(accepted, overdue), bare(), does(u, lc.FindByGUID, "guid")},
		"deadline ends it":                         {overdue, seen(idle), ends(lc.UpdateFailed)},
		"deadline sees its mark":                   {overdue, seen(marked), ends(lc.Ready)},
		"deadline waits for the PATCH at work":     {overdue, seen(busy), waits(u)},
		"deadline waits for an open PATCH":         {both(overdue, opened(lc.Update, 100)), seen(idle), waits(u)},
		"deadline waits blindly for an open PATCH": {both(overdue, opened(lc.Update, 100)), blind(), waits(u)},
		"deadline does not wait for ever":          {longOver, seen(busy), ends(lc.UpdateFailed)},
		"refused for good fails":                   {refused, seen(idle), ends(lc.UpdateFailed)},
		"refused for good waits for an open one":   {both(refused, opened(lc.Update, 100)), seen(idle), waits(u)},
		"row in progress waits":                    {as, seen(busy), waits(u)},
		"row that just began waits":                {as, seen(mine(lc.Update, lc.LastInitial)), waits(u)},
		"open call of another waits":               {opened(lc.Update, 90), seen(idle), waits(u)},
		"open POST of the create waits":            {opened(lc.Create, 90), seen(idle), waits(u)},
		"own open call is not waited for":          {both(calls(1, 0), opened(lc.Update, 100)), seen(idle), patch},
		"idle row is patched":                      {as, seen(idle), patch},
		"second try":                               {calls(1, 0), seen(idle), patch},
		"third try":                                {calls(2, 0), seen(idle), patch},
		"no fourth try":                            {calls(3, 0), seen(idle), ends(lc.UpdateFailed)},
		"no fourth try, but an open call":          {both(calls(3, 0), opened(lc.Update, 100)), seen(idle), waits(u)},
		"tries that were answered do not count":    {calls(9, 7), seen(idle), patch},
		"accepted is not sent again":               {accepted, withJob(seen(idle), inState(lc.JobProcessing)), waits(u)},
		"accepted and unclear waits":               {accepted, withJob(seen(failed), inState(lc.JobUnclear)), waits(u)},
		"job lost and row failed fails":            {accepted, withJob(seen(failed), inState(lc.JobLost)), ends(lc.UpdateFailed)},
		"job lost and row idle waits":              {accepted, withJob(seen(idle), inState(lc.JobLost)), waits(u)},
	})
}

// TestUpdateAsksTwiceAndWaitsTwice: however long a row stays in progress, waiting costs one call to Cloud Foundry for
// each wait, and the driver is back at the deadline.
func TestUpdateAsksTwiceAndWaitsTwice(t *testing.T) {
	t.Parallel()
	stuck := mine(lc.Update, lc.LastInProgress)
	stuck.Age = time.Hour
	type test struct{ wait, left, want time.Duration }
	each(t, map[string]test{
		"twice":                   {time.Minute, week, 2 * time.Minute},
		"not beyond the longest":  {40 * time.Minute, week, lc.LongestWait},
		"not beyond the deadline": {time.Minute, 90 * time.Second, 90 * time.Second},
		"past the deadline":       {time.Minute, -time.Second, time.Minute},
	}, func(t *testing.T, test test) {
		r, tick := stored(lc.Instance, lc.Updating), withJob(seen(stuck), inState(lc.JobPolling))
		accepted(&r)
		r.Operation.Deadline, tick.Wait = tick.Now.Add(test.left), test.wait
		d := decide(t, r, tick)
		if wait := cmp.Or(d.Wait, tick.Wait); d.Effect.Do != lc.Wait || wait != test.want {
			t.Errorf("%s for %s, want %s", d.Effect.Do, wait, test.want)
		}
	})
}

// TestUpdateOfWhatIsGone says that the instance works no more, and that the same update would fail again: when no row
// is found, and when the update was answered so.
func TestUpdateOfWhatIsGone(t *testing.T) {
	t.Parallel()
	answered, reply := sentOff(lc.Updating, lc.SendUpdate, lc.ReplyAbsent)
	answered = decide(t, answered, reply).Record
	answered.OpenCalls = nil
	for _, d := range []lc.Decision{
		decide(t, stored(lc.Instance, lc.Updating), seen()),
		decide(t, answered, seen(mine(lc.Create, lc.LastFailed))),
	} {
		if d.Result == nil || !d.Result.InstanceUnusable || !d.Result.UpdateNotRepeatable {
			t.Errorf("ended as %+v", d.Result)
		}
	}
}
