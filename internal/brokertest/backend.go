package brokertest

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/ferry-broker/ferry/internal/broker"
	"github.com/ferry-broker/ferry/internal/lifecycle"
)

// BackendHarness is one backend under test, with a marketplace to order from. It belongs to one test alone.
type BackendHarness struct {
	Backend broker.Backend
	// Offering is the name of an offering whose plans these GUIDs are.
	Offering string
	// Plan creates, updates, deletes and binds without fault, and Other is a plan that an instance of Plan may be moved
	// to.
	Plan, Other string
	// Slow is a plan whose create takes a while, so that it can be seen running.
	Slow string
	// Rejecting is a plan whose create the backing broker rejects with a sentence.
	RejectingOffering, Rejecting string
	// AppOnly is a plan whose bind the backing broker answers with RequiresApp.
	AppOnly string
	// BigNumber is a number that the credentials of a key of Plan hold as "big".
	BigNumber string
	// Patience is how long an operation may take to end.
	Patience time.Duration
	// Korifi says that the backend has Korifi's limits: no update changes anything, which is refused unsent; keys of
	// one name do not exclude each other; the job of what failed never ends, so that the row alone tells.
	Korifi bool
	// Rename gives an instance another name, as somebody may by hand.
	Rename func(t *testing.T, guid, name string)
	// RenameKey does it to a key; nil where nobody can.
	RenameKey func(t *testing.T, guid, name string)
}

// TestBackend holds a broker.Backend to the contract in the comments of that interface. open makes a fresh, empty
// backend; the tests run in parallel.
func TestBackend(t *testing.T, open func(t *testing.T) BackendHarness) {
	t.Helper()
	for _, test := range []struct {
		name string
		run  func(*testing.T, BackendHarness)
	}{
		{"the marketplace has the plans", marketplaceHasPlans},
		{"what never was is an empty look", absentIsAnEmptyLook},
		{"an instance lives and dies", instanceLives},
		{"an instance is found by its GUID, whatever it is called", instanceFoundByGUID},
		{"a key is found by its GUID, whatever it is called", keyFoundByGUID},
		{"look-ups at once find what is their own", lookUpsAtOnce},
		{"a look says where it was made", lookSaysWhere},
		{"what is accepted names its row, or none", acceptedNamesItsRow},
		{"an update is marked and moves the plan", updateIsMarked},
		{"an update without a change of its own still marks", updateOnlyMarks},
		{"a second create is taken", secondCreateIsTaken},
		{"of concurrent creates one is accepted", oneConcurrentCreate},
		{"a running create is seen running", runningCreateIsSeen},
		{"a rejected create fails on the broker's word", rejectedCreateFails},
		{"calls for what is absent are answered absent", absentCalls},
		{"a plan that does not exist is refused", unknownPlanIsRefused},
		{"a key lives and dies", keyLives},
		{"credentials are exact and the same at every read", credentialsAreExact},
		{"a second key of the name is taken", secondKeyIsTaken},
		{"keys of one name on two instances are two", keysBelongToInstances},
		{"a key of an absent instance is not made", keyOfAbsentInstance},
		{"a bind that needs an app says so", appOnlyBindSaysSo},
		{"any id can be a name", anyIDIsAName},
		{"the inventory has the true ids", inventoryHasTrueIDs},
		{"our own keys are not foreign", ownKeysAreNotForeign},
		{"a context that ended is obeyed", endedContextIsObeyed},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			test.run(t, open(t))
		})
	}
}

// marks returns marks that are unlike those of other operations.
func marks(operation string, seq int64) broker.Marks {
	return broker.Marks{Client: "suite", Operation: operation, Seq: seq}
}

func (h BackendHarness) instanceCall(name string) broker.InstanceCall {
	return broker.InstanceCall{
		Name: name, Offering: h.Offering, PlanGUID: h.Plan,
		Parameters: []byte(`{"amount": 9007199254740993, "text": "<&>"}`),
		Marks:      marks("create-"+name, 1_700_000_000),
	}
}

