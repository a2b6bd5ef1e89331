package lifecycle_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	lc "github.com/ferry-broker/ferry/internal/lifecycle"
)

func ask(t *testing.T, r lc.Record, q lc.Request) lc.Decision {
	t.Helper()
	d, err := lc.Next(r, atNoon(q))
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// TestClaimCounters: seq starts at the Unix time, and rises by one from then on.
func TestClaimCounters(t *testing.T) {
	t.Parallel()
	put := lc.Request{Verb: lc.Create, SameAttributes: true, AcceptsIncomplete: true}
	remove := lc.Request{Verb: lc.Delete, AcceptsIncomplete: true}
	patch := lc.Request{Verb: lc.Update, AcceptsIncomplete: true}
	for name, test := range map[string]struct {
		state     lc.State
		request   lc.Request
		seq, life int64
		fresh     bool
	}{
		"PUT of an absent id starts at the time": {lc.Absent, put, noon().Unix(), 0, true},
		"PUT over a ghost goes on":               {lc.Ghost, put, 101, 1, true},
		"PUT over a tombstone goes on":           {lc.Gone, put, 101, 1, true},
		"PUT over a failed create looks first":   {lc.CreateFailed, put, 101, 1, false},
		"PATCH":                                  {lc.Ready, patch, 101, 1, false},
		"DELETE":                                 {lc.Ready, remove, 101, 1, false},
		"DELETE during a create":                 {lc.Creating, remove, 101, 1, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := ask(t, stored(lc.Instance, test.state), test.request)
			r, op := d.Record, d.Record.Operation
			if r.Seq != test.seq || op.Seq != test.seq || r.Life != test.life || op.IDWasFree != test.fresh {
				t.Errorf("seq %d and %d, life %d, fresh %t", r.Seq, op.Seq, r.Life, op.IDWasFree)
			}
			if test.request.Verb == lc.Create && r.CreateOp != (lc.Reference{ID: "new", Seq: test.seq}) {
				t.Errorf("incarnation %+v", r.CreateOp)
			}
			want := atNoon(lc.Request{})
			if !op.Started.Equal(want.Now) || !op.Deadline.Equal(want.NewOperation.Deadline) || !op.Due.Equal(want.NewOperation.Due) || !r.ExpiresAt.IsZero() {
				t.Errorf("operation %+v, expires %v", op, r.ExpiresAt)
			}
		})
	}
}

// TestClaimKeeps: open calls survive, and the superseded operation has a result.
func TestClaimKeeps(t *testing.T) {
	t.Parallel()
	for _, state := range []lc.State{lc.Creating, lc.Updating} {
		t.Run(string(state), func(t *testing.T) {
			t.Parallel()
			r := stored(lc.Instance, state)
			r.OpenCalls = []lc.OpenCall{open(lc.Create, 100), open(lc.Update, 90)}
			r.LastCall = 9
			d := ask(t, r, lc.Request{Verb: lc.Delete, AcceptsIncomplete: true})
			if diff := cmp.Diff(r.OpenCalls, d.Record.OpenCalls); diff != "" || d.Record.LastCall != 9 {
				t.Errorf("open calls (-before +after):\n%s", diff)
			}
			f, ok := d.Record.Result("mine")
			if !ok || f.Succeeded || f.Verb != r.Operation.Verb || f.Description == "" || !f.EndedAt.Equal(noon()) {
				t.Errorf("result of the superseded operation: %+v, %t", f, ok)
			}
			if d.Record.CFGUID != r.CFGUID {
				t.Errorf("GUID %q, want %q", d.Record.CFGUID, r.CFGUID)
			}
		})
	}
}

// TestBindClaim: a bind is bound to the incarnation that it read.
func TestBindClaim(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		state      lc.State
		incomplete bool
		guid       string
	}{
		"ready":                  {lc.Ready, true, "parent"},
		"ready, held":            {lc.Ready, false, "parent"},
		"creating, without GUID": {lc.Creating, true, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := ask(t, stored(lc.Binding, lc.Absent), lc.Request{Verb: lc.Create, AcceptsIncomplete: test.incomplete, Instance: instance(test.state)})
			r := d.Record
			if r.InstanceCreateOp != "incarnation" || r.InstanceGUID != test.guid || r.Operation.Held == test.incomplete {
				t.Errorf("claimed for %q, %q, held %t", r.InstanceCreateOp, r.InstanceGUID, r.Operation.Held)
			}
		})
	}
}

