package lifecycle_test

import (
	"fmt"
	"slices"
	"testing"

	lc "github.com/ferry-broker/ferry/internal/lifecycle"
)

// TestCreate is docs/protocol.md section 4, row by row.
func TestCreate(t *testing.T) {
	t.Parallel()
	ok, failed, busy := mine(lc.Create, lc.LastSucceeded), mine(lc.Create, lc.LastFailed), mine(lc.Create, lc.LastInProgress)
	initial := mine(lc.Create, lc.LastInitial)
	old, settling, second := failed, failed, ok
	old.Age, settling.Age, second.GUID = settleAfter+1, settleAfter, "second"
	halfGone, going, changed := mine(lc.Delete, lc.LastFailed), mine(lc.Delete, lc.LastInProgress), mine(lc.Update, lc.LastFailed)
	tried := func(r *lc.Record) { r.Operation.Calls = 1 }
	cleaning := func(r *lc.Record) { r.Operation.Cleanup = lc.Cleanup{GUID: "other", Job: "job"} }
	cleansed := func(r *lc.Record) { r.Operation.Cleanup = lc.Cleanup{GUID: "guid"} }
	taken := func(n int) func(*lc.Record) {
		return func(r *lc.Record) { r.Operation.NameTaken, r.Operation.Calls = n, n }
	}
	named := &lc.JobStatus{State: lc.JobComplete, GUID: "guid"}
	located := under(bare(), instance(lc.Ready))
	const c = lc.Creating
	runTicks(t, stored(lc.Instance, c), map[string]tickTest{
		"first call of a fresh claim asks where it goes":        {idWasFree, bare(), does(c, lc.FindOrg, "")},
		"first call of a fresh claim is sent without a look-up": {idWasFree, located, does(c, lc.SendCreate, "")},
		"first call looks where GUIDs are known":                {both(idWasFree, owning("other")), located, does(c, lc.FindByName, "")},
		"second call looks first":                               {both(idWasFree, tried), bare(), does(c, lc.FindByName, "")},
		"claim over a living record looks first":                {as, bare(), does(c, lc.FindByName, "")},

		"none and accepted asks its job for the row": {accepted, seen(), asksJob(c)},
		"none and accepted looks for what it names":  {accepted, withJob(seen(), named), waits(c)},
		"none and accepted vanished":                 {accepted, withJob(seen(), inState(lc.JobComplete)), ends(lc.CreateFailed)},
		"none of that GUID either vanished":          {both(accepted, owning("guid")), withJob(seen(), named), ends(lc.CreateFailed)},
		"none and accepted waits for an open call":   {both(accepted, opened(lc.Create, 90)), withJob(seen(), inState(lc.JobComplete)), waits(c)},
		"none is posted":                             {as, seen(), does(c, lc.SendCreate, "")},
		"none is posted beside an open call":         {both(tried, opened(lc.Create, 100)), seen(), does(c, lc.SendCreate, "")},
		"older row is removed":                       {as, seen(foreign(99)), does(c, lc.SendDeleteLeftover, "other")},
		"older row of the same seq is never adopted": {as, seen(foreign(100)), does(c, lc.SendDeleteLeftover, "other")},
		"older row being removed asks the job":       {cleaning, seen(foreign(99)), asksJob(c)},
		"older row being removed waits":              {cleaning, withJob(seen(foreign(99)), inState(lc.JobPolling)), waits(c)},
		"older row whose removal is unclear waits":   {cleaning, withJob(seen(foreign(99)), inState(lc.JobUnclear)), waits(c)},
		"older row whose removal failed is removed again": {cleaning, withJob(seen(foreign(99)), inState(lc.JobFailed)),
			does(c, lc.SendDeleteLeftover, "other")},
		"row of an unknown operation fails":            {as, seen(unknown()), ends(lc.CreateFailed)},
		"row of an unknown operation, open call waits": {opened(lc.Create, 100), seen(unknown()), waits(c)},
		"row of a recorded GUID is a leftover":         {owning("other"), seen(unknown()), does(c, lc.SendDeleteLeftover, "other")},
		"row of a recorded GUID without marks too":     {owning("theirs"), seen(stranger()), does(c, lc.SendDeleteLeftover, "theirs")},
		"row that it has begun to remove is not mine":  {cleansed, seen(ok), does(c, lc.SendDeleteLeftover, "guid")},
		"of two rows of mine the other one goes":       {both(accepted, owning("guid")), seen(second, ok), does(c, lc.SendDeleteLeftover, "second")},
		"mine seen twice is one":                       {accepted, seen(ok, ok), ends(lc.Ready)},
		"none after taken is posted again":             {taken(2), seen(), does(c, lc.SendCreate, "")},
		"none after taken three times fails":           {taken(3), seen(), ends(lc.CreateFailed)},
		"none after taken waits for an open call":      {both(taken(3), opened(lc.Create, 100)), seen(), waits(c)},

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
		"several rows: the older goes first":           {accepted, seen(ok, foreign(99)), does(c, lc.SendDeleteLeftover, "other")},
		"several rows: an unknown one fails":           {accepted, seen(ok, unknown()), ends(lc.CreateFailed)},
		"unmarked row fails":                           {as, seen(stranger()), ends(lc.CreateFailed)},
		"unmarked row waits for an open call":          {opened(lc.Create, 90), seen(stranger()), waits(c)},
		"unmarked row beside mine does not matter":     {accepted, seen(stranger(), ok), ends(lc.Ready)},
		"unmarked row beside mine does not hurry":      {accepted, seen(stranger(), busy), waits(c)},
		"open call of a former update counts for fail": {both(refused, opened(lc.Update, 90)), seen(), waits(c)},
	})
}

