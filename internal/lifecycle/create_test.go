package lifecycle_test

import (
	"testing"
	"time"

	lc "github.com/ferry-broker/ferry/internal/lifecycle"
)

// TestCreate is docs/protocol.md section 4, row by row.
func TestCreate(t *testing.T) {
	t.Parallel()
	ok, failed, busy := mine(lc.Create, lc.LastSucceeded), mine(lc.Create, lc.LastFailed), mine(lc.Create, lc.LastInProgress)
	initial := mine(lc.Create, lc.LastInitial)
	old := failed
	old.Age = settleAfter + 1
	settling := failed
	settling.Age = settleAfter
	halfGone, going, changed := mine(lc.Delete, lc.LastFailed), mine(lc.Delete, lc.LastInProgress), mine(lc.Update, lc.LastFailed)
	stranger := lc.Row{GUID: "theirs"}
	fresh := func(r *lc.Record) { r.Operation.Fresh = true }
	tried := func(r *lc.Record) { r.Operation.Calls = 1 }
	cleaning := func(r *lc.Record) { r.Operation.Cleanup = lc.Cleanup{GUID: "other", Job: "job"} }
	const c = lc.Creating
	runTicks(t, stored(lc.Instance, c), map[string]tickTest{
		"first call of a fresh claim is sent without a look-up": {fresh, bare(), does(c, lc.Post, "")},
		"second call looks first":                               {both(fresh, tried), bare(), does(c, lc.Find, "")},
		"claim over a living record looks first":                {as, bare(), does(c, lc.Find, "")},

		"none and accepted vanished":                 {accepted, seen(), ends(lc.CreateFailed)},
		"none and accepted waits for an open call":   {both(accepted, opened(lc.Create, 90)), seen(), waits(c)},
		"none is posted":                             {as, seen(), does(c, lc.Post, "")},
		"none is posted beside an open call":         {both(tried, opened(lc.Create, 100)), seen(), does(c, lc.Post, "")},
		"older row is removed":                       {as, seen(foreign(99)), does(c, lc.RemoveLeftover, "other")},
		"older row of the same seq is never adopted": {as, seen(foreign(100)), does(c, lc.RemoveLeftover, "other")},
		"older row being removed asks the job":       {cleaning, seen(foreign(99)), asksJob(c)},
		"older row being removed waits":              {cleaning, withJob(seen(foreign(99)), inState(lc.JobPolling)), waits(c)},
		"older row whose removal is unclear waits":   {cleaning, withJob(seen(foreign(99)), inState(lc.JobUnclear)), waits(c)},
		"older row whose removal failed is removed again": {cleaning, withJob(seen(foreign(99)), inState(lc.JobFailed)),
			does(c, lc.RemoveLeftover, "other")},
		"newer row stops a stale actor": {as, seen(foreign(101)), waits(c)},

		"mine initial waits":                   {accepted, seen(initial), waits(c)},
		"mine in progress waits":               {accepted, seen(busy), waits(c)},
		"mine succeeded succeeds":              {accepted, seen(ok), ends(lc.Ready)},
		"mine succeeded beside an open call":   {both(accepted, opened(lc.Create, 90)), seen(ok), ends(lc.Ready)},
		"mine succeeded but refused before":    {refused, seen(ok), ends(lc.Ready)},
		"mine without a last operation":        {accepted, seen(mine("", "")), ends(lc.Ready)},
		"mine changed by somebody since":       {accepted, seen(changed), ends(lc.Ready)},
		"mine failed asks its job":             {accepted, seen(failed), asksJob(c)},
		"mine failed and job failed":           {accepted, withJob(seen(failed), inState(lc.JobFailed)), ends(lc.CreateFailed)},
		"mine failed but job processing waits": {accepted, withJob(seen(failed), inState(lc.JobProcessing)), waits(c)},
		"mine failed but old job processing":   {accepted, withJob(seen(old), inState(lc.JobProcessing)), waits(c)},
		"mine failed and job unclear waits":    {accepted, withJob(seen(old), inState(lc.JobUnclear)), waits(c)},
		"mine failed long ago and job polling": {accepted, withJob(seen(old), inState(lc.JobPolling)), ends(lc.CreateFailed)},
		"mine failed just now and job polling": {accepted, withJob(seen(settling), inState(lc.JobPolling)), waits(c)},
		"mine failed long ago and job lost":    {accepted, withJob(seen(old), inState(lc.JobLost)), ends(lc.CreateFailed)},
		"mine failed just now and job lost":    {accepted, withJob(seen(failed), inState(lc.JobLost)), waits(c)},
		"mine failed long ago and no job":      {tried, seen(old), ends(lc.CreateFailed)},
		"mine failed just now and no job":      {tried, seen(failed), waits(c)},
		"mine failed waits for an open call": {both(accepted, opened(lc.Create, 100)), withJob(seen(old), inState(lc.JobFailed)),
			waits(c)},

		"mine being deleted by somebody waits":         {accepted, seen(going), waits(c)},
		"mine half deleted and never made":             {accepted, withJob(seen(halfGone), inState(lc.JobFailed)), ends(lc.CreateFailed)},
		"mine half deleted and made":                   {accepted, withJob(seen(halfGone), inState(lc.JobComplete)), ends(lc.Ready)},
		"none but refused fails":                       {refused, seen(), ends(lc.CreateFailed)},
		"none but refused waits for an open call":      {both(refused, opened(lc.Create, 100)), seen(), waits(c)},
		"several rows: the older goes first":           {accepted, seen(ok, foreign(99)), does(c, lc.RemoveLeftover, "other")},
		"several rows: a newer one stops":              {accepted, seen(ok, foreign(101)), waits(c)},
		"unmarked row fails":                           {as, seen(stranger), ends(lc.CreateFailed)},
		"unmarked row waits for an open call":          {opened(lc.Create, 90), seen(stranger), waits(c)},
		"unmarked row beside mine does not matter":     {accepted, seen(stranger, ok), ends(lc.Ready)},
		"unmarked row beside mine does not hurry":      {accepted, seen(stranger, busy), waits(c)},
		"open call of a former update counts for fail": {both(refused, opened(lc.Update, 90)), seen(), waits(c)},
	})
}

