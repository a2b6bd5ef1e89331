package lifecycle_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	lc "github.com/ferry-broker/ferry/internal/lifecycle"
)

// TestClaimCounters: seq starts at the Unix time, and rises by one from then on.
func TestClaimCounters(t *testing.T) {
	t.Parallel()
	put := lc.Request{Verb: lc.Create, SameAttributes: true, AcceptsIncomplete: true}
	remove := lc.Request{Verb: lc.Delete, AcceptsIncomplete: true}
	patch := lc.Request{Verb: lc.Update, AcceptsIncomplete: true}
	type test struct {
		state     lc.State
		request   lc.Request
		seq, life int64
		wasFree   bool
	}
	each(t, map[string]test{
		"PUT of an absent id starts at the time": {lc.Absent, put, noon().Unix(), 0, true},
		"PUT over a ghost goes on":               {lc.Ghost, put, 101, 1, true},
		"PUT over a tombstone goes on":           {lc.Gone, put, 101, 1, true},
		"PUT over a failed create looks first":   {lc.CreateFailed, put, 101, 1, false},
		"PATCH":                                  {lc.Ready, patch, 101, 1, false},
		"DELETE":                                 {lc.Ready, remove, 101, 1, false},
		"DELETE during a create":                 {lc.Creating, remove, 101, 1, false},
	}, func(t *testing.T, test test) {
		r := ask(t, stored(lc.Instance, test.state), test.request).Record
		if r.Seq != test.seq || r.Operation.Seq != test.seq || r.Life != test.life || !r.ExpiresAt.IsZero() {
			t.Errorf("seq %d and %d, life %d, expires %v", r.Seq, r.Operation.Seq, r.Life, r.ExpiresAt)
		}
		if test.request.Verb == lc.Create && r.CreateOp != (lc.Reference{ID: "new", Seq: test.seq}) {
			t.Errorf("incarnation %+v", r.CreateOp)
		}
		want := lc.Operation{
			ID: "new", Seq: test.seq, Verb: test.request.Verb, IDWasFree: test.wasFree,
			Started: noon(), Deadline: noon().Add(week), Due: noon().Add(callTime),
		}
		if diff := cmp.Diff(want, r.Operation); diff != "" {
			t.Errorf("operation (-want +got):\n%s", diff)
		}
	})
}

// TestClaimKeeps: open calls survive, and the superseded operation has a result.
func TestClaimKeeps(t *testing.T) {
	t.Parallel()
	for _, state := range []lc.State{lc.Creating, lc.Updating} {
		r := stored(lc.Instance, state)
		r.OpenCalls = []lc.OpenCall{open(lc.Create, 100), open(lc.Update, 90)}
		r.LastCall = 9
		d := ask(t, r, lc.Request{Verb: lc.Delete, AcceptsIncomplete: true})
		if diff := cmp.Diff(r.OpenCalls, d.Record.OpenCalls); diff != "" || d.Record.LastCall != 9 || d.Record.CFGUID != r.CFGUID {
			t.Errorf("%s: GUID %q; open calls (-before +after):\n%s", state, d.Record.CFGUID, diff)
		}
		f, ok := d.Record.Result("mine")
		if !ok || f.Succeeded || f.Verb != r.Operation.Verb || f.Description == "" || !f.EndedAt.Equal(noon()) {
			t.Errorf("%s: result of the superseded operation: %+v, %t", state, f, ok)
		}
	}
}

// TestBindClaim: a bind is bound to the incarnation that it read.
func TestBindClaim(t *testing.T) {
	t.Parallel()
	type test struct {
		state      lc.State
		incomplete bool
		guid       string
	}
	each(t, map[string]test{
		"ready":                  {lc.Ready, true, "parent"},
		"ready, held":            {lc.Ready, false, "parent"},
		"creating, without GUID": {lc.Creating, true, ""},
	}, func(t *testing.T, test test) {
		r := ask(t, stored(lc.Binding, lc.Absent), lc.Request{Verb: lc.Create, AcceptsIncomplete: test.incomplete, Instance: instance(test.state)}).Record
		if r.InstanceCreateOp != "incarnation" || r.InstanceGUID != test.guid || r.Operation.Held == test.incomplete {
			t.Errorf("claimed for %q, %q, held %t", r.InstanceCreateOp, r.InstanceGUID, r.Operation.Held)
		}
	})
}

