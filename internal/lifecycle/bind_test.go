package lifecycle_test

import (
	"testing"

	lc "github.com/ferry-broker/ferry/internal/lifecycle"
)

// under is the tick with the instance in another state.
func under(t lc.Tick, v lc.InstanceView) lc.Tick {
	t.Instance = &v
	t.Place = &lc.Place{}
	return t
}

// TestBind is docs/protocol.md section 7; the rows of keys are those of section 4.
func TestBind(t *testing.T) {
	t.Parallel()
	ok, failed, busy := mine(lc.Create, lc.LastSucceeded), mine(lc.Create, lc.LastFailed), mine(lc.Create, lc.LastInProgress)
	fresh := func(r *lc.Record) { r.Operation.IDWasFree = true }
	early := func(r *lc.Record) { r.InstanceGUID = "" }
	cleaned := func(r *lc.Record) { r.Operation.Cleanup = lc.Cleanup{GUID: "guid", Job: "job"} }
	another, never := instance(lc.Ready), instance(lc.DeleteFailed)
	another.CreateOp, never.CFGUID = "another", ""
	const c = lc.Creating
	job := inState(lc.JobFailed)
	post, clean := does(c, lc.SendCreate, ""), does(c, lc.SendDeleteLeftover, "guid")
	runTicks(t, stored(lc.Binding, c), map[string]tickTest{
		"reads the instance, even for a first call": {fresh, bare(), does(c, lc.ReadInstance, "")},
		"first call of a fresh claim is sent":       {fresh, under(bare(), instance(lc.Ready)), post},
		"looks under the recorded instance":         {as, under(bare(), instance(lc.Ready)), does(c, lc.FindByName, "parent")},
		"looks under an instance just made":         {early, under(bare(), instance(lc.Ready)), does(c, lc.FindByName, "parent")},

		"instance updating is posted to":           {as, under(seen(), instance(lc.Updating)), post},
		"instance of a failed update is posted to": {as, under(seen(), instance(lc.UpdateFailed)), post},
		"instance creating waits without a GUID":   {early, under(seen(), instance(lc.Creating)), waits(c)},
		"instance ready at last is posted to":      {both(early, fresh), under(bare(), instance(lc.Ready)), post},
		"instance create failed fails":             {early, under(bare(), instance(lc.CreateFailed)), ends(lc.CreateFailed)},
		"instance that never was fails":            {early, under(bare(), never), ends(lc.CreateFailed)},
		"instance deleting fails":                  {as, under(bare(), instance(lc.Deleting)), ends(lc.CreateFailed)},
		"instance deleting waits for an open POST": {opened(lc.Create, 100), under(bare(), instance(lc.Deleting)), waits(c)},
		"instance gone fails":                      {as, under(bare(), instance(lc.Gone)), ends(lc.CreateFailed)},
		"instance gone fails over an open POST":    {opened(lc.Create, 100), under(bare(), instance(lc.Gone)), ends(lc.CreateFailed)},
		"instance absent fails":                    {as, under(bare(), instance(lc.Absent)), ends(lc.CreateFailed)},
		"another incarnation fails":                {as, under(seen(ok), another), ends(lc.CreateFailed)},

		"none is posted":                        {as, seen(), post},
		"mine in progress waits":                {as, seen(busy), waits(c)},
		"mine succeeded succeeds":               {as, seen(ok), ends(lc.Ready)},
		"mine failed and job failed":            {accepted, withJob(seen(failed), job), ends(lc.CreateFailed)},
		"held: mine failed is removed":          {both(accepted, held), withJob(seen(failed), job), clean},
		"held: a removal is waited for":         {both(accepted, held, refused, cleaned), withJob(seen(failed), inState(lc.JobProcessing)), waits(c)},
		"held: a removal that is unknown again": {both(accepted, held, refused), seen(failed), clean},
		"held: a removal that failed is no key": {both(accepted, held, refused, cleaned), withJob(seen(mine(lc.Delete, lc.LastFailed)), job), clean},
		"held: made after all, is no key":       {both(accepted, held, refused, cleaned), withJob(seen(ok), inState(lc.JobComplete)), clean},
		"held: none left fails":                 {both(accepted, held, refused), seen(), ends(lc.CreateFailed)},
		"stranger's key fails":                  {as, seen(lc.Row{GUID: "theirs"}), ends(lc.CreateFailed)},
	})
}

// TestBindThatCannotBeMadeExpires: its record is forgotten by itself where no attempt can
// have left a key; a former one, which failed, may have (protocol.md 8).
func TestBindThatCannotBeMadeExpires(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		state   lc.State
		fresh   bool
		calls   int
		expires bool
	}{
		"nothing was sent":             {lc.Deleting, true, 0, true},
		"a POST was sent":              {lc.Deleting, true, 1, false},
		"a former bind failed":         {lc.Deleting, false, 0, false},
		"the instance and all is gone": {lc.Gone, false, 1, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := stored(lc.Binding, lc.Creating)
			r.Operation.IDWasFree, r.Operation.Calls = test.fresh, test.calls
			d, err := lc.Next(r, under(bare(), instance(test.state)))
			if err != nil || d.Record.State != lc.CreateFailed || d.Record.ExpiresAt.IsZero() == test.expires {
				t.Errorf("%q, expires %v, %v; want a failed bind that expires: %t", d.Record.State, d.Record.ExpiresAt, err, test.expires)
			}
		})
	}
}

// TestBindRecordsItsInstance: the GUID comes into the record in the write before the POST.
func TestBindRecordsItsInstance(t *testing.T) {
	t.Parallel()
	r := stored(lc.Binding, lc.Creating)
	r.InstanceGUID, r.Operation.IDWasFree = "", true
	tick := under(bare(), instance(lc.Ready))
	tick.Place = &lc.Place{API: "https://api.example", OrgGUID: "org"}
	d, err := lc.Next(r, tick)
	if err != nil || !d.Write || d.Effect.Do != lc.SendCreate || d.Record.InstanceGUID != "parent" || d.Record.Place != *tick.Place {
		t.Errorf("%+v, %v", d, err)
	}
}

// TestHeldBindRemembersTheFailure: the row that told it is gone when it is reported.
func TestHeldBindRemembersTheFailure(t *testing.T) {
	t.Parallel()
	r := stored(lc.Binding, lc.Creating)
	accepted(&r)
	held(&r)
	row := mine(lc.Create, lc.LastFailed)
	row.Last.Description = "no more keys"
	d, err := lc.Next(r, withJob(seen(row), &lc.JobStatus{State: lc.JobFailed, Code: "RequiresApp"}))
	if err != nil {
		t.Fatal(err)
	}
	d, err = lc.Next(d.Record, seen())
	if err != nil || d.Result == nil || d.Result.Description != "no more keys" || d.Result.Code != "RequiresApp" {
		t.Errorf("ended %+v, %v", d.Result, err)
	}
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
	tests["instance updating does not matter"] = tickTest{as, under(seen(mine(lc.Create, lc.LastSucceeded)), instance(lc.Updating)), does(d, lc.SendDelete, "guid")}
	tests["open POST to an instance that is gone"] = tickTest{opened(lc.Create, 90), under(seen(), instance(lc.Gone)), ends(lc.Gone)}
	tests["open POST to an instance being deleted"] = tickTest{opened(lc.Create, 90), under(seen(), instance(lc.Deleting)), waits(d)}
	runTicks(t, stored(lc.Binding, d), tests)
}
