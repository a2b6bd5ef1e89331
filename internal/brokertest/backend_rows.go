package brokertest

import (
	"context"
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ferry-broker/ferry/internal/broker"
	"github.com/ferry-broker/ferry/internal/lifecycle"
)

// nowhere is a well-formed GUID that belongs to nothing.
const nowhere = "00000000-0000-4000-8000-000000000000"

func marketplaceHasPlans(t *testing.T, h BackendHarness) {
	market, err := h.Backend.Marketplace(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	plans := map[string]string{}
	for _, o := range market.Offerings {
		if len(o.Plans) == 0 {
			t.Errorf("offering %q without plans", o.Name)
		}
		for _, p := range o.Plans {
			plans[p.GUID] = o.Name
			if p.CatalogID == "" || p.Name == "" {
				t.Errorf("plan %+v lacks its id or its name", p)
			}
		}
	}
	for _, guid := range []string{h.Plan, h.Other, h.Slow, h.AppOnly} {
		if plans[guid] != h.Offering {
			t.Errorf("plan %s is in offering %q, want %q", guid, plans[guid], h.Offering)
		}
	}
}

func absentIsAnEmptyLook(t *testing.T, h BackendHarness) {
	ctx := t.Context()
	for what, find := range map[string]func() (broker.Look, error){
		"FindInstances": func() (broker.Look, error) { return h.Backend.FindInstances(ctx, broker.Lookup{Name: "never-was"}) },
		"FindInstance":  func() (broker.Look, error) { return h.Backend.FindInstance(ctx, nowhere, "") },
		"FindKeys": func() (broker.Look, error) {
			return h.Backend.FindKeys(ctx, broker.Lookup{Instance: nowhere, Name: "never-was"})
		},
	} {
		look, err := find()
		if err != nil || len(look.Rows) != 0 || look.Began.IsZero() {
			t.Errorf("%s = %+v, %v; want no rows, a time and no error", what, look, err)
		}
	}
	if status, err := h.Backend.Job(ctx, nowhere); err != nil || status.State != lifecycle.JobLost {
		t.Errorf("Job = %+v, %v; want %s", status, err, lifecycle.JobLost)
	}
}

func instanceLives(t *testing.T, h BackendHarness) {
	row := h.instance(t, "one")
	want := broker.Row{
		GUID: row.GUID, Marked: true, Operation: "create-one", Seq: 1_700_000_000,
		Last: lifecycle.LastOperation{Verb: lifecycle.Create, State: lifecycle.LastSucceeded},
		Age:  row.Age, PlanGUID: h.Plan, DashboardURL: row.DashboardURL, Provided: row.Provided,
	}
	row.Last.Description = "" // the backing broker may say something
	if diff := cmp.Diff(want, row); diff != "" || row.GUID == "" || row.Age < 0 || row.Age > time.Minute {
		t.Fatalf("row (-want +got):\n%s", diff)
	}
	look, err := h.Backend.FindInstance(t.Context(), row.GUID, "")
	if err != nil || len(look.Rows) != 1 || look.Rows[0].GUID != row.GUID {
		t.Fatalf("FindInstance = %+v, %v; want the row", look, err)
	}
	answer, err := h.Backend.DeleteInstance(t.Context(), row.GUID)
	h.settle(t, answer, err)
	if look, err := h.Backend.FindInstances(t.Context(), broker.Lookup{Name: "one"}); err != nil || len(look.Rows) != 0 {
		t.Errorf("after the delete FindInstances = %+v, %v; want no rows", look.Rows, err)
	}
	if look, err := h.Backend.FindInstance(t.Context(), row.GUID, ""); err != nil || len(look.Rows) != 0 {
		t.Errorf("after the delete FindInstance = %+v, %v; want no rows", look.Rows, err)
	}
}

func updateIsMarked(t *testing.T, h BackendHarness) {
	row := h.instance(t, "one")
	answer, err := h.Backend.UpdateInstance(t.Context(), row.GUID, broker.InstanceCall{
		Name: "one", Offering: h.Offering, PlanGUID: h.Other,
		Parameters: []byte(`{"size":2}`), Marks: marks("update-one", 1_700_000_001),
	})
	if h.Korifi {
		wantReply(t, "an update that would be ignored", answer, err, lifecycle.ReplyRefused)
		if after := h.one(t, "one"); answer.Description == "" || after.Update != "" {
			t.Errorf("description %q, row %+v; want a sentence and no mark", answer.Description, after)
		}
		return
	}
	h.settle(t, answer, err)
	after := h.one(t, "one")
	if after.GUID != row.GUID || after.Operation != "create-one" || after.Seq != row.Seq || after.Update != "update-one" {
		t.Errorf("row after the update = %+v; want the marks of the create, and update-one", after)
	}
	if after.Last.Verb != lifecycle.Update || after.Last.State != lifecycle.LastSucceeded {
		t.Errorf("last operation = %+v; want an update that succeeded", after.Last)
	}
}

func updateOnlyMarks(t *testing.T, h BackendHarness) {
	row := h.instance(t, "one")
	answer, err := h.Backend.UpdateInstance(t.Context(), row.GUID, broker.InstanceCall{
		Name: "one", Offering: h.Offering, Marks: marks("update-one", 1_700_000_001),
	})
	h.settle(t, answer, err)
	if after := h.one(t, "one"); after.Update != "update-one" || !after.Marked {
		t.Errorf("row after the update = %+v; want it marked update-one", after)
	}
}

func secondCreateIsTaken(t *testing.T, h BackendHarness) {
	first := h.instance(t, "one")
	call := h.instanceCall("one")
	call.Marks = marks("create-two", 1_700_000_002)
	answer, err := h.Backend.CreateInstance(t.Context(), call)
	wantReply(t, "the second create", answer, err, lifecycle.ReplyTaken)
	if row := h.one(t, "one"); row.GUID != first.GUID || row.Operation != "create-one" {
		t.Errorf("row = %+v; want the first one untouched", row)
	}
}

func oneConcurrentCreate(t *testing.T, h BackendHarness) {
	const callers = 8
	answers := make([]broker.Answer, callers)
	var group sync.WaitGroup
	for i := range callers {
		group.Go(func() { answers[i], _ = h.Backend.CreateInstance(t.Context(), h.instanceCall("one")) })
	}
	group.Wait()
	accepted := 0
	for i, a := range answers {
		if a.Reply == lifecycle.ReplyAccepted || a.Reply == lifecycle.ReplyDone {
			accepted++
			h.settle(t, a, nil)
			continue
		}
		wantReply(t, "a losing create", answers[i], nil, lifecycle.ReplyTaken)
	}
	if accepted != 1 {
		t.Errorf("%d of %d creates were accepted, want 1", accepted, callers)
	}
	h.one(t, "one")
}

func runningCreateIsSeen(t *testing.T, h BackendHarness) {
	call := h.instanceCall("slow")
	call.PlanGUID = h.Slow
	answer, err := h.Backend.CreateInstance(t.Context(), call)
	if answer.Reply != lifecycle.ReplyAccepted {
		t.Fatalf("answer = %+v, %v; want accepted", answer, err)
	}
	row := h.one(t, "slow")
	running := row.Last.State == lifecycle.LastInitial || row.Last.State == lifecycle.LastInProgress
	if !running || row.Last.Verb != lifecycle.Create || row.Operation != "create-slow" {
		t.Errorf("row = %+v; want a create of ours that runs", row)
	}
	update, err := h.Backend.UpdateInstance(t.Context(), row.GUID, broker.InstanceCall{
		Name: "slow", Offering: h.Offering, PlanGUID: h.Other, Marks: marks("update-slow", 2),
	})
	if h.Korifi {
		wantReply(t, "an update meanwhile", update, err, lifecycle.ReplyRefused)
	} else {
		wantReply(t, "an update meanwhile", update, err, lifecycle.ReplyBusy)
	}
	h.settle(t, answer, nil)
}

func rejectedCreateFails(t *testing.T, h BackendHarness) {
	call := h.instanceCall("bad")
	call.Offering, call.PlanGUID = h.RejectingOffering, h.Rejecting
	answer, err := h.Backend.CreateInstance(t.Context(), call)
	status, row := h.failure(t, answer, err, func(t *testing.T) broker.Row { return h.one(t, "bad") })
	switch {
	case h.Korifi: // its row knows no reason when the backing broker refused at once
		if status.State.Ended() {
			t.Errorf("job = %+v; want it to go on for ever", status)
		}
	case status.State != lifecycle.JobFailed || !status.FromBackingBroker || status.Description == "" || row.Last.Description == "":
		t.Errorf("job = %+v, row = %+v; want it failed on the broker's word, with a description", status, row)
	}
	if row.Last.Verb != lifecycle.Create || row.Last.State != lifecycle.LastFailed {
		t.Errorf("row = %+v; want a failed create", row)
	}
	answer, err = h.Backend.DeleteInstance(t.Context(), row.GUID)
	h.settle(t, answer, err)
}

func absentCalls(t *testing.T, h BackendHarness) {
	ctx := t.Context()
	answer, err := h.Backend.DeleteInstance(ctx, nowhere)
	wantReply(t, "DeleteInstance", answer, err, lifecycle.ReplyAbsent)
	answer, err = h.Backend.DeleteKey(ctx, nowhere)
	wantReply(t, "DeleteKey", answer, err, lifecycle.ReplyAbsent)
	change := broker.InstanceCall{PlanGUID: h.Other, Marks: marks("update-x", 2)}
	if h.Korifi {
		change.PlanGUID = "" // else nothing is sent
	}
	answer, err = h.Backend.UpdateInstance(ctx, nowhere, change)
	wantReply(t, "UpdateInstance", answer, err, lifecycle.ReplyAbsent)
}

func unknownPlanIsRefused(t *testing.T, h BackendHarness) {
	call := h.instanceCall("one")
	call.PlanGUID = nowhere
	answer, err := h.Backend.CreateInstance(t.Context(), call)
	wantReply(t, "CreateInstance", answer, err, lifecycle.ReplyRefused)
	if answer.Description == "" {
		t.Error("the refusal has no description")
	}
	if look, err := h.Backend.FindInstances(t.Context(), broker.Lookup{Name: "one"}); err != nil || len(look.Rows) != 0 {
		t.Errorf("FindInstances = %+v, %v; want no rows", look.Rows, err)
	}
}

func keyLives(t *testing.T, h BackendHarness) {
	instance := h.instance(t, "one")
	row := h.key(t, instance.GUID, "k")
	if !row.Marked || row.Operation != "bind-k" || row.Seq != 7 {
		t.Errorf("row = %+v; want the marks of the bind", row)
	}
	if row.Last.Verb != lifecycle.Create || row.Last.State != lifecycle.LastSucceeded {
		t.Errorf("last operation = %+v; want a create that succeeded", row.Last)
	}
	answer, err := h.Backend.DeleteKey(t.Context(), row.GUID)
	h.settle(t, answer, err)
	if look, err := h.Backend.FindKeys(t.Context(), broker.Lookup{Instance: instance.GUID, Name: "k"}); err != nil || len(look.Rows) != 0 {
		t.Errorf("after the delete FindKeys = %+v, %v; want no rows", look.Rows, err)
	}
	if _, err := h.Backend.KeyDetails(t.Context(), row.GUID, ""); !errors.Is(err, broker.ErrNotFound) {
		t.Errorf("after the delete KeyDetails: %v; want ErrNotFound", err)
	}
}

func credentialsAreExact(t *testing.T, h BackendHarness) {
	row := h.key(t, h.instance(t, "one").GUID, "k")
	first, err := h.Backend.KeyDetails(t.Context(), row.GUID, "")
	if err != nil {
		t.Fatal(err)
	}
	var credentials map[string]json.RawMessage
	if err := json.Unmarshal(first.Credentials, &credentials); err != nil {
		t.Fatalf("credentials are no object: %v", err)
	}
	if got := string(credentials["big"]); got != h.BigNumber {
		t.Errorf("big = %s, want %s", got, h.BigNumber)
	}
	second, err := h.Backend.KeyDetails(t.Context(), row.GUID, "")
	if diff := cmp.Diff(first, second); err != nil || diff != "" {
		t.Errorf("second read: %v, (-first +second):\n%s", err, diff)
	}
}

func secondKeyIsTaken(t *testing.T, h BackendHarness) {
	instance := h.instance(t, "one")
	first := h.key(t, instance.GUID, "k")
	answer, err := h.createKey(t, broker.KeyCall{
		Name: "k", InstanceGUID: instance.GUID, Marks: marks("bind-other", 8),
	})
	if h.Korifi {
		h.settle(t, answer, err)
		wantLoose(t, h, instance.GUID)
		return
	}
	wantReply(t, "the second key", answer, err, lifecycle.ReplyTaken)
	look, err := h.Backend.FindKeys(t.Context(), broker.Lookup{Instance: instance.GUID, Name: "k"})
	if err != nil || len(look.Rows) != 1 || look.Rows[0].GUID != first.GUID {
		t.Errorf("FindKeys = %+v, %v; want the first key", look.Rows, err)
	}
}

// wantLoose wants both keys of the binding, told apart by their operations, and that the same operation makes no third.
func wantLoose(t *testing.T, h BackendHarness, instance string) {
	t.Helper()
	answer, err := h.createKey(t, broker.KeyCall{Name: "k", InstanceGUID: instance, Marks: marks("bind-other", 8)})
	wantReply(t, "the same operation again", answer, err, lifecycle.ReplyTaken)
	look, err := h.Backend.FindKeys(t.Context(), broker.Lookup{Instance: instance, Name: "k"})
	operations := map[string]bool{}
	for _, row := range look.Rows {
		operations[row.Operation] = row.Marked && row.MarkedByName
	}
	if diff := cmp.Diff(map[string]bool{"bind-k": true, "bind-other": true}, operations); err != nil || diff != "" {
		t.Errorf("FindKeys: %v (-want +got):\n%s", err, diff)
	}
}

func keysBelongToInstances(t *testing.T, h BackendHarness) {
	one, two := h.instance(t, "one"), h.instance(t, "two")
	if a, b := h.key(t, one.GUID, "k"), h.key(t, two.GUID, "k"); a.GUID == b.GUID {
		t.Errorf("both instances show key %s", a.GUID)
	}
}

func keyOfAbsentInstance(t *testing.T, h BackendHarness) {
	answer, err := h.createKey(t, broker.KeyCall{
		Name: "k", InstanceGUID: nowhere, Marks: marks("bind-k", 7),
	})
	wantReply(t, "CreateKey", answer, err, lifecycle.ReplyRefused, lifecycle.ReplyAbsent)
}

func appOnlyBindSaysSo(t *testing.T, h BackendHarness) {
	call := h.instanceCall("one")
	call.PlanGUID = h.AppOnly
	answer, err := h.Backend.CreateInstance(t.Context(), call)
	h.settle(t, answer, err)
	instance := h.one(t, "one").GUID
	answer, err = h.createKey(t, broker.KeyCall{Name: "k", InstanceGUID: instance, Marks: marks("bind-k", 7)})
	status, row := h.failure(t, answer, err, func(t *testing.T) broker.Row { return h.oneKey(t, instance, "k") })
	if row.Last.State != lifecycle.LastFailed {
		t.Errorf("row = %+v; want it failed", row)
	}
	if h.Korifi {
		return // no word of the reason
	}
	if status.State != lifecycle.JobFailed || status.Code != string(broker.CodeRequiresApp) {
		t.Errorf("job = %+v; want it failed with %s", status, broker.CodeRequiresApp)
	}
}

func anyIDIsAName(t *testing.T, h BackendHarness) {
	ids := []string{
		"a,b", "a", "b", "a%2Cb", "a b", "a+b", "a/b", "ä&ö=ü", `"quoted"`, "100%", "#hash?", "..",
		" a", "a ", "tab\there", "\xff\xfe", "", strings.Repeat("x", 255), strings.Repeat("x", 256), strings.Repeat("ü", 255),
	}
	guids := map[string]string{}
	for i, id := range ids {
		call := h.instanceCall(id)
		call.Marks = marks("create-"+strconv.Itoa(i), int64(i))
		answer, err := h.Backend.CreateInstance(t.Context(), call)
		h.settle(t, answer, err)
		row := h.one(t, id)
		if other, twice := guids[row.GUID]; twice {
			t.Errorf("ids %q and %q share instance %s", id, other, row.GUID)
		}
		guids[row.GUID] = id
		if row.Operation != call.Marks.Operation {
			t.Errorf("id %q finds the instance of %s, want %s", id, row.Operation, call.Marks.Operation)
		}
	}
	instance := h.one(t, "a")
	keys := map[string]bool{}
	for _, id := range []string{"a,b", " a", "a", "\xff", "", strings.Repeat("x", 300)} {
		keys[h.key(t, instance.GUID, id).GUID] = true
	}
	if len(keys) != 6 {
		t.Errorf("6 ids made %d keys", len(keys))
	}
}

// inventoryHasTrueIDs lists what has our marks, under the ids that a platform knows.
func inventoryHasTrueIDs(t *testing.T, h BackendHarness) {
	want := map[broker.Key]string{}
	for _, id := range []string{"plain", " blank", "\xff"} {
		row := h.instance(t, id)
		want[broker.Key{InstanceID: id}] = row.GUID
		want[broker.Key{InstanceID: id, BindingID: "k"}] = h.key(t, row.GUID, "k").GUID
	}
	// Where keys take no marks, an id that cannot be a name is not written anywhere.
	if !h.Korifi {
		row := h.one(t, "plain")
		want[broker.Key{InstanceID: "plain", BindingID: " k"}] = h.key(t, row.GUID, " k").GUID
	}
	list, err := h.Backend.Marked(t.Context())
	got := map[broker.Key]string{}
	for _, m := range list {
		got[m.Key] = m.GUID
		if m.Operation == "" || m.Seq == 0 {
			t.Errorf("%+v is listed without its marks", m)
		}
	}
	if diff := cmp.Diff(want, got); err != nil || diff != "" || len(got) != len(list) {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
}

func ownKeysAreNotForeign(t *testing.T, h BackendHarness) {
	row := h.instance(t, "one")
	h.key(t, row.GUID, "k")
	if names, err := h.Backend.ForeignKeys(t.Context(), row.GUID); err != nil || len(names) != 0 {
		t.Errorf("ForeignKeys = %q, %v; want none", names, err)
	}
}

func endedContextIsObeyed(t *testing.T, h BackendHarness) {
	ctx, cancel := context.WithDeadline(t.Context(), time.Unix(0, 0))
	defer cancel()
	if _, err := h.Backend.FindInstances(ctx, broker.Lookup{Name: "one"}); err == nil {
		t.Error("FindInstances succeeded after its deadline")
	}
	if status, err := h.Backend.Job(ctx, nowhere); err == nil || status.State != lifecycle.JobUnclear {
		t.Errorf("Job = %+v, %v; want unclear with an error", status, err)
	}
	answer, err := h.Backend.CreateInstance(ctx, h.instanceCall("one"))
	wantReply(t, "CreateInstance", answer, err, lifecycle.ReplyUnknown, lifecycle.ReplyBusy)
	answer, err = h.Backend.DeleteInstance(ctx, nowhere)
	wantReply(t, "DeleteInstance", answer, err, lifecycle.ReplyUnknown, lifecycle.ReplyBusy)
	if _, err := h.Backend.KeyDetails(ctx, nowhere, ""); err == nil || errors.Is(err, broker.ErrNotFound) {
		t.Errorf("KeyDetails after its deadline: %v; want an error that is not ErrNotFound", err)
	}
	if look, err := h.Backend.FindInstances(t.Context(), broker.Lookup{Name: "one"}); err != nil || len(look.Rows) != 0 {
		t.Errorf("FindInstances = %+v, %v; want that nothing was made", look.Rows, err)
	}
}