// TestOrphan: what becomes of a binding's operation when its instance is another one, and that polls say the same
// before.
func TestOrphan(t *testing.T) {
	t.Parallel()
	type test struct {
		state     lc.State
		verb      lc.Verb
		succeeded bool
	}
	each(t, map[string]test{
		"bind runs, bind again":   {lc.Creating, lc.Create, false},
		"bind runs, unbind":       {lc.Creating, lc.Delete, false},
		"unbind runs, bind again": {lc.Deleting, lc.Create, true},
		"unbind runs, unbind":     {lc.Deleting, lc.Delete, true},
	}, func(t *testing.T, test test) {
		r := stored(lc.Binding, test.state)
		polled := lc.Poll(r, "mine", another())
		d := ask(t, r, lc.Request{Verb: test.verb, AcceptsIncomplete: true, Instance: another()})
		f, ok := d.Record.Result("mine")
		if !ok || f.Succeeded != test.succeeded || d.Record.Life != r.Life+1 {
			t.Errorf("result %+v %t, life %d", f, ok, d.Record.Life)
		}
		if polled.Running || polled.Result.Succeeded != f.Succeeded {
			t.Errorf("a poll before said %+v, after %+v", polled, f)
		}
	})
}

// TestLostClaim is docs/protocol.md 2.3.
func TestLostClaim(t *testing.T) {
	t.Parallel()
	now := lc.FirstRead{Life: 1, Seq: 100}
	put, patch, remove := lc.Request{Verb: lc.Create, SameAttributes: true}, lc.Request{Verb: lc.Update}, lc.Request{Verb: lc.Delete}
	type test struct {
		state   lc.State
		request lc.Request
		first   lc.FirstRead
		want    lc.Outcome
		write   bool
	}
	each(t, map[string]test{
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
	}, func(t *testing.T, test test) {
		q := test.request
		q.AcceptsIncomplete, q.FirstRead = true, &test.first
		if d := ask(t, stored(lc.Instance, test.state), q); d.Outcome != test.want || d.Write != test.write {
			t.Errorf("%s, write %t, want %s, %t", d.Outcome, d.Write, test.want, test.write)
		}
	})
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

// TestQuotesEndWithTheirOperation: a backing broker's words may quote what was sent.
func TestQuotesEndWithTheirOperation(t *testing.T) {
	t.Parallel()
	said := func(k lc.Kind, s lc.State) lc.Record {
		r := stored(k, s)
		r.Operation.TemporaryRefusal, r.Operation.NoAnswer = "hunter2", "hunter2"
		return r
	}
	for name, r := range map[string]lc.Record{
		"gone":         decide(t, said(lc.Instance, lc.Deleting), seen()).Record,
		"cancelled":    ask(t, said(lc.Instance, lc.Creating), lc.Request{Verb: lc.Delete, AcceptsIncomplete: true}).Record,
		"of an orphan": ask(t, said(lc.Binding, lc.Deleting), lc.Request{Verb: lc.Delete, Instance: instance(lc.Gone)}).Record,
	} {
		if op := r.Operation; op.TemporaryRefusal+op.NoAnswer != "" {
			t.Errorf("%s: %+v", name, op)
		}
	}
}

func TestNeedsClaim(t *testing.T) {
	t.Parallel()
	type test struct {
		record  lc.Record
		request lc.Request
		want    bool
	}
	each(t, map[string]test{
		"a new PUT":                     {stored(lc.Instance, lc.Absent), lc.Request{Verb: lc.Create, AcceptsIncomplete: true}, true},
		"a new PUT without the flag":    {stored(lc.Instance, lc.Absent), lc.Request{Verb: lc.Create}, true},
		"a duplicate":                   {stored(lc.Instance, lc.Creating), lc.Request{Verb: lc.Create, SameAttributes: true, AcceptsIncomplete: true}, false},
		"a bind that has to wait":       {stored(lc.Binding, lc.Absent), lc.Request{Verb: lc.Create, Instance: instance(lc.Updating)}, true},
		"a bind to what is not there":   {stored(lc.Binding, lc.Absent), lc.Request{Verb: lc.Create}, true},
		"a DELETE of what is not there": {stored(lc.Instance, lc.Gone), lc.Request{Verb: lc.Delete, AcceptsIncomplete: true}, false},
	}, func(t *testing.T, test test) {
		if d := ask(t, test.record, test.request); d.NeedsClaim != test.want {
			t.Errorf("needs a claim: %t, want %t", d.NeedsClaim, test.want)
		}
	})
}

func TestMalformedEvents(t *testing.T) {
	t.Parallel()
	for name, event := range map[string]lc.Event{"PATCH of a binding": lc.Request{Verb: lc.Update}, "no event": nil} {
		if d, err := lc.Next(stored(lc.Binding, lc.Ready), event); !errors.Is(err, lc.ErrEvent) || d.Write {
			t.Errorf("%s: %+v, %v, want ErrEvent", name, d, err)
		}
	}
}

// told is what a poll says, in short.
type told struct {
	Known, Running, Succeeded bool
	Verb                      lc.Verb
}

func succeeded(v lc.Verb) told { return told{Known: true, Succeeded: true, Verb: v} }
func failed(v lc.Verb) told    { return told{Known: true, Verb: v} }

type pollTest struct {
	record   lc.Record
	id       string
	instance lc.State
	want     told
}

// TestPoll is LOI-20, LOI-21 and LOI-24 to LOI-26, as docs/osb-choices.md has them. A binding whose instance is gone is
// gone, and its bind did not succeed, whether or not the platform names it.
func TestPoll(t *testing.T) {
	t.Parallel()
	running, nothing := told{Known: true, Running: true}, told{}
	// A delete that cancelled a create, while it runs and afterwards.
	deleting := ask(t, stored(lc.Instance, lc.Creating), lc.Request{Verb: lc.Delete, AcceptsIncomplete: true}).Record
	tick := seen()
	tick.Operation = "new"
	deleted := decide(t, deleting, tick).Record
	in, bound := func(s lc.State) lc.Record { return stored(lc.Instance, s) }, func(s lc.State) lc.Record { return stored(lc.Binding, s) }
	each(t, map[string]pollTest{
		"absent":                                 {in(lc.Absent), "", "", nothing},
		"ghost":                                  {in(lc.Ghost), "", "", nothing},
		"create runs":                            {in(lc.Creating), "mine", "", running},
		"create runs, none named":                {in(lc.Creating), "", "", running},
		"create runs, invented":                  {in(lc.Creating), "invented", "", running},
		"create done":                            {in(lc.Ready), "mine", "", succeeded(lc.Create)},
		"create done, none named":                {in(lc.Ready), "", "", succeeded(lc.Create)},
		"create done, invented":                  {in(lc.Ready), "invented", "", succeeded(lc.Create)},
		"create failed":                          {in(lc.CreateFailed), "mine", "", failed(lc.Create)},
		"create failed, invented":                {in(lc.CreateFailed), "invented", "", failed(lc.Create)},
		"update failed, none named":              {in(lc.UpdateFailed), "", "", failed(lc.Update)},
		"delete failed, none named":              {in(lc.DeleteFailed), "", "", failed(lc.Delete)},
		"delete cancels create: the create":      {deleting, "mine", "", failed(lc.Create)},
		"delete cancels create: the delete":      {deleting, "new", "", running},
		"delete cancels create: none named":      {deleting, "", "", running},
		"delete cancels create: invented":        {deleting, "invented", "", running},
		"deleted: the delete":                    {deleted, "new", "", succeeded(lc.Delete)},
		"deleted: none named":                    {deleted, "", "", succeeded(lc.Delete)},
		"deleted: invented":                      {deleted, "invented", "", succeeded(lc.Delete)},
		"deleted: the cancelled create stays so": {deleted, "mine", "", failed(lc.Create)},

		"bind runs":                    {bound(lc.Creating), "mine", lc.Ready, running},
		"bind runs, instance deleting": {bound(lc.Creating), "mine", lc.Deleting, running},
		"bind, instance gone":          {bound(lc.Creating), "mine", lc.Gone, failed(lc.Create)},
		"bind, gone, none named":       {bound(lc.Creating), "", lc.Gone, failed(lc.Create)},
		"bind, gone, invented":         {bound(lc.Creating), "invented", lc.Gone, failed(lc.Create)},
		"unbind, instance gone":        {bound(lc.Deleting), "mine", lc.Gone, succeeded(lc.Delete)},
		"unbind, gone, none named":     {bound(lc.Deleting), "", lc.Gone, succeeded(lc.Delete)},
		"ready, gone, none named":      {bound(lc.Ready), "", lc.Gone, succeeded(lc.Delete)},
		"ready, its bind":              {bound(lc.Ready), "mine", lc.Gone, succeeded(lc.Create)},
	}, func(t *testing.T, test pollTest) {
		p := lc.Poll(test.record, test.id, instance(test.instance))
		got := told{p.Known, p.Running, p.Result.Succeeded, p.Result.Verb}
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("poll (-want +got):\n%s", diff)
		}
	})
}
