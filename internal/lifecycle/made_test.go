package lifecycle_test

import (
	"testing"
	"time"

	lc "github.com/ferry-broker/ferry/internal/lifecycle"
)

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
