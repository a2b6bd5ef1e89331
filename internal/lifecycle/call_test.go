package lifecycle_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	lc "github.com/ferry-broker/ferry/internal/lifecycle"
)

// sentOff is a record whose call 7 has just left, and the reply to it.
func sentOff(state lc.State, do lc.Action, reply lc.Reply) (lc.Record, lc.Replied) {
	r := stored(lc.Instance, state)
	r.Operation.Calls, r.LastCall = 1, 7
	r.Operation.Lease = lc.Lease{Holder: "driver", Until: noon().Add(callTime)}
	e := lc.Replied{
		Operation: "mine", Do: do, SameRevision: true, Driver: "driver", Now: noon(),
		Answer: lc.Answer{Reply: reply, Description: "why", Code: "Code"},
	}
	if reply == lc.ReplyAccepted {
		e.Answer.Job = "job"
	}
	if do == lc.SendCreate || do == lc.SendUpdate {
		e.CallNumber = 7
		r.OpenCalls = []lc.OpenCall{open(lc.Create, 90), open(lc.Create, 100)}
		r.OpenCalls[0].Number = 6
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
		do             lc.Action
		reply          lc.Reply
		job, refused   string
		settled, write bool
	}{
		"POST accepted":       {lc.Creating, lc.SendCreate, lc.ReplyAccepted, "job", "", true, true},
		"POST done":           {lc.Creating, lc.SendCreate, lc.ReplyDone, "", "", true, true},
		"POST refused":        {lc.Creating, lc.SendCreate, lc.ReplyRefused, "", "why", false, true},
		"POST taken":          {lc.Creating, lc.SendCreate, lc.ReplyTaken, "", "", false, true},
		"POST busy":           {lc.Creating, lc.SendCreate, lc.ReplyBusy, "", "", false, true},
		"POST absent":         {lc.Creating, lc.SendCreate, lc.ReplyAbsent, "", "", false, true},
		"POST unknown":        {lc.Creating, lc.SendCreate, lc.ReplyUnknown, "", "", false, false},
		"PATCH accepted":      {lc.Updating, lc.SendUpdate, lc.ReplyAccepted, "job", "", true, true},
		"PATCH refused":       {lc.Updating, lc.SendUpdate, lc.ReplyRefused, "", "why", false, true},
		"PATCH absent":        {lc.Updating, lc.SendUpdate, lc.ReplyAbsent, "", "The service instance does not exist in Cloud Foundry, or its create failed there. Delete it and create it again.", false, true},
		"PATCH unknown":       {lc.Updating, lc.SendUpdate, lc.ReplyUnknown, "", "", false, false},
		"DELETE accepted":     {lc.Deleting, lc.SendDelete, lc.ReplyAccepted, "job", "", false, true},
		"DELETE busy":         {lc.Deleting, lc.SendDelete, lc.ReplyBusy, "", "", false, true},
		"DELETE absent":       {lc.Deleting, lc.SendDelete, lc.ReplyAbsent, "", "", false, true},
		"DELETE refused":      {lc.Deleting, lc.SendDelete, lc.ReplyRefused, "", "", false, true},
		"DELETE unknown":      {lc.Deleting, lc.SendDelete, lc.ReplyUnknown, "", "", false, false},
		"a leftover's DELETE": {lc.Creating, lc.SendDeleteLeftover, lc.ReplyAccepted, "", "", false, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, e := sentOff(test.state, test.do, test.reply)
			d, err := lc.Next(r, e)
			if err != nil {
				t.Fatal(err)
			}
			op := d.Record.Operation
			if d.Write != test.write || d.ForgetParameters != test.settled || op.Job != test.job || op.FinalRefusal != test.refused {
				t.Errorf("write %t, settled %t, job %q, refused %q", d.Write, d.ForgetParameters, op.Job, op.FinalRefusal)
			}
			if d.Outcome != lc.Ongoing || d.Record.State != test.state {
				t.Errorf("outcome %s, state %s: an answer ends nothing", d.Outcome, d.Record.State)
			}
			if e.CallNumber != 0 && (holds(d.Record, 7) == test.write || !holds(d.Record, 6)) {
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
	r, e := sentOff(lc.Creating, lc.SendDeleteLeftover, lc.ReplyAccepted)
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
		"the revision moved":      func(_ *lc.Record, e *lc.Replied) { e.SameRevision = false },
		"the operation was ended": func(r *lc.Record, _ *lc.Replied) { r.State = lc.Ready },
		"another operation runs":  func(_ *lc.Record, e *lc.Replied) { e.Operation = "older" },
	} {
		for _, reply := range []lc.Reply{lc.ReplyAccepted, lc.ReplyRefused, lc.ReplyUnknown} {
			t.Run(name+", "+string(reply), func(t *testing.T) {
				t.Parallel()
				r, e := sentOff(lc.Creating, lc.SendCreate, reply)
				change(&r, &e)
				want := r.Clone()
				definite := reply != lc.ReplyUnknown
				if definite {
					want.OpenCalls = want.OpenCalls[:1]
				}
				d, err := lc.Next(r, e)
				if err != nil || d.Outcome != lc.Stopped || d.Write != definite || d.ForgetParameters {
					t.Errorf("outcome %s, write %t, settled %t, %v", d.Outcome, d.Write, d.ForgetParameters, err)
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
	r, e := sentOff(lc.Creating, lc.SendCreate, lc.ReplyAccepted)
	r.OpenCalls, e.SameRevision = nil, false
	if d, err := lc.Next(r, e); err != nil || d.Write {
		t.Errorf("write %t, %v", d.Write, err)
	}
}

// TestMadeWithoutAJob: a POST that was answered as carried out has dropped its
// parameters, so that a row which then vanishes is never posted again.
func TestMadeWithoutAJob(t *testing.T) {
	t.Parallel()
	r, e := sentOff(lc.Creating, lc.SendCreate, lc.ReplyDone)
	d, err := lc.Next(r, e)
	if err != nil || !d.ForgetParameters || !d.Record.Operation.CreatedWithoutJob {
		t.Fatalf("%+v, %v", d, err)
	}
	tick := seen()
	d.Record.OpenCalls = nil
	tick.Operation, d.Record.Operation.Deadline = d.Record.Operation.ID, noon().Add(time.Hour)
	d, err = lc.Next(d.Record, tick)
	if err != nil || d.Effect.Do == lc.SendCreate || d.Outcome != lc.Ended || d.Result.Succeeded {
		t.Errorf("%+v, %v; want the create to end as failed", d, err)
	}
}

// TestARefusalThatFindsNothingSaysSo: instance_usable false goes with a PATCH whose
// instance is not there.
func TestARefusalThatFindsNothingSaysSo(t *testing.T) {
	t.Parallel()
	r, e := sentOff(lc.Updating, lc.SendUpdate, lc.ReplyAbsent)
	r.CFGUID = "guid"
	d, err := lc.Next(r, e)
	if err != nil {
		t.Fatal(err)
	}
	tick := seen(mine(lc.Create, lc.LastFailed))
	d.Record.OpenCalls = nil
	tick.Operation, d.Record.Operation.Deadline = d.Record.Operation.ID, noon().Add(time.Hour)
	d, err = lc.Next(d.Record, tick)
	if err != nil || d.Result == nil || !d.Result.InstanceUnusable || !d.Result.UpdateNotRepeatable {
		t.Errorf("%+v, %v; want an end that is final, with the instance unusable", d.Result, err)
	}
}