// failure waits until an accepted create failed, and returns its row beside what the job says. find looks for the row.
func (h BackendHarness) failure(
	t *testing.T, answer broker.Answer, err error, find func(*testing.T) broker.Row,
) (broker.JobStatus, broker.Row) {
	t.Helper()
	if !h.Korifi {
		status := h.outcome(t, answer, err)
		return status, find(t)
	}
	if answer.Reply != lifecycle.ReplyAccepted {
		t.Fatalf("answer %+v, %v; want %s", answer, err, lifecycle.ReplyAccepted)
	}
	var row broker.Row
	h.until(t, "the row failed", func(context.Context) bool {
		row = find(t)
		return row.Last.State == lifecycle.LastFailed
	})
	status, err := h.Backend.Job(t.Context(), answer.Job)
	if err != nil {
		t.Fatalf("Job(%q): %v", answer.Job, err)
	}
	return status, row
}

// instance makes an instance of Plan and returns its row.
func (h BackendHarness) instance(t *testing.T, name string) broker.Row {
	t.Helper()
	answer, err := h.Backend.CreateInstance(t.Context(), h.instanceCall(name))
	h.settle(t, answer, err)
	return h.one(t, name)
}

// key makes a key and returns its row.
func (h BackendHarness) key(t *testing.T, instance, name string) broker.Row {
	t.Helper()
	answer, err := h.createKey(t, broker.KeyCall{
		Name: name, InstanceGUID: instance, Marks: marks("bind-"+name, 7),
	})
	h.settle(t, answer, err)
	return h.oneKey(t, instance, name)
}

// oneKey returns the only key of the name.
func (h BackendHarness) oneKey(t *testing.T, instance, name string) broker.Row {
	t.Helper()
	look, err := h.Backend.FindKeys(t.Context(), broker.Lookup{Instance: instance, Name: name})
	if err != nil || len(look.Rows) != 1 {
		t.Fatalf("FindKeys(%q) = %+v, %v; want one row", name, look.Rows, err)
	}
	return look.Rows[0]
}

// createKey makes a key. Where marks are not taken, which the first call may have to find out, the second has them in
// the name.
func (h BackendHarness) createKey(t *testing.T, c broker.KeyCall) (broker.Answer, error) {
	t.Helper()
	answer, err := h.Backend.CreateKey(t.Context(), c)
	if h.Korifi && answer.Reply == lifecycle.ReplyBusy {
		return h.Backend.CreateKey(t.Context(), c)
	}
	return answer, err
}

// one returns the only instance of the name.
func (h BackendHarness) one(t *testing.T, name string) broker.Row {
	t.Helper()
	look, err := h.Backend.FindInstances(t.Context(), broker.Lookup{Name: name})
	if err != nil || len(look.Rows) != 1 {
		t.Fatalf("FindInstances(%q) = %+v, %v; want one row", name, look.Rows, err)
	}
	return look.Rows[0]
}

// settle waits for the end of a call that must have been accepted, and wants success.
func (h BackendHarness) settle(t *testing.T, answer broker.Answer, err error) {
	t.Helper()
	if status := h.outcome(t, answer, err); status.State != lifecycle.JobComplete {
		t.Fatalf("job ended as %+v, want %s", status, lifecycle.JobComplete)
	}
}

// outcome waits for the end of a call that must have been accepted. A call that was done at once counts as a complete
// job.
func (h BackendHarness) outcome(t *testing.T, answer broker.Answer, err error) broker.JobStatus {
	t.Helper()
	switch {
	case answer.Reply == lifecycle.ReplyDone:
		return broker.JobStatus{State: lifecycle.JobComplete}
	case answer.Reply != lifecycle.ReplyAccepted || answer.Job == "":
		t.Fatalf("answer %+v, %v; want %s with a job", answer, err, lifecycle.ReplyAccepted)
	}
	var status broker.JobStatus
	h.until(t, "the job ends", func(ctx context.Context) bool {
		status, err = h.Backend.Job(ctx, answer.Job)
		if err != nil {
			t.Fatalf("Job(%q): %v", answer.Job, err)
		}
		return status.State.Ended()
	})
	return status
}