// TestBind is docs/protocol.md section 7; the rows of keys are those of section 4.
func TestBind(t *testing.T) {
	t.Parallel()
	ok, failed, busy := mine(lc.Create, lc.LastSucceeded), mine(lc.Create, lc.LastFailed), mine(lc.Create, lc.LastInProgress)
	early := func(r *lc.Record) { r.InstanceGUID = "" }
	cleaned := func(r *lc.Record) { r.Operation.Cleanup = lc.Cleanup{GUID: "guid", Job: "job"} }
	never, byName := instance(lc.DeleteFailed), ok
	never.CFGUID, byName.MarkedByName = "", true
	const c = lc.Creating
	post, clean := does(c, lc.SendCreate, ""), does(c, lc.SendDeleteLeftover, "guid")
	runTicks(t, stored(lc.Binding, c), map[string]tickTest{
		"reads the instance, even for a first call": {idWasFree, bare(), does(c, lc.ReadInstance, "")},
		"first call of a fresh claim is sent":       {idWasFree, under(bare(), instance(lc.Ready)), post},
		"looks under the recorded instance":         {as, under(bare(), instance(lc.Ready)), does(c, lc.FindByName, "parent")},
		"looks under an instance just made":         {early, under(bare(), instance(lc.Ready)), does(c, lc.FindByName, "parent")},

		"instance updating is posted to":           {as, under(seen(), instance(lc.Updating)), post},
		"instance of a failed update is posted to": {as, under(seen(), instance(lc.UpdateFailed)), post},
		"instance creating waits without a GUID":   {early, under(seen(), instance(lc.Creating)), waits(c)},
		"instance ready at last is posted to":      {both(early, idWasFree), under(bare(), instance(lc.Ready)), post},
		"instance create failed fails":             {early, under(bare(), instance(lc.CreateFailed)), ends(lc.CreateFailed)},
		"instance that never was fails":            {early, under(bare(), never), ends(lc.CreateFailed)},
		"instance deleting fails":                  {as, under(bare(), instance(lc.Deleting)), ends(lc.CreateFailed)},
		"instance deleting waits for an open POST": {opened(lc.Create, 100), under(bare(), instance(lc.Deleting)), waits(c)},
		"instance gone fails":                      {as, under(bare(), instance(lc.Gone)), ends(lc.CreateFailed)},
		"instance gone fails over an open POST":    {opened(lc.Create, 100), under(bare(), instance(lc.Gone)), ends(lc.CreateFailed)},
		"instance absent fails":                    {as, under(bare(), instance(lc.Absent)), ends(lc.CreateFailed)},
		"another incarnation fails":                {as, under(seen(ok), another()), ends(lc.CreateFailed)},

		"none is posted":                        {as, seen(), post},
		"mine in progress waits":                {as, seen(busy), waits(c)},
		"mine succeeded succeeds":               {as, seen(ok), ends(lc.Ready)},
		"mine failed and job failed":            {accepted, withJob(seen(failed), inState(lc.JobFailed)), ends(lc.CreateFailed)},
		"held: mine failed is removed":          {both(accepted, held), withJob(seen(failed), inState(lc.JobFailed)), clean},
		"held: a removal is waited for":         {both(accepted, held, refused, cleaned), withJob(seen(failed), inState(lc.JobProcessing)), waits(c)},
		"held: a removal that is unknown again": {both(accepted, held, refused), seen(failed), clean},
		"held: a removal that failed is no key": {both(accepted, held, refused, cleaned), withJob(seen(mine(lc.Delete, lc.LastFailed)), inState(lc.JobFailed)), clean},
		"held: made after all, is no key":       {both(accepted, held, refused, cleaned), withJob(seen(ok), inState(lc.JobComplete)), clean},
		"held: none left fails":                 {both(accepted, held, refused), seen(), ends(lc.CreateFailed)},
		"stranger's key fails":                  {as, seen(stranger()), ends(lc.CreateFailed)},

		"marked by its name, nothing is open":       {as, seen(byName), ends(lc.Ready)},
		"marked by its name, an older POST is open": {opened(lc.Create, 99), seen(byName), waits(c)},
		"marked by its name, the own POST is open":  {opened(lc.Create, 100), seen(byName), ends(lc.Ready)},
		"marked, which keeps others out":            {opened(lc.Create, 99), seen(ok), ends(lc.Ready)},
	})
}