func TestCreateSucceedsWithTheGUIDOfItsRow(t *testing.T) {
	t.Parallel()
	d, err := lc.Next(stored(lc.Instance, lc.Creating), seen(mine(lc.Create, lc.LastSucceeded)))
	if err != nil || d.Record.CFGUID != "guid" || !d.Settled {
		t.Errorf("GUID %q, settled %t, %v", d.Record.CFGUID, d.Settled, err)
	}
}

func TestFailureSaysWhy(t *testing.T) {
	t.Parallel()
	row := mine(lc.Create, lc.LastFailed)
	silent := row
	row.Last.Description = "the row's reason"
	r := stored(lc.Instance, lc.Creating)
	accepted(&r)
	for name, test := range map[string]struct {
		row  lc.Row
		job  string
		want string
	}{
		"the row's reason first": {row, "the job's reason", "the row's reason"},
		"else the job's":         {silent, "the job's reason", "the job's reason"},
		"never nothing":          {silent, "", "Cloud Foundry reported a failure and gave no reason."},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			job := &lc.JobSight{State: lc.JobFailed, Description: test.job, Code: "RequiresApp"}
			d, err := lc.Next(r, withJob(seen(test.row), job))
			if err != nil || d.Ended == nil || d.Ended.Description != test.want || d.Ended.Code != "RequiresApp" {
				t.Errorf("ended %+v, %v, want %q", d.Ended, err, test.want)
			}
		})
	}
}

// TestOpenCall: what the intent to POST leaves in the record.
func TestOpenCall(t *testing.T) {
	t.Parallel()
	r := stored(lc.Instance, lc.Creating)
	r.LastCall = 7
	r.OpenCalls = []lc.OpenCall{{N: 6, Seq: 90, Verb: lc.Create, Until: noon()}, open(lc.Create, 100)}
	tick := seen()
	tick.Now = noon().Add(2 * time.Second)
	d, err := lc.Next(r, tick)
	if err != nil {
		t.Fatal(err)
	}
	if len(d.Record.OpenCalls) != 2 || d.Record.OpenCalls[0].N != 7 {
		t.Errorf("open calls %+v: want the expired one dropped, the other kept", d.Record.OpenCalls)
	}
	mine := d.Record.OpenCalls[len(d.Record.OpenCalls)-1]
	want := lc.OpenCall{N: 8, Seq: 100, Verb: lc.Create, Until: tick.Now.Add(settleAfter)}
	if mine != want || d.Effect.Call != 8 || d.Record.LastCall != 8 || d.Record.Operation.Calls != 1 {
		t.Errorf("open call %+v, want %+v; effect %+v", mine, want, d.Effect)
	}
	if l := d.Record.Operation.Lease; l.Holder != "driver" || !l.Until.Equal(tick.LeaseUntil) {
		t.Errorf("lease %+v", l)
	}
}