// TestOrphan: what becomes of a binding's operation when its instance is another one.
func TestOrphan(t *testing.T) {
	t.Parallel()
	another := instance(lc.Ready)
	another.CreateOp = "another"
	for name, test := range map[string]struct {
		state     lc.State
		verb      lc.Verb
		ended     bool
		succeeded bool
	}{
		"bind runs, bind again":   {lc.Creating, lc.Create, true, false},
		"bind runs, unbind":       {lc.Creating, lc.Delete, true, false},
		"unbind runs, bind again": {lc.Deleting, lc.Create, true, true},
		"unbind runs, unbind":     {lc.Deleting, lc.Delete, true, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := stored(lc.Binding, test.state)
			polled := lc.Poll(r, "mine", another)
			d := ask(t, r, lc.Request{Verb: test.verb, AcceptsIncomplete: true, Instance: another})
			f, ok := d.Record.Result("mine")
			if !ok || f.Succeeded != test.succeeded || d.Record.Life != r.Life+1 {
				t.Errorf("result %+v %t, life %d", f, ok, d.Record.Life)
			}
			if polled.Running || polled.Result.Succeeded != f.Succeeded {
				t.Errorf("a poll before said %+v, after %+v", polled, f)
			}
		})
	}
}

// TestLostClaim is docs/protocol.md 2.3.
func TestLostClaim(t *testing.T) {
	t.Parallel()
	now := lc.FirstRead{Life: 1, Seq: 100}
	put, patch, remove := lc.Request{Verb: lc.Create, SameAttributes: true}, lc.Request{Verb: lc.Update}, lc.Request{Verb: lc.Delete}
	for name, test := range map[string]struct {
		state   lc.State
		request lc.Request
		first   lc.FirstRead
		want    lc.Outcome
		write   bool
	}{
		"PUT, only progress":           {lc.Gone, put, now, lc.Accepted, true},
		"PUT, another seq":             {lc.Gone, put, lc.FirstRead{Life: 1, Seq: 99}, lc.Superseded, false},
		"PUT, another life":            {lc.Gone, put, lc.FirstRead{Life: 0, Seq: 100}, lc.Superseded, false},
		"PUT, the winner runs":         {lc.Creating, put, lc.FirstRead{}, lc.Running, false},
		"PUT, the winner has ended":    {lc.Ready, put, lc.FirstRead{}, lc.Exists, false},
		"PATCH, only progress":         {lc.Ready, patch, now, lc.Accepted, true},
		"PATCH, another seq":           {lc.Ready, patch, lc.FirstRead{Life: 1, Seq: 99}, lc.Superseded, false},
		"PATCH, the id is free":        {lc.Gone, patch, lc.FirstRead{Life: 0, Seq: 100}, lc.Missing, false},
		"DELETE, another seq":          {lc.Ready, remove, lc.FirstRead{Life: 1, Seq: 99}, lc.Accepted, true},
		"DELETE, another life":         {lc.Ready, remove, lc.FirstRead{Life: 0, Seq: 100}, lc.AlreadyGone, false},
		"DELETE, same life, gone":      {lc.Gone, remove, now, lc.AlreadyGone, true},
		"DELETE, another life, absent": {lc.Absent, remove, now, lc.AlreadyGone, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			q := test.request
			q.AcceptsIncomplete, q.FirstRead = true, &test.first
			if d := ask(t, stored(lc.Instance, test.state), q); d.Outcome != test.want || d.Write != test.write {
				t.Errorf("%s, write %t, want %s, %t", d.Outcome, d.Write, test.want, test.write)
			}
		})
	}
}

// TestGhost: a 410 for an id without a record is stored, with a seq to go on from.
func TestGhost(t *testing.T) {
	t.Parallel()
	d := ask(t, stored(lc.Instance, lc.Absent), lc.Request{Verb: lc.Delete, AcceptsIncomplete: true})
	want := lc.Record{Kind: lc.Instance, State: lc.Ghost, Life: 1, Seq: noon().Unix(), ExpiresAt: noon().Add(keep)}
	if diff := cmp.Diff(want, d.Record); diff != "" {
		t.Errorf("ghost (-want +got):\n%s", diff)
	}
}

