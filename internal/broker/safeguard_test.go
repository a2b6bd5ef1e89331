package broker_test

import (
	"time"

	"github.com/ferry-broker/ferry/internal/brokertest"
)

// mutation takes a safeguard out: in one file, one text that occurs there once.
type mutation struct{ file, find, replace string }

// safeguard is a line of docs/protocol.md section 11.
type safeguard struct {
	name    string
	test    func(*rig)
	options brokertest.ScheduleOptions
	// without lists the ways to take the safeguard out. The mutations of one way
	// are made together: of those each alone would do.
	without [][]mutation
}

func one(file, find, replace string) []mutation { return []mutation{{file, find, replace}} }

// unwritten lets call decide without the write that holds the open call.
func unwritten() [][]mutation {
	return [][]mutation{one("lifecycle/call.go",
		"Write: true, Outcome: Ongoing, Effect: Effect{Do: do,", "Write: false, Outcome: Ongoing, Effect: Effect{Do: do,")}
}

// unconditional makes a refused write again, on whatever is stored by now.
func unconditional(file, write, record string) [][]mutation {
	put := write + "(ctx, " + record + ", rec.Revision)"
	return [][]mutation{one(file, put, put+
		"\nif err == nil && !won {\nstored, won, err = b.put(ctx, "+record+", stored.Revision)\n}")}
}

// anyTime lets a tick unbind whatever it once listed.
func anyTime() [][]mutation {
	return [][]mutation{one("broker/send.go", "c.check = b.stillDeleting(ctx, instance)", "c.check = func(Record, lifecycle.Decision) error { return nil }")}
}

