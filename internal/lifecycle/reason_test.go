package lifecycle_test

import (
	"strings"
	"testing"
	"time"

	lc "github.com/ferry-broker/ferry/internal/lifecycle"
)

// TestWaitingSaysWhatFor: every state in which a driver only waits has its sentence, from the record alone.
func TestWaitingSaysWhatFor(t *testing.T) {
	t.Parallel()
	asked := func(r *lc.Record) { r.Operation.Calls = 1 }
	removed := func(r *lc.Record) { r.Operation.JobGUID = "guid" }
	lost := func(r *lc.Record) {
		r.Operation.Lease = lc.Lease{Holder: "driver", Until: noon()}
		r.Operation.Calls = 1
	}
	busy := func(r *lc.Record) {
		r.Operation.Lease = lc.Lease{Holder: "driver", Until: noon().Add(time.Second)}
		r.Operation.Calls = 1
	}
	early := func(r *lc.Record) { r.InstanceGUID = "" }
	trouble := func(r *lc.Record) { r.Operation.TemporaryRefusal = "The organization is suspended" }
	later := func(r *lc.Record) { r.Operation.NotBefore = noon().Add(32 * time.Second) }
	away := func(r *lc.Record) { r.Operation.NoAnswer = "Nobody answers." }
	type test struct {
		kind     lc.Kind
		state    lc.State
		instance lc.State
		change   func(*lc.Record)
		want     string
	}
	each(t, map[string]test{
		"create, not begun":           {lc.Instance, lc.Creating, "", as, "Cloud Foundry is about to be asked for the service instance."},
		"create":                      {lc.Instance, lc.Creating, "", asked, "Cloud Foundry is creating the service instance."},
		"create, being sent":          {lc.Instance, lc.Creating, "", busy, "Cloud Foundry is creating the service instance."},
		"create, answer lost":         {lc.Instance, lc.Creating, "", lost, "Cloud Foundry has not said whether it creates the service instance."},
		"create, name taken":          {lc.Instance, lc.Creating, "", func(r *lc.Record) { r.Operation.Calls, r.Operation.NameTaken = 1, 1 }, "says that the name is taken"},
		"create, leftover":            {lc.Instance, lc.Creating, "", func(r *lc.Record) { r.Operation.Cleanup.GUID = "g" }, "What is left of an earlier attempt is being removed first."},
		"create, refused, call open":  {lc.Instance, lc.Creating, "", refused, "quota"},
		"bind":                        {lc.Binding, lc.Creating, lc.Ready, asked, "Cloud Foundry is creating the service binding."},
		"bind, its instance creating": {lc.Binding, lc.Creating, lc.Creating, early, "It waits until its service instance has been created."},
		"bind, its instance deleting": {lc.Binding, lc.Creating, lc.Deleting, asked, "Its service instance is being deleted"},
		"update, not begun":           {lc.Instance, lc.Updating, "", as, "about to be asked for the update, once nothing else changes"},
		"update":                      {lc.Instance, lc.Updating, "", asked, "Cloud Foundry is updating the service instance."},
		"update, answer lost":         {lc.Instance, lc.Updating, "", lost, "has not said whether it updates"},
		"update, call of another":     {lc.Instance, lc.Updating, "", opened(lc.Update, 90), "The update waits for that until 12:01:00 UTC at the latest."},
		"delete, bindings first":      {lc.Instance, lc.Deleting, "", as, "The service instance is deleted once it has no service bindings any more."},
		"delete":                      {lc.Instance, lc.Deleting, "", removed, "Cloud Foundry is deleting the service instance."},
		"delete, answer lost":         {lc.Instance, lc.Deleting, "", both(removed, lost), "has not said whether it deletes"},
		"delete, open POST":           {lc.Instance, lc.Deleting, "", opened(lc.Create, 90), "The delete waits for that until 12:01:00 UTC at the latest."},
		"unbind, not begun":           {lc.Binding, lc.Deleting, lc.Ready, as, "about to be asked to delete the service binding."},
		"refused for now":             {lc.Instance, lc.Deleting, "", trouble, "The organization is suspended"},
		"refused, with a pause":       {lc.Instance, lc.Deleting, "", both(trouble, later), "The organization is suspended. The next try begins at 12:00:32 UTC."},
		"nobody answers":              {lc.Instance, lc.Updating, "", both(trouble, away), "Nobody answers."},
		"deadline over":               {lc.Instance, lc.Updating, "", overdue, "The time that it was given is over; it is about to end."},
	}, func(t *testing.T, test test) {
		r := stored(test.kind, test.state)
		test.change(&r)
		if got := lc.Waiting(r, instance(test.instance), noon(), defaultPace()); !strings.Contains(got, test.want) {
			t.Errorf("%q, want %q", got, test.want)
		}
	})
}

// TestADeleteNamesTheBindingThatHoldsItUp: its poll says why the unbind does not end, and that is written once.
func TestADeleteNamesTheBindingThatHoldsItUp(t *testing.T) {
	t.Parallel()
	view := lc.BindingView{ID: "b", State: lc.Deleting, InstanceCreateOp: "made", Problem: "The broker timed out."}
	d := drive(t, stored(lc.Instance, lc.Deleting), func(k *lc.Tick) {
		k.BindingsKnown, k.Bindings = true, []lc.BindingView{view}
		k.Look = &lc.Look{Began: k.ReadAt, Rows: []lc.Row{living()}}
	})
	d.until(noon().Add(10 * time.Minute))
	d.says("The service binding b is not deleted yet: The broker timed out.")
	if d.writes != 1 {
		t.Errorf("%d writes, want one", d.writes)
	}
	view.Problem = ""
	d.step()
	d.says("The service instance is deleted once it has no service bindings any more.")
}

// TestOvertime: each kind of operation has a text of its own, with what stood in the way.
func TestOvertime(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		kind  lc.Kind
		state lc.State
		wants []string
	}{
		{lc.Instance, lc.Creating, []string{"service instance was not created", "create it again"}},
		{lc.Instance, lc.Updating, []string{"update did not end", "still there", "Send the update again"}},
		{lc.Instance, lc.Deleting, []string{"service instance was not deleted", "Delete it again"}},
		{lc.Binding, lc.Creating, []string{"service binding was not created", "create it again"}},
		{lc.Binding, lc.Deleting, []string{"service binding was not deleted", "Delete it again"}},
	} {
		r, tick := stored(test.kind, test.state), blind()
		r.Operation.TemporaryRefusal, tick.Now = "The organization is suspended.", r.Operation.Deadline
		d := decide(t, r, tick)
		if d.Result == nil {
			t.Fatalf("%s %s: %+v", test.kind, test.state, d)
		}
		for _, want := range append(test.wants, "168h", "The organization is suspended.") {
			if !strings.Contains(d.Result.Description, want) {
				t.Errorf("%s, %s: %q lacks %q", test.kind, test.state, d.Result.Description, want)
			}
		}
		if test.state == lc.Updating && strings.Contains(d.Result.Description, "elete it") {
			t.Errorf("the user of a working instance is told: %q", d.Result.Description)
		}
	}
}