func TestResultsAreForgottenOldestFirst(t *testing.T) {
	t.Parallel()
	r := stored(lc.Instance, lc.Creating)
	r.Finished = nil
	for i := range lc.FinishedLimit {
		r.Finished = append(r.Finished, lc.Finished{ID: fmt.Sprint("old-", i)})
	}
	d := ask(t, r, lc.Request{Verb: lc.Delete, AcceptsIncomplete: true})
	_, oldest := d.Record.Result("old-0")
	_, second := d.Record.Result("old-1")
	_, newest := d.Record.Result("mine")
	if len(d.Record.Finished) != lc.FinishedLimit || oldest || !second || !newest {
		t.Errorf("%d results; oldest %t, second %t, newest %t", len(d.Record.Finished), oldest, second, newest)
	}
	if len(r.Finished) != lc.FinishedLimit || r.Finished[0].ID != "old-0" {
		t.Error("the record that was given has changed")
	}
}

func TestClaimedSaysWhetherAnOperationWouldBegin(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		record  lc.Record
		request lc.Request
		want    bool
	}{
		"a new PUT":                     {stored(lc.Instance, lc.Absent), lc.Request{Verb: lc.Create, AcceptsIncomplete: true}, true},
		"a new PUT without the flag":    {stored(lc.Instance, lc.Absent), lc.Request{Verb: lc.Create}, true},
		"a duplicate":                   {stored(lc.Instance, lc.Creating), lc.Request{Verb: lc.Create, SameAttributes: true, AcceptsIncomplete: true}, false},
		"a bind that has to wait":       {stored(lc.Binding, lc.Absent), lc.Request{Verb: lc.Create, Instance: instance(lc.Updating)}, true},
		"a bind to what is not there":   {stored(lc.Binding, lc.Absent), lc.Request{Verb: lc.Create}, true},
		"a DELETE of what is not there": {stored(lc.Instance, lc.Gone), lc.Request{Verb: lc.Delete, AcceptsIncomplete: true}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if d := ask(t, test.record, test.request); d.NeedsClaim != test.want {
				t.Errorf("claimed %t, want %t", d.NeedsClaim, test.want)
			}
		})
	}
}

func TestMalformedEvents(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		record lc.Record
		event  lc.Event
	}{
		"PATCH of a binding": {stored(lc.Binding, lc.Ready), lc.Request{Verb: lc.Update}},
		"no event":           {stored(lc.Instance, lc.Ready), nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if d, err := lc.Next(test.record, test.event); !errors.Is(err, lc.ErrEvent) || d.Write {
				t.Errorf("%+v, %v, want ErrEvent", d, err)
			}
		})
	}
}

// TestDue: a tick that waits writes only when the janitor would come before the next.
func TestDue(t *testing.T) {
	t.Parallel()
	r := stored(lc.Instance, lc.Deleting)
	r.OpenCalls = []lc.OpenCall{open(lc.Create, 90)}
	tick := seen()
	d, err := lc.Next(r, tick)
	if err != nil || d.Effect.Do != lc.Wait || d.Write {
		t.Errorf("%+v, %v: nothing was to be written an hour ahead", d, err)
	}
	r.Operation.Due = noon().Add(tick.Wait)
	d, err = lc.Next(r, tick)
	if err != nil || !d.Write || d.Record.Operation.Due.Before(noon().Add(2*tick.Wait+time.Minute)) {
		t.Errorf("due %v, write %t, %v", d.Record.Operation.Due, d.Write, err)
	}
}

// told is what a poll says, in short.
type told struct {
	Known, Running, Succeeded bool
	Verb                      lc.Verb
}

func poll(r lc.Record, id string, v lc.InstanceView) told {
	p := lc.Poll(r, id, v)
	return told{p.Known, p.Running, p.Result.Succeeded, p.Result.Verb}
}

// cancelled is an instance whose create was cancelled by a DELETE that runs.
func cancelled(t *testing.T) lc.Record {
	t.Helper()
	return ask(t, stored(lc.Instance, lc.Creating), lc.Request{Verb: lc.Delete, AcceptsIncomplete: true}).Record
}