func safeguards() []safeguard {
	hasty := brokertest.ScheduleOptions{Deadline: 10 * time.Minute}
	return []safeguard{
		{name: "conditional claim", test: conditionalClaim, without: unconditional("broker/change.go", "stored, won, lost, err := b.write", "next")},
		{name: "no claim after a lost write with another seq or life", test: givenUp, without: [][]mutation{
			one("lifecycle/request.go", "(d.Outcome == Accepted || d.Outcome == Hold) && q.overtaken(r)", "false && q.overtaken(r)")}},
		{name: "410 moves life", test: goneMovesLife, without: [][]mutation{
			one("lifecycle/request.go", "d.Record, d.Write = tombstone(r, q), true", "_ = tombstone")}},
		{name: "410 conditionally", test: gone410Conditional, without: unconditional("broker/change.go", "stored, won, lost, err := b.write", "next")},
		{name: "conditional write before POST with the open call in it", test: callBeforePost, without: unwritten()},
		{name: "open call before PATCH", test: callBeforePatch, without: unwritten()},
		{name: "open calls survive the cancel and delete waits for open POSTs", test: callsSurviveCancel, without: [][]mutation{
			one("lifecycle/request.go", "n.ExpiresAt = time.Time{}", "n.ExpiresAt, n.OpenCalls = time.Time{}, nil"),
			one("lifecycle/delete.go", "none && r.HasOpenCall(Create, t.ReadAt)", "false"),
			one("lifecycle/delete.go", "case r.HasOpenCall(Create, t.ReadAt) && !Orphaned(r, *t.Instance):", "case false:")}},
		{name: "wait is H", test: waitIsSettleAfter, without: [][]mutation{
			one("lifecycle/call.go", "Until: t.Now.Add(t.SettleAfter)", "Until: t.Now.Add(time.Minute)")}},
		{name: "senders bounded", test: sendersAreBounded, without: [][]mutation{
			one("broker/send.go", "left := b.remaining(t.Now)", "left := b.CallTimeout")}},
		{name: "entries judged before the look-up", test: judgedBeforeLook, without: [][]mutation{
			one("lifecycle/delete.go", "none && r.HasOpenCall(Create, t.ReadAt)", "none && r.HasOpenCall(Create, t.Now)")}},
		{name: "failed create waits for open calls", test: failedWaits, without: [][]mutation{
			one("lifecycle/create.go", ` || r.HasOpenCall("", t.ReadAt)`, "")}},
		{name: "failed update waits for open calls", test: callBeforePatch, without: [][]mutation{
			one("lifecycle/tick.go", `if r.HasOpenCall("", t.ReadAt) {`, "if false {")}},
		{name: "next update waits for foreign open calls", test: nextUpdateWaits, without: [][]mutation{
			one("lifecycle/update.go", "case r.hasOpenCallOfOthers(t.ReadAt):", "case false:")}},
		{name: "adoption by operation mark", test: adoptionByMark, options: hasty, without: [][]mutation{
			one("lifecycle/create.go", "case row.Marked && row.Operation == r.Operation.ID:", "case row.Marked && row.Seq <= r.Operation.Seq:")}},
		{name: "conditional write before DELETE and known operations", test: resumedDelete, without: [][]mutation{{
			{"lifecycle/call.go", "Write: true, Outcome: Ongoing, Effect: Effect{Do: SendDelete,", "Write: false, Outcome: Ongoing, Effect: Effect{Do: SendDelete,"},
			{"lifecycle/delete.go", "row.Marked && r.KnowsOperation(row.Operation)", "row.Marked"}}}},
		{name: "DELETE by the guid of the look-up", test: deleteByGUID, without: [][]mutation{
			one("broker/send.go", "return backend.DeleteInstance(ctx, e.GUID)", "look, _ := backend.FindInstances(ctx, rec.Key.InstanceID)\n"+
				"for _, row := range look.Rows {\ne.GUID = row.GUID\n}\nreturn backend.DeleteInstance(ctx, e.GUID)")}},
		{name: "conditional report", test: conditionalReport, without: unconditional("broker/advance.go", "stored, won, err := b.put", "b.describe(ctx, settle(rec, d), d, t.Look)")},
		{name: "failed only when the job says so", test: failedByJob, without: [][]mutation{
			one("lifecycle/create.go", "!finalFailure(job.State, row.Age, t.SettleAfter) || ", "")}},
		{name: "delete failed only by the own job", test: deleteFailedByOwnJob, without: [][]mutation{
			one("lifecycle/delete.go", "return deleteRow(r, t, rows[0].GUID)",
				"if rows[0].Last.failed(Delete) {\nreturn fail(r, t, Finished{})\n}\nreturn deleteRow(r, t, rows[0].GUID)"),
			one("lifecycle/delete.go", " && t.Job.FromBackingBroker", "")}},
		{name: "binding tied to incarnation and guid", test: bindOfFormerLife, without: [][]mutation{{
			{"lifecycle/request.go", " || instance.CreateOp != binding.InstanceCreateOp", ""},
			{"lifecycle/create.go", "if r.InstanceGUID == \"\" {\n\t\tif", "{\n\t\tif"}}}},
		{name: "instance read again after the claim", test: instanceReadAgain, without: [][]mutation{
			one("lifecycle/create.go", "if cannotBind(r, *t.Instance) {", "if false {")}},
		{name: "bindings first then the instance", test: bindingsFirst, without: [][]mutation{
			one("lifecycle/delete.go", "bindingsFirst(r, t, none); waits {", "bindingsFirst(r, t, none); waits && false {")}},
		{name: "failed unbinds without open POST", test: failedUnbindWithPost, options: hasty, without: [][]mutation{
			one("lifecycle/delete.go", "waiting = waiting || b.HasOpenCreate", "_ = b.HasOpenCreate")}},
		{name: "unmarked rows are not ours", test: strangersStay, without: [][]mutation{
			one("lifecycle/delete.go", "default: // safeguard: unmarked rows are not ours", "default:\no.ours = append(o.ours, row)")}},
		{name: "refused waits for open calls", test: refusedWaits, without: [][]mutation{
			one("lifecycle/create.go", "failWhenSettled(r, t, Finished{Description: op.FinalRefusal, Code: op.Code})", "fail(r, t, Finished{Description: op.FinalRefusal, Code: op.Code})")}},
		{name: "record read before a list", test: recordBeforeList, without: [][]mutation{
			one("broker/advance.go", "t.Now = b.Now()", "t.Now = b.Now()\nif t.Look != nil {\nrec, _ = b.Store.Get(ctx, key)\n}")}},
		{name: "look-up by name even when the guid is known", test: foundByName, without: [][]mutation{
			one("broker/learn.go", "return backend.FindInstances(ctx, rec.Key.InstanceID, e.GUIDs...)",
				"if rec.Lifecycle.CFGUID != \"\" {\nreturn backend.FindInstance(ctx, rec.Lifecycle.CFGUID)\n}\nreturn backend.FindInstances(ctx, rec.Key.InstanceID, e.GUIDs...)")}},
		{name: "tombstone outlives requests", test: tombstoneOutlives, without: [][]mutation{
			one("lifecycle/tick.go", "d.Record.ExpiresAt = t.Now.Add(t.TombstoneTTL)", "d.Record.ExpiresAt = t.Now.Add(time.Second)")}},
		{name: "predecessor's incarnation compared", test: rotationOverLives, without: [][]mutation{
			one("broker/rotate.go", "lifecycle.EffectiveState(old.Lifecycle, view(p.instance)) != lifecycle.Ready", "old.Lifecycle.State != lifecycle.Ready")}},
		// Not lines of their own, but of the same kind: the first read of a request
		// that was held, and a tick that goes on after its delete has ended.
		{name: "no claim after a hold with another life", test: heldBindGivenUp, without: [][]mutation{
			one("broker/bind.go", "c.first = firstRead(rec)", "_ = firstRead")}},
		{name: "no unbinding after the delete ended", test: staleTickOfEndedDelete, without: anyTime()},
		{name: "no unbinding after the delete failed", test: staleTickOfFailedDelete, without: anyTime()},
		{name: "janitor and restart number persisted", test: restartNumbers, without: [][]mutation{
			one("broker/janitor.go", "next.Lifecycle.Operation.Restarts++", "_ = next")}},
	}
}
