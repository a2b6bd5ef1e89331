package lifecycle_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	lc "github.com/ferry-broker/ferry/internal/lifecycle"
)

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