// until asks again and again whether something holds, for as long as Patience.
func (h BackendHarness) until(t *testing.T, what string, holds func(context.Context) bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), h.Patience)
	defer cancel()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !holds(ctx) {
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("gave up waiting until %s", what)
		}
	}
}

// wantReply fails unless the answer has one of the replies.
func wantReply(t *testing.T, what string, answer broker.Answer, err error, want ...lifecycle.Reply) {
	t.Helper()
	for _, reply := range want {
		if answer.Reply == reply {
			return
		}
	}
	t.Errorf("%s = %+v, %v; want reply %v", what, answer, err, want)
}

// wantGUIDs fails unless a look finds exactly these rows, each once.
func wantGUIDs(t *testing.T, what string, look broker.Look, err error, want ...string) {
	t.Helper()
	var got []string
	for _, r := range look.Rows {
		got = append(got, r.GUID)
	}
	slices.Sort(got)
	slices.Sort(want)
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("%s finds %q, %v; want %q", what, got, err, want)
	}
}

// marked fails unless the inventory lists the row under this key.
func (h BackendHarness) marked(t *testing.T, guid string, want broker.Key) {
	t.Helper()
	list, err := h.Backend.Marked(t.Context())
	i := slices.IndexFunc(list, func(m broker.Marked) bool { return m.GUID == guid })
	if err != nil || i < 0 || list[i].Key != want {
		t.Errorf("Marked = %+v, %v; want %s as %+v", list, err, guid, want)
	}
}

func instanceFoundByGUID(t *testing.T, h BackendHarness) {
	one, two := h.instance(t, "one"), h.instance(t, "two")
	find := func(name string, guids ...string) (broker.Look, error) {
		return h.Backend.FindInstances(t.Context(), broker.Lookup{Name: name, GUIDs: guids, Offering: h.Offering})
	}
	look, err := find("one", one.GUID)
	wantGUIDs(t, "its name and GUID", look, err, one.GUID)
	look, err = find("one", two.GUID, two.GUID, nowhere, "")
	wantGUIDs(t, "a name and another's GUID", look, err, one.GUID, two.GUID)
	h.Rename(t, one.GUID, "renamed")
	look, err = find("one")
	wantGUIDs(t, "the former name", look, err)
	look, err = find("one", nowhere, one.GUID)
	wantGUIDs(t, "the former name and the GUID", look, err, one.GUID)
	if err == nil && (!look.Rows[0].Marked || look.Rows[0].Operation != "create-one") {
		t.Errorf("row %+v; want its marks kept", look.Rows[0])
	}
	h.marked(t, one.GUID, broker.Key{InstanceID: "one"})
	answer, err := h.Backend.DeleteInstance(t.Context(), one.GUID)
	h.settle(t, answer, err)
	look, err = find("one", one.GUID)
	wantGUIDs(t, "what is gone", look, err)
}

func keyFoundByGUID(t *testing.T, h BackendHarness) {
	instance, other := h.instance(t, "one"), h.instance(t, "two")
	k, theirs := h.key(t, instance.GUID, "k"), h.key(t, other.GUID, "k")
	find := func(name string, guids ...string) (broker.Look, error) {
		return h.Backend.FindKeys(t.Context(), broker.Lookup{Instance: instance.GUID, Name: name, GUIDs: guids, Offering: h.Offering})
	}
	look, err := find("another", k.GUID)
	wantGUIDs(t, "another name and the GUID", look, err, k.GUID)
	look, err = find("k", k.GUID, theirs.GUID, nowhere)
	wantGUIDs(t, "the GUID of another instance's key", look, err, k.GUID)
	if h.RenameKey == nil {
		return
	}
	h.RenameKey(t, k.GUID, "renamed")
	look, err = find("k", k.GUID)
	wantGUIDs(t, "the former name and the GUID", look, err, k.GUID)
	h.marked(t, k.GUID, broker.Key{InstanceID: "one", BindingID: "k"})
}

