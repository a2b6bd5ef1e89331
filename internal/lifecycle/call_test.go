package lifecycle_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	lc "github.com/ferry-broker/ferry/internal/lifecycle"
)

// TestOpenCall: what the intent to POST leaves in the record.
func TestOpenCall(t *testing.T) {
	t.Parallel()
	r := stored(lc.Instance, lc.Creating)
	r.LastCall = 7
	r.OpenCalls = []lc.OpenCall{{Number: 6, Seq: 90, Verb: lc.Create, Until: noon()}, open(lc.Create, 100)}
	tick := seen()
	tick.Now = noon().Add(2 * time.Second)
	d := decide(t, r, tick)
	want := []lc.OpenCall{r.OpenCalls[1], {Number: 8, Seq: 100, Verb: lc.Create, Until: tick.Now.Add(settleAfter)}}
	if diff := cmp.Diff(want, d.Record.OpenCalls); diff != "" {
		t.Errorf("open calls (-want +got):\n%s", diff)
	}
	if d.Effect.CallNumber != 8 || d.Record.LastCall != 8 || d.Record.Operation.Calls != 1 {
		t.Errorf("effect %+v, record %+v", d.Effect, d.Record)
	}
	if l := d.Record.Operation.Lease; l.Holder != "driver" || !l.Until.Equal(tick.LeaseUntil) {
		t.Errorf("lease %+v", l)
	}
}

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
		e.GUID, r.Operation.Cleanup.GUID = "guid", "guid"
	}
	if do == lc.SendDeleteLeftover {
		r.Operation.Job = "create's"
	}
	return r, e
}

// TestReplied is docs/protocol.md 3.5: what each answer settles.
func TestReplied(t *testing.T) {
	t.Parallel()
	const absent = "The service instance does not exist in Cloud Foundry, or its create failed there. Delete it and create it again."
	type test struct {
		state        lc.State
		do           lc.Action
		reply        lc.Reply
		job, refused string
		taken, write bool
	}
	each(t, map[string]test{
		"POST accepted":       {lc.Creating, lc.SendCreate, lc.ReplyAccepted, "job", "", true, true},
		"POST done":           {lc.Creating, lc.SendCreate, lc.ReplyDone, "", "", true, true},
		"POST refused":        {lc.Creating, lc.SendCreate, lc.ReplyRefused, "", "why", false, true},
		"POST taken":          {lc.Creating, lc.SendCreate, lc.ReplyTaken, "", "", false, true},
		"POST busy":           {lc.Creating, lc.SendCreate, lc.ReplyBusy, "", "", false, true},
		"POST absent":         {lc.Creating, lc.SendCreate, lc.ReplyAbsent, "", "", false, true},
		"POST unknown":        {lc.Creating, lc.SendCreate, lc.ReplyUnknown, "", "", false, false},
		"PATCH accepted":      {lc.Updating, lc.SendUpdate, lc.ReplyAccepted, "job", "", true, true},
		"PATCH refused":       {lc.Updating, lc.SendUpdate, lc.ReplyRefused, "", "why", false, true},
		"PATCH absent":        {lc.Updating, lc.SendUpdate, lc.ReplyAbsent, "", absent, false, true},
		"PATCH unknown":       {lc.Updating, lc.SendUpdate, lc.ReplyUnknown, "", "", false, false},
		"DELETE accepted":     {lc.Deleting, lc.SendDelete, lc.ReplyAccepted, "job", "", false, true},
		"DELETE busy":         {lc.Deleting, lc.SendDelete, lc.ReplyBusy, "", "", false, true},
		"DELETE absent":       {lc.Deleting, lc.SendDelete, lc.ReplyAbsent, "", "", false, true},
		"DELETE refused":      {lc.Deleting, lc.SendDelete, lc.ReplyRefused, "", "", false, true},
		"DELETE unknown":      {lc.Deleting, lc.SendDelete, lc.ReplyUnknown, "", "", false, false},
		"a leftover's DELETE": {lc.Creating, lc.SendDeleteLeftover, lc.ReplyAccepted, "create's", "", false, true},
	}, func(t *testing.T, test test) {
		r, e := sentOff(test.state, test.do, test.reply)
		d := decide(t, r, e)
		op := d.Record.Operation
		if d.Write != test.write || d.ForgetParameters != test.taken || op.Job != test.job || op.FinalRefusal != test.refused {
			t.Errorf("write %t, parameters forgotten %t, job %q, refused %q", d.Write, d.ForgetParameters, op.Job, op.FinalRefusal)
		}
		if leftover := test.do == lc.SendDeleteLeftover; (op.Cleanup == lc.Cleanup{GUID: "guid", Job: "job"}) != leftover {
			t.Errorf("clean-up %+v", op.Cleanup)
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

// TestRepliedToAStaleActor: it may remove its own open call, if that is still there, and nothing else.
func TestRepliedToAStaleActor(t *testing.T) {
	t.Parallel()
	moved := func(_ *lc.Record, e *lc.Replied) { e.SameRevision = false }
	each(t, map[string]func(*lc.Record, *lc.Replied){
		"the revision moved":      moved,
		"the operation was ended": func(r *lc.Record, _ *lc.Replied) { r.State = lc.Ready },
		"another operation runs":  func(_ *lc.Record, e *lc.Replied) { e.Operation = "older" },
		"its call is no more":     func(r *lc.Record, e *lc.Replied) { moved(r, e); r.OpenCalls = r.OpenCalls[:1] },
	}, func(t *testing.T, change func(*lc.Record, *lc.Replied)) {
		for _, reply := range []lc.Reply{lc.ReplyAccepted, lc.ReplyRefused, lc.ReplyUnknown} {
			r, e := sentOff(lc.Creating, lc.SendCreate, reply)
			change(&r, &e)
			want, removes := r.Clone(), reply != lc.ReplyUnknown && holds(r, 7)
			if removes {
				want.OpenCalls = want.OpenCalls[:1]
			}
			d := decide(t, r, e)
			if d.Outcome != lc.Stopped || d.Write != removes || d.ForgetParameters {
				t.Errorf("%s: outcome %s, write %t, parameters forgotten %t", reply, d.Outcome, d.Write, d.ForgetParameters)
			}
			if diff := cmp.Diff(want, d.Record); diff != "" {
				t.Errorf("%s: record (-want +got):\n%s", reply, diff)
			}
		}
	})
}

// TestCreatedWithoutAJob: a POST that was answered as carried out has dropped its parameters, so that a row which then
// vanishes is never posted again.
func TestCreatedWithoutAJob(t *testing.T) {
	t.Parallel()
	r, e := sentOff(lc.Creating, lc.SendCreate, lc.ReplyDone)
	d := decide(t, r, e)
	d.Record.OpenCalls = nil
	if d = decide(t, d.Record, seen()); d.Outcome != lc.Ended || d.Result.Succeeded {
		t.Errorf("%+v; want the create to end as failed", d)
	}
}