// TestBindThatCannotBeMadeExpires: its record is forgotten by itself where no attempt can have left a key; a former
// one, which failed, may have (docs/protocol.md 8).
func TestBindThatCannotBeMadeExpires(t *testing.T) {
	t.Parallel()
	type test struct {
		state   lc.State
		wasFree bool
		calls   int
		expires bool
	}
	each(t, map[string]test{
		"nothing was sent":             {lc.Deleting, true, 0, true},
		"a POST was sent":              {lc.Deleting, true, 1, false},
		"a former bind failed":         {lc.Deleting, false, 0, false},
		"the instance and all is gone": {lc.Gone, false, 1, true},
	}, func(t *testing.T, test test) {
		r := stored(lc.Binding, lc.Creating)
		r.Operation.IDWasFree, r.Operation.Calls = test.wasFree, test.calls
		d := decide(t, r, under(bare(), instance(test.state)))
		if d.Record.State != lc.CreateFailed || d.Record.ExpiresAt.IsZero() == test.expires {
			t.Errorf("%q, expires %v; want a failed bind that expires: %t", d.Record.State, d.Record.ExpiresAt, test.expires)
		}
	})
}

// TestBindRecordsItsInstance: the GUID comes into the record in the write before the POST.
func TestBindRecordsItsInstance(t *testing.T) {
	t.Parallel()
	r := stored(lc.Binding, lc.Creating)
	r.InstanceGUID, r.Operation.IDWasFree = "", true
	tick := under(bare(), instance(lc.Ready))
	tick.Place = &lc.Place{API: "https://api.example", OrgGUID: "org"}
	d := decide(t, r, tick)
	if !d.Write || d.Effect.Do != lc.SendCreate || d.Record.InstanceGUID != "parent" || d.Record.Place != *tick.Place {
		t.Errorf("%+v", d)
	}
}