// lookUpsAtOnce: whoever else looks at the same time, each look-up finds its rows and no others.
func lookUpsAtOnce(t *testing.T, h BackendHarness) {
	var finds []func()
	check := func(what string, find func(context.Context) (broker.Look, error), want ...string) {
		finds = append(finds, func() {
			look, err := find(t.Context())
			wantGUIDs(t, what, look, err, slices.Clone(want)...)
		})
	}
	check("FindInstances", func(ctx context.Context) (broker.Look, error) {
		return h.Backend.FindInstances(ctx, broker.Lookup{Name: "never-was"})
	})
	for _, name := range []string{"one", "two", "a,b", "%2C"} {
		instance := h.instance(t, name)
		key := h.key(t, instance.GUID, "k")
		for _, q := range []broker.Lookup{{Name: name}, {Name: "never-was", GUIDs: []string{instance.GUID}}, {Name: name, GUIDs: []string{nowhere}}} {
			check("FindInstances", func(ctx context.Context) (broker.Look, error) { return h.Backend.FindInstances(ctx, q) }, instance.GUID)
		}
		for _, q := range []broker.Lookup{{Name: "k"}, {Name: "never-was", GUIDs: []string{key.GUID}}} {
			q.Instance = instance.GUID
			check("FindKeys", func(ctx context.Context) (broker.Look, error) { return h.Backend.FindKeys(ctx, q) }, key.GUID)
		}
		check("FindInstance", func(ctx context.Context) (broker.Look, error) { return h.Backend.FindInstance(ctx, instance.GUID, "") }, instance.GUID)
	}
	var all sync.WaitGroup
	for range 3 {
		for _, find := range finds {
			all.Go(find)
		}
	}
	all.Wait()
}

func lookSaysWhere(t *testing.T, h BackendHarness) {
	row := h.instance(t, "one")
	place, err := h.Backend.Place(t.Context())
	if err != nil || place.API == "" || place.OrgGUID == "" {
		t.Fatalf("Place = %+v, %v; want both parts", place, err)
	}
	for what, find := range map[string]func(context.Context) (broker.Look, error){
		"FindInstances": func(ctx context.Context) (broker.Look, error) {
			return h.Backend.FindInstances(ctx, broker.Lookup{Name: "one"})
		},
		"FindInstance": func(ctx context.Context) (broker.Look, error) { return h.Backend.FindInstance(ctx, row.GUID, "") },
		"FindKeys": func(ctx context.Context) (broker.Look, error) {
			return h.Backend.FindKeys(ctx, broker.Lookup{Instance: row.GUID, Name: "never-was"})
		},
	} {
		if look, err := find(t.Context()); err != nil || look.Place != place {
			t.Errorf("%s looked at %+v, %v; want %+v", what, look.Place, err, place)
		}
	}
	for at, want := range map[broker.Place]bool{
		place: true, {}: false,
		{API: place.API, OrgGUID: "another"}:                     false,
		{API: "https://another.example", OrgGUID: place.OrgGUID}: false,
	} {
		if got := h.Backend.Same(at); got != want {
			t.Errorf("Same(%+v) = %v, want %v", at, got, want)
		}
	}
}

// acceptedNamesItsRow: a GUID that an answer or a job tells is that of the row.
func acceptedNamesItsRow(t *testing.T, h BackendHarness) {
	answer, err := h.Backend.CreateInstance(t.Context(), h.instanceCall("one"))
	h.settle(t, answer, err)
	row := h.one(t, "one")
	if answer.GUID != "" && answer.GUID != row.GUID {
		t.Errorf("the answer names %q, the row is %q", answer.GUID, row.GUID)
	}
	if answer.Job == "" {
		return
	}
	if job, err := h.Backend.Job(t.Context(), answer.Job); err != nil || job.GUID != "" && job.GUID != row.GUID {
		t.Errorf("the job names %q, %v; the row is %q", job.GUID, err, row.GUID)
	}
}
