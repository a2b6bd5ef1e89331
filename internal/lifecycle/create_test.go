package lifecycle_test

import (
	"fmt"
	"slices"
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
	fresh := func(r *lc.Record) { r.Operation.IDWasFree = true }
	tried := func(r *lc.Record) { r.Operation.Calls = 1 }
	cleaning := func(r *lc.Record) { r.Operation.Cleanup = lc.Cleanup{GUID: "other", Job: "job"} }
	second := ok
	second.GUID = "second"
	taken := func(n int) func(*lc.Record) {
		return func(r *lc.Record) { r.Operation.NameTaken, r.Operation.Calls = n, n }
	}
	cleansed := func(r *lc.Record) { r.Operation.Cleanup = lc.Cleanup{GUID: "guid"} }
	named := &lc.JobStatus{State: lc.JobComplete, GUID: "guid"}
	located := bare()
	located.Place = &lc.Place{}
	const c = lc.Creating
	runTicks(t, stored(lc.Instance, c), map[string]tickTest{
		"first call of a fresh claim asks where it goes":        {fresh, bare(), does(c, lc.FindOrg, "")},
		"first call of a fresh claim is sent without a look-up": {fresh, located, does(c, lc.SendCreate, "")},
		"first call looks where GUIDs are known":                {both(fresh, owning("other")), located, does(c, lc.FindByName, "")},
		"second call looks first":                               {both(fresh, tried), bare(), does(c, lc.FindByName, "")},
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
		"row of a recorded GUID without marks too":     {owning("theirs"), seen(stranger), does(c, lc.SendDeleteLeftover, "theirs")},
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
		"unmarked row fails":                           {as, seen(stranger), ends(lc.CreateFailed)},
		"unmarked row waits for an open call":          {opened(lc.Create, 90), seen(stranger), waits(c)},
		"unmarked row beside mine does not matter":     {accepted, seen(stranger, ok), ends(lc.Ready)},
		"unmarked row beside mine does not hurry":      {accepted, seen(stranger, busy), waits(c)},
		"open call of a former update counts for fail": {both(refused, opened(lc.Update, 90)), seen(), waits(c)},
	})
}

// owning is a record that knows the GUID of a row of its own.
func owning(guid string) func(*lc.Record) {
	return func(r *lc.Record) { r.GUIDs = append(r.GUIDs, guid) }
}

// TestGUIDsAreRecordedEarly: with the answer to the POST, by the first tick that sees the
// row, and with each DELETE (protocol.md 1). A create over a failed one keeps them, and
// nothing that is gone does.
func TestGUIDsAreRecordedEarly(t *testing.T) {
	t.Parallel()
	creating, failed := stored(lc.Instance, lc.Creating), stored(lc.Instance, lc.CreateFailed)
	failed.GUIDs, failed.CFGUID, failed.Place = []string{"first"}, "second", lc.Place{OrgGUID: "org"}
	gone, ready, late := stored(lc.Instance, lc.Gone), stored(lc.Instance, lc.Ready), stored(lc.Instance, lc.Creating)
	late.Operation.Deadline = noon()
	gone.GUIDs, gone.Place = failed.GUIDs, failed.Place
	answered, reply := sentOff(lc.Creating, lc.SendCreate, lc.ReplyAccepted)
	reply.Answer.GUID = "guid"
	put := lc.Request{Verb: lc.Create, SameAttributes: true, AcceptsIncomplete: true, Now: noon(), NewOperation: lc.NewOperation{ID: "next"}}
	for name, test := range map[string]struct {
		r     lc.Record
		e     lc.Event
		guids []string
		place lc.Place
	}{
		"the answer names it":      {answered, reply, []string{"guid"}, lc.Place{}},
		"a tick sees it":           {creating, seen(mine(lc.Create, lc.LastInProgress)), []string{"guid"}, lc.Place{}},
		"a DELETE is sent":         {stored(lc.Instance, lc.Deleting), seen(foreign(90)), []string{"other"}, lc.Place{}},
		"a create over a failed":   {failed, put, []string{"first", "second"}, lc.Place{OrgGUID: "org"}},
		"a create over a tomb":     {gone, put, nil, lc.Place{}},
		"a delete keeps what is":   {ready, lc.Request{Verb: lc.Delete, AcceptsIncomplete: true, Now: noon(), NewOperation: put.NewOperation}, nil, lc.Place{}},
		"a delete that has ended":  {stored(lc.Instance, lc.Deleting), seen(), nil, lc.Place{}},
		"a create that has ended":  {creating, seen(mine(lc.Create, lc.LastSucceeded)), []string{"guid"}, lc.Place{}},
		"the deadline sees it":     {late, seen(mine(lc.Create, lc.LastInProgress)), []string{"guid"}, lc.Place{}},
		"a leftover that is found": {creating, seen(foreign(90), mine(lc.Create, lc.LastInProgress)), []string{"guid", "other"}, lc.Place{}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d, err := lc.Next(test.r, test.e)
			if err != nil || !d.Write || !slices.Equal(d.Record.GUIDs, test.guids) || d.Record.Place != test.place {
				t.Errorf("wrote %t, GUIDs %q, place %v, %v; want GUIDs %q, place %v", d.Write, d.Record.GUIDs, d.Record.Place, err, test.guids, test.place)
			}
		})
	}
}