// TestPoll is osb-choices B1, B3, B8 and B9.
func TestPoll(t *testing.T) {
	t.Parallel()
	running, nothing := told{Known: true, Running: true}, told{}
	ended := func(v lc.Verb, ok bool) told { return told{Known: true, Verb: v, Succeeded: ok} }
	deleting := cancelled(t)
	done, err := lc.Next(deleting, func() lc.Tick { k := seen(); k.Operation = "new"; return k }())
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		record lc.Record
		id     string
		want   told
	}{
		"absent":                                   {stored(lc.Instance, lc.Absent), "", nothing},
		"ghost":                                    {stored(lc.Instance, lc.Ghost), "", nothing},
		"create runs":                              {stored(lc.Instance, lc.Creating), "mine", running},
		"create runs, none named":                  {stored(lc.Instance, lc.Creating), "", running},
		"create runs, invented":                    {stored(lc.Instance, lc.Creating), "invented", running},
		"create done":                              {stored(lc.Instance, lc.Ready), "mine", ended(lc.Create, true)},
		"create done, none named":                  {stored(lc.Instance, lc.Ready), "", ended(lc.Create, true)},
		"create done, invented (B9)":               {stored(lc.Instance, lc.Ready), "invented", ended(lc.Create, true)},
		"create failed":                            {stored(lc.Instance, lc.CreateFailed), "mine", ended(lc.Create, false)},
		"create failed, invented (B9)":             {stored(lc.Instance, lc.CreateFailed), "invented", ended(lc.Create, false)},
		"update failed, none named":                {stored(lc.Instance, lc.UpdateFailed), "", ended(lc.Update, false)},
		"delete failed, none named":                {stored(lc.Instance, lc.DeleteFailed), "", ended(lc.Delete, false)},
		"delete cancels create: the create (B3)":   {deleting, "mine", ended(lc.Create, false)},
		"delete cancels create: the delete (B3)":   {deleting, "new", running},
		"delete cancels create: none named (B3)":   {deleting, "", running},
		"delete cancels create: invented (B3, B9)": {deleting, "invented", running},
		"deleted: the delete (B1)":                 {done.Record, "new", ended(lc.Delete, true)},
		"deleted: none named (B1)":                 {done.Record, "", ended(lc.Delete, true)},
		"deleted: invented (B1, B9)":               {done.Record, "invented", ended(lc.Delete, true)},
		"deleted: the cancelled create stays so":   {done.Record, "mine", ended(lc.Create, false)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(test.want, poll(test.record, test.id, lc.InstanceView{})); diff != "" {
				t.Errorf("poll (-want +got):\n%s", diff)
			}
		})
	}
}

// TestPollOfABinding: a binding whose instance is gone is gone, and its bind did not
// succeed, whether or not the platform names it.
func TestPollOfABinding(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		state    lc.State
		id       string
		instance lc.State
		want     told
	}{
		"bind runs":                    {lc.Creating, "mine", lc.Ready, told{Known: true, Running: true}},
		"bind runs, instance deleting": {lc.Creating, "mine", lc.Deleting, told{Known: true, Running: true}},
		"bind, instance gone":          {lc.Creating, "mine", lc.Gone, told{Known: true, Verb: lc.Create}},
		"bind, gone, none named":       {lc.Creating, "", lc.Gone, told{Known: true, Verb: lc.Create}},
		"bind, gone, invented":         {lc.Creating, "invented", lc.Gone, told{Known: true, Verb: lc.Create}},
		"unbind, instance gone":        {lc.Deleting, "mine", lc.Gone, told{Known: true, Verb: lc.Delete, Succeeded: true}},
		"unbind, gone, none named":     {lc.Deleting, "", lc.Gone, told{Known: true, Verb: lc.Delete, Succeeded: true}},
		"ready, gone, none named":      {lc.Ready, "", lc.Gone, told{Known: true, Verb: lc.Delete, Succeeded: true}},
		"ready, its bind":              {lc.Ready, "mine", lc.Gone, told{Known: true, Verb: lc.Create, Succeeded: true}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(test.want, poll(stored(lc.Binding, test.state), test.id, instance(test.instance))); diff != "" {
				t.Errorf("poll (-want +got):\n%s", diff)
			}
		})
	}
}
