package lifecycle_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	lc "github.com/ferry-broker/ferry/internal/lifecycle"
)

// sentOff is a record whose call 7 has just left, and the reply to it.
func sentOff(state lc.State, do lc.Do, reply lc.Reply) (lc.Record, lc.Replied) {
	r := stored(lc.Instance, state)
	r.Operation.Calls, r.LastCall = 1, 7
	r.Operation.Lease = lc.Lease{Holder: "driver", Until: noon().Add(callTime)}
	e := lc.Replied{
		Operation: "mine", Do: do, Own: true, Driver: "driver", Now: noon(),
		Answer: lc.Answer{Reply: reply, Description: "why", Code: "Code"},
	}
	if reply == lc.ReplyAccepted {
		e.Answer.Job = "job"
	}
	if do == lc.Post || do == lc.Patch {
		e.Call = 7
		r.OpenCalls = []lc.OpenCall{open(lc.Create, 90), open(lc.Create, 100)}
		r.OpenCalls[0].N = 6
	} else {
		e.GUID = "guid"
	}
	return r, e
}

// TestReplied is docs/protocol.md 3.5: what each answer settles.
func TestReplied(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		state          lc.State
		do             lc.Do
		reply          lc.Reply
		job, refused   string
		settled, write bool
	}{
		"POST accepted":       {lc.Creating, lc.Post, lc.ReplyAccepted, "job", "", true, true},
		"POST done":           {lc.Creating, lc.Post, lc.ReplyDone, "", "", true, true},
		"POST refused":        {lc.Creating, lc.Post, lc.ReplyRefused, "", "why", false, true},
		"POST taken":          {lc.Creating, lc.Post, lc.ReplyTaken, "", "", false, true},
		"POST busy":           {lc.Creating, lc.Post, lc.ReplyBusy, "", "", false, true},
		"POST absent":         {lc.Creating, lc.Post, lc.ReplyAbsent, "", "", false, true},
		"POST unknown":        {lc.Creating, lc.Post, lc.ReplyUnknown, "", "", false, false},
		"PATCH accepted":      {lc.Updating, lc.Patch, lc.ReplyAccepted, "job", "", true, true},
		"PATCH refused":       {lc.Updating, lc.Patch, lc.ReplyRefused, "", "why", false, true},
		"PATCH absent":        {lc.Updating, lc.Patch, lc.ReplyAbsent, "", "The service instance does not exist in Cloud Foundry, or its create failed there. Delete it and create it again.", false, true},
		"PATCH unknown":       {lc.Updating, lc.Patch, lc.ReplyUnknown, "", "", false, false},
		"DELETE accepted":     {lc.Deleting, lc.Remove, lc.ReplyAccepted, "job", "", false, true},
		"DELETE busy":         {lc.Deleting, lc.Remove, lc.ReplyBusy, "", "", false, true},
		"DELETE absent":       {lc.Deleting, lc.Remove, lc.ReplyAbsent, "", "", false, true},
		"DELETE refused":      {lc.Deleting, lc.Remove, lc.ReplyRefused, "", "", false, true},
		"DELETE unknown":      {lc.Deleting, lc.Remove, lc.ReplyUnknown, "", "", false, false},
		"a leftover's DELETE": {lc.Creating, lc.RemoveLeftover, lc.ReplyAccepted, "", "", false, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, e := sentOff(test.state, test.do, test.reply)
			d, err := lc.Next(r, e)
			if err != nil {
				t.Fatal(err)
			}
			op := d.Record.Operation
			if d.Write != test.write || d.Settled != test.settled || op.Job != test.job || op.FinalRefusal != test.refused {
				t.Errorf("write %t, settled %t, job %q, refused %q", d.Write, d.Settled, op.Job, op.FinalRefusal)
			}
			if d.Outcome != lc.Ongoing || d.Record.State != test.state {
				t.Errorf("outcome %s, state %s: an answer ends nothing", d.Outcome, d.Record.State)
			}
			if e.Call != 0 && (holds(d.Record, 7) == test.write || !holds(d.Record, 6)) {
				t.Errorf("open calls %+v", d.Record.OpenCalls)
			}
			if test.write && op.Lease != (lc.Lease{}) {
				t.Errorf("lease %+v", op.Lease)
			}
		})
	}
}

func TestRepliedKeepsTheJobOfALeftoverApart(t *testing.T) {
	t.Parallel()
	r, e := sentOff(lc.Creating, lc.RemoveLeftover, lc.ReplyAccepted)
	r.Operation.Job, r.Operation.Cleanup.GUID = "create's", "guid"
	d, err := lc.Next(r, e)
	if err != nil || d.Record.Operation.Job != "create's" || d.Record.Operation.Cleanup != (lc.Cleanup{GUID: "guid", Job: "job"}) {
		t.Errorf("%+v, %v", d.Record.Operation, err)
	}
}

// TestRepliedToAStaleActor: it may remove its own open call, and nothing else.
func TestRepliedToAStaleActor(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*lc.Record, *lc.Replied){
		"the revision moved":      func(_ *lc.Record, e *lc.Replied) { e.Own = false },
		"the operation was ended": func(r *lc.Record, _ *lc.Replied) { r.State = lc.Ready },
		"another operation runs":  func(_ *lc.Record, e *lc.Replied) { e.Operation = "older" },
	} {
		for _, reply := range []lc.Reply{lc.ReplyAccepted, lc.ReplyRefused, lc.ReplyUnknown} {
			t.Run(name+", "+string(reply), func(t *testing.T) {
				t.Parallel()
				r, e := sentOff(lc.Creating, lc.Post, reply)
				change(&r, &e)
				want := r.Clone()
				definite := reply != lc.ReplyUnknown
				if definite {
					want.OpenCalls = want.OpenCalls[:1]
				}
				d, err := lc.Next(r, e)
				if err != nil || d.Outcome != lc.Stopped || d.Write != definite || d.Settled {
					t.Errorf("outcome %s, write %t, settled %t, %v", d.Outcome, d.Write, d.Settled, err)
				}
				if diff := cmp.Diff(want, d.Record); diff != "" {
					t.Errorf("record (-want +got):\n%s", diff)
				}
			})
		}
	}
}

func TestRepliedToAStaleActorWhoseCallIsNoMore(t *testing.T) {
	t.Parallel()
	r, e := sentOff(lc.Creating, lc.Post, lc.ReplyAccepted)
	r.OpenCalls, e.Own = nil, false
	if d, err := lc.Next(r, e); err != nil || d.Write {
		t.Errorf("write %t, %v", d.Write, err)
	}
}
