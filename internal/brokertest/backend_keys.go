package brokertest

import (
	"context"
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ferry-broker/ferry/internal/broker"
	"github.com/ferry-broker/ferry/internal/lifecycle"
)

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
	if look, err := h.Backend.FindKeys(t.Context(), instance.GUID, "k"); err != nil || len(look.Rows) != 0 {
		t.Errorf("after the delete FindKeys = %+v, %v; want no rows", look.Rows, err)
	}
	if _, err := h.Backend.KeyDetails(t.Context(), row.GUID); !errors.Is(err, broker.ErrNotFound) {
		t.Errorf("after the delete KeyDetails: %v; want ErrNotFound", err)
	}
}

func credentialsAreExact(t *testing.T, h BackendHarness) {
	row := h.key(t, h.instance(t, "one").GUID, "k")
	first, err := h.Backend.KeyDetails(t.Context(), row.GUID)
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
	second, err := h.Backend.KeyDetails(t.Context(), row.GUID)
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
	look, err := h.Backend.FindKeys(t.Context(), instance.GUID, "k")
	if err != nil || len(look.Rows) != 1 || look.Rows[0].GUID != first.GUID {
		t.Errorf("FindKeys = %+v, %v; want the first key", look.Rows, err)
	}
}

// wantLoose wants both keys of the binding, told apart by their operations, and that
// the same operation makes no third.
func wantLoose(t *testing.T, h BackendHarness, instance string) {
	t.Helper()
	answer, err := h.createKey(t, broker.KeyCall{Name: "k", InstanceGUID: instance, Marks: marks("bind-other", 8)})
	wantReply(t, "the same operation again", answer, err, lifecycle.ReplyTaken)
	look, err := h.Backend.FindKeys(t.Context(), instance, "k")
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
	sight, row := h.failure(t, answer, err, func(t *testing.T) broker.Row { return h.oneKey(t, instance, "k") })
	if row.Last.State != lifecycle.LastFailed {
		t.Errorf("row = %+v; want it failed", row)
	}
	if h.Korifi {
		return // no word of the reason
	}
	if sight.State != lifecycle.JobFailed || sight.Code != string(broker.CodeRequiresApp) {
		t.Errorf("job = %+v; want it failed with %s", sight, broker.CodeRequiresApp)
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
	if _, err := h.Backend.FindInstances(ctx, "one"); err == nil {
		t.Error("FindInstances succeeded after its deadline")
	}
	if sight, err := h.Backend.Job(ctx, nowhere); err == nil || sight.State != lifecycle.JobUnclear {
		t.Errorf("Job = %+v, %v; want unclear with an error", sight, err)
	}
	answer, err := h.Backend.CreateInstance(ctx, h.instanceCall("one"))
	wantReply(t, "CreateInstance", answer, err, lifecycle.ReplyUnknown, lifecycle.ReplyBusy)
	answer, err = h.Backend.DeleteInstance(ctx, nowhere)
	wantReply(t, "DeleteInstance", answer, err, lifecycle.ReplyUnknown, lifecycle.ReplyBusy)
	if _, err := h.Backend.KeyDetails(ctx, nowhere); err == nil || errors.Is(err, broker.ErrNotFound) {
		t.Errorf("KeyDetails after its deadline: %v; want an error that is not ErrNotFound", err)
	}
	if look, err := h.Backend.FindInstances(t.Context(), "one"); err != nil || len(look.Rows) != 0 {
		t.Errorf("FindInstances = %+v, %v; want that nothing was made", look.Rows, err)
	}
}