// TestGUIDsAreFew: a record stays small however often a create fails.
func TestGUIDsAreFew(t *testing.T) {
	t.Parallel()
	r := stored(lc.Instance, lc.Creating)
	for i := range 30 {
		row := mine(lc.Create, lc.LastInProgress)
		row.GUID = fmt.Sprint("guid-", i)
		d, err := lc.Next(r, seen(row))
		if err != nil {
			t.Fatal(err)
		}
		r = d.Record
	}
	if n := len(r.GUIDs); n != 10 || r.GUIDs[9] != "guid-29" {
		t.Errorf("%d GUIDs: %q", n, r.GUIDs)
	}
}

// TestElsewhereNothingIsAbsent: a client that is pointed at another Cloud Foundry or org
// than the one that the record's rows are in believes nothing that it sees there
// (protocol.md 3.2).
func TestElsewhereNothingIsAbsent(t *testing.T) {
	t.Parallel()
	here, there := lc.Place{API: "https://api.example", OrgGUID: "org"}, lc.Place{API: "https://api.example", OrgGUID: "another"}
	fresh := func(r *lc.Record) { r.Operation.IDWasFree = true }
	for name, test := range map[string]struct {
		kind   lc.Kind
		state  lc.State
		change func(*lc.Record)
		tick   lc.Tick
	}{
		"a delete":             {lc.Instance, lc.Deleting, as, seen()},
		"an unbind":            {lc.Binding, lc.Deleting, as, seen()},
		"a create":             {lc.Instance, lc.Creating, accepted, withJob(seen(), inState(lc.JobComplete))},
		"a refused create":     {lc.Instance, lc.Creating, refused, seen()},
		"a create's next POST": {lc.Instance, lc.Creating, as, seen()},
		"a bind's first POST":  {lc.Binding, lc.Creating, fresh, under(bare(), instance(lc.Ready))},
		"an update":            {lc.Instance, lc.Updating, as, seen()},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := stored(test.kind, test.state)
			test.change(&r)
			r.Place = here
			for place, waits := range map[lc.Place]bool{here: false, there: true} {
				if test.tick.Look != nil {
					look := *test.tick.Look
					look.Place = place
					test.tick.Look = &look
				} else {
					test.tick.Place = &place
				}
				d, err := lc.Next(r, test.tick)
				if err != nil || (d.Effect.Do == lc.Wait) != waits {
					t.Errorf("looking at %v: %s %s, %v; want it to wait: %t", place, d.Outcome, d.Effect.Do, err, waits)
				}
			}
		})
	}
}

func TestCreateSucceedsWithTheGUIDOfItsRow(t *testing.T) {
	t.Parallel()
	d, err := lc.Next(stored(lc.Instance, lc.Creating), seen(mine(lc.Create, lc.LastSucceeded)))
	if err != nil || d.Record.CFGUID != "guid" || !d.ForgetParameters {
		t.Errorf("GUID %q, settled %t, %v", d.Record.CFGUID, d.ForgetParameters, err)
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
			job := &lc.JobStatus{State: lc.JobFailed, Description: test.job, Code: "RequiresApp"}
			d, err := lc.Next(r, withJob(seen(test.row), job))
			if err != nil || d.Result == nil || d.Result.Description != test.want || d.Result.Code != "RequiresApp" {
				t.Errorf("ended %+v, %v, want %q", d.Result, err, test.want)
			}
		})
	}
}

// TestOpenCall: what the intent to POST leaves in the record.
func TestOpenCall(t *testing.T) {
	t.Parallel()
	r := stored(lc.Instance, lc.Creating)
	r.LastCall = 7
	r.OpenCalls = []lc.OpenCall{{Number: 6, Seq: 90, Verb: lc.Create, Until: noon()}, open(lc.Create, 100)}
	tick := seen()
	tick.Now = noon().Add(2 * time.Second)
	d, err := lc.Next(r, tick)
	if err != nil {
		t.Fatal(err)
	}
	if len(d.Record.OpenCalls) != 2 || d.Record.OpenCalls[0].Number != 7 {
		t.Errorf("open calls %+v: want the expired one dropped, the other kept", d.Record.OpenCalls)
	}
	mine := d.Record.OpenCalls[len(d.Record.OpenCalls)-1]
	want := lc.OpenCall{Number: 8, Seq: 100, Verb: lc.Create, Until: tick.Now.Add(settleAfter)}
	if mine != want || d.Effect.CallNumber != 8 || d.Record.LastCall != 8 || d.Record.Operation.Calls != 1 {
		t.Errorf("open call %+v, want %+v; effect %+v", mine, want, d.Effect)
	}
	if l := d.Record.Operation.Lease; l.Holder != "driver" || !l.Until.Equal(tick.LeaseUntil) {
		t.Errorf("lease %+v", l)
	}
}

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