// TestGUIDsAreRecordedEarly: with the answer to the POST, by the first tick that sees the row, and with each DELETE
// (docs/protocol.md 1). A create over a failed one keeps them, and nothing that is gone does.
func TestGUIDsAreRecordedEarly(t *testing.T) {
	t.Parallel()
	creating, deleting := stored(lc.Instance, lc.Creating), stored(lc.Instance, lc.Deleting)
	late, failed, gone := creating, stored(lc.Instance, lc.CreateFailed), stored(lc.Instance, lc.Gone)
	overdue(&late)
	failed.GUIDs, failed.CFGUID, failed.Place = []string{"first"}, "second", lc.Place{OrgGUID: "org"}
	gone.GUIDs, gone.Place = failed.GUIDs, failed.Place
	answered, reply := sentOff(lc.Creating, lc.SendCreate, lc.ReplyAccepted)
	reply.Answer.GUID = "guid"
	put := lc.Request{Verb: lc.Create, SameAttributes: true, AcceptsIncomplete: true}
	busy := mine(lc.Create, lc.LastInProgress)
	type test struct {
		r     lc.Record
		e     lc.Event
		guids []string
		place lc.Place
	}
	each(t, map[string]test{
		"the answer names it":      {answered, reply, []string{"guid"}, lc.Place{}},
		"a tick sees it":           {creating, seen(busy), []string{"guid"}, lc.Place{}},
		"a DELETE is sent":         {deleting, seen(foreign(90)), []string{"other"}, lc.Place{}},
		"a create over a failed":   {failed, put, []string{"first", "second"}, lc.Place{OrgGUID: "org"}},
		"a create over a tomb":     {gone, put, nil, lc.Place{}},
		"a delete keeps what is":   {failed, lc.Request{Verb: lc.Delete, AcceptsIncomplete: true}, []string{"first"}, lc.Place{OrgGUID: "org"}},
		"a delete that has ended":  {deleting, seen(), nil, lc.Place{}},
		"a create that has ended":  {creating, seen(mine(lc.Create, lc.LastSucceeded)), []string{"guid"}, lc.Place{}},
		"the deadline sees it":     {late, seen(busy), []string{"guid"}, lc.Place{}},
		"a leftover that is found": {creating, seen(foreign(90), busy), []string{"guid", "other"}, lc.Place{}},
	}, func(t *testing.T, test test) {
		d := decide(t, test.r, test.e)
		if !d.Write || !slices.Equal(d.Record.GUIDs, test.guids) || d.Record.Place != test.place {
			t.Errorf("wrote %t, GUIDs %q, place %v; want GUIDs %q, place %v", d.Write, d.Record.GUIDs, d.Record.Place, test.guids, test.place)
		}
	})
}

// TestGUIDsAreFew: a record stays small however often a create fails.
func TestGUIDsAreFew(t *testing.T) {
	t.Parallel()
	r := stored(lc.Instance, lc.Creating)
	for i := range 30 {
		row := mine(lc.Create, lc.LastInProgress)
		row.GUID = fmt.Sprint("guid-", i)
		r = decide(t, r, seen(row)).Record
	}
	if n := len(r.GUIDs); n != 10 || r.GUIDs[9] != "guid-29" {
		t.Errorf("%d GUIDs: %q", n, r.GUIDs)
	}
}

// TestFailureSaysWhy: a held bind too, whose row is gone when it is reported.
func TestFailureSaysWhy(t *testing.T) {
	t.Parallel()
	type test struct {
		row, job, want string
	}
	each(t, map[string]test{
		"the row's reason first": {"the row's reason", "the job's reason", "the row's reason"},
		"else the job's":         {"", "the job's reason", "the job's reason"},
		"never nothing":          {"", "", "Cloud Foundry reported a failure and gave no reason."},
	}, func(t *testing.T, test test) {
		row := mine(lc.Create, lc.LastFailed)
		row.Last.Description = test.row
		tick := withJob(seen(row), &lc.JobStatus{State: lc.JobFailed, Description: test.job, Code: "RequiresApp"})
		create, bind := stored(lc.Instance, lc.Creating), stored(lc.Binding, lc.Creating)
		accepted(&create)
		both(accepted, held)(&bind)
		for kind, d := range map[string]lc.Decision{
			"create": decide(t, create, tick), "held bind": decide(t, decide(t, bind, tick).Record, seen()),
		} {
			if d.Result == nil || d.Result.Description != test.want || d.Result.Code != "RequiresApp" {
				t.Errorf("%s: ended %+v, want %q", kind, d.Result, test.want)
			}
		}
	})
}
