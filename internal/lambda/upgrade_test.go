package lambda

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/ferry-broker/ferry/internal/broker"
	"github.com/ferry-broker/ferry/internal/sfn"
)

// The files under testdata/records are items of tables out there, those under testdata/executions what executions
// carry; v1 is what the first version with functions wrote. A version that changes a format adds its own with
// -write-past v2. One that is there is never written again.
var writePast = flag.String("write-past", "", "write the records and executions that are missing for this version, such as v2")

var (
	instanceKey = broker.Key{Client: "demo", InstanceID: "0d5ad2d6-2f2c-4f0e-9d3b-6d2f6a0f0001"}
	bindingKey  = broker.Key{Client: "demo", InstanceID: instanceKey.InstanceID, BindingID: "0d5ad2d6-2f2c-4f0e-9d3b-6d2f6a0f0002"}
)

// past is an operation that an older version accepted and did not end.
type past struct {
	key broker.Key
	// live leads there from an empty table, with the version of the day.
	live func(t *testing.T, r *tableHarness)
	// What Cloud Foundry has when the newer version comes: the instance, with the operation's mark of an update, with
	// the key.
	instance, updated, keyed bool
	// late: the instance appears after the newer version's first look.
	late bool
	// What the newer version must have asked the backing broker for.
	asked map[string]int
	// event is sent again when the operation has ended.
	event  string
	status int
}

func pasts() map[string]past {
	lose := func(t *testing.T, h *tableHarness, method, route string) {
		h.control(t, "faults", fmt.Sprintf(`{"method":%q,"route":%q,"times":1,"when":"after","action":"drop"}`, method, route))
	}
	ready := func(t *testing.T, h *tableHarness) { h.send(t, "provision"); h.drive(t.Context(), t) }
	return map[string]past{
		"create-accepted": {key: instanceKey, event: "provision", status: 200, asked: map[string]int{"provision": 1},
			live: func(t *testing.T, h *tableHarness) { h.send(t, "provision") }},
		// Its POST took effect and the answer was lost: it is adopted, not sent again.
		"create-called": {key: instanceKey, event: "provision", status: 200, instance: true,
			live: func(t *testing.T, h *tableHarness) {
				lose(t, h, "POST", "/v3/service_instances")
				h.send(t, "provision")
				h.tick(t)
			}},
		// The same, but the POST was lost on its way.
		"create-called-in-vain": {key: instanceKey, event: "provision", status: 200, asked: map[string]int{"provision": 1},
			live: func(t *testing.T, h *tableHarness) {
				lose(t, h, "POST", "/v3/service_instances")
				h.send(t, "provision")
				h.tick(t)
			}},
		"update-accepted": {key: instanceKey, event: "update", status: 200, instance: true, asked: map[string]int{"update": 1},
			live: func(t *testing.T, h *tableHarness) { ready(t, h); h.send(t, "update") }},
		"update-called": {key: instanceKey, event: "update", status: 200, instance: true, updated: true,
			live: func(t *testing.T, h *tableHarness) { ready(t, h); h.send(t, "update"); h.tick(t) }},
		"delete-accepted": {key: instanceKey, event: "deprovision", status: 410, instance: true, asked: map[string]int{"deprovision": 1},
			live: func(t *testing.T, h *tableHarness) { ready(t, h); h.send(t, "deprovision") }},
		// A create is cancelled whose POST takes effect only now.
		"cancel": {key: instanceKey, event: "deprovision", status: 410, instance: true, late: true, asked: map[string]int{"deprovision": 1},
			live: func(t *testing.T, h *tableHarness) {
				lose(t, h, "POST", "/v3/service_instances")
				h.send(t, "provision")
				h.tick(t)
				h.machine.take()
				h.send(t, "deprovision")
			}},
		"bind-accepted": {key: bindingKey, event: "bind", status: 200, instance: true, asked: map[string]int{"bind": 1},
			live: func(t *testing.T, h *tableHarness) { ready(t, h); h.send(t, "bind", async) }},
		"bind-called": {key: bindingKey, event: "bind", status: 200, instance: true, keyed: true,
			live: func(t *testing.T, h *tableHarness) {
				ready(t, h)
				lose(t, h, "POST", "/v3/service_credential_bindings")
				h.send(t, "bind", async)
				h.tick(t)
			}},
		"unbind-accepted": {key: bindingKey, event: "unbind", status: 410, instance: true, keyed: true, asked: map[string]int{"unbind": 1},
			live: func(t *testing.T, h *tableHarness) {
				ready(t, h)
				h.send(t, "bind", async)
				h.drive(t.Context(), t)
				h.send(t, "unbind", async)
			}},
	}
}

// TestOldOperationsEnd: items and executions of every version before are taken to their end by today's poller, and
// today's API answers for them.
func TestOldOperationsEnd(t *testing.T) {
	t.Parallel()
	for name, p := range pasts() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, version := range versionsOf(t, name) {
				h := newTableHarness(t, nil)
				tick := readPast[sfn.Tick](t, "executions", version)
				rec := h.load(t, version, p)
				if !rec.Lifecycle.Running(tick.Operation) {
					t.Fatalf("%s: the record's operation is %q, the execution's %q", version, rec.Lifecycle.Operation.ID, tick.Operation)
				}
				if running := h.send(t, p.event, async); running.StatusCode != 202 || !strings.Contains(running.Body, tick.Operation) {
					t.Errorf("%s: a duplicate gets %d %s, want 202 with %s", version, running.StatusCode, running.Body, tick.Operation)
				}
				if starts := h.machine.take(); len(starts) > 0 {
					t.Errorf("%s: a duplicate started %+v", version, starts)
				}
				if p.late {
					tick = h.turn(t.Context(), t, tick)
					h.found(t, nil, p, rec)
				}
				h.end(t, tick)
				if answer := h.send(t, p.event, async); answer.StatusCode != p.status {
					t.Errorf("%s: afterwards %d %s, want %d; the log: %s", version, answer.StatusCode, answer.Body, p.status, h.log)
				}
				if diff := cmp.Diff(p.asked, h.brokerCalls(t)); diff != "" {
					t.Errorf("%s: the backing broker was asked (-want +got):\n%s", version, diff)
				}
			}
		})
	}
}

// TestOldExecutionsAreRead: what executions carry at other times than their start.
func TestOldExecutionsAreRead(t *testing.T) {
	t.Parallel()
	odd := broker.Key{Client: "demo", InstanceID: "shop/db ?%#1", BindingID: "ä\xff"}
	for name, test := range map[string]struct {
		key  broker.Key
		want sfn.Tick // what comes next, after a step that waits 3 s
	}{
		"held-bind": {bindingKey, sfn.Tick{WaitSeconds: 3, Turn: 1}},
		"midway":    {instanceKey, sfn.Tick{WaitSeconds: 3, Turn: 8}},
		"odd-ids":   {odd, sfn.Tick{WaitSeconds: 3, Turn: 1}},
	} {
		for _, version := range versionsOf(t, name) {
			tick := readPast[sfn.Tick](t, "executions", version)
			if key, err := tick.Key(); key != test.key || err != nil {
				t.Errorf("%s: %q, %v; want %q", version, key, err, test.key)
			}
			next := tick.After(broker.Step{Wait: 3 * time.Second})
			test.want.Client, test.want.InstanceID, test.want.BindingID, test.want.Operation = tick.Client, tick.InstanceID, tick.BindingID, tick.Operation
			if next != test.want {
				t.Errorf("%s goes on as %+v, want %+v", version, next, test.want)
			}
		}
	}
}

// TestOldRecordsAnswer: what is at rest needs no poller.
func TestOldRecordsAnswer(t *testing.T) {
	t.Parallel()
	h := newTableHarness(t, nil)
	items := h.items(t, "v1-unbind-accepted") // an instance that is there, and its catalog
	h.put(t, items...)
	h.goTo(t, items)
	h.control(t, "faults", `{"method":"*","route":"*","times":0,"action":"drop"}`) // Cloud Foundry is away
	for event, want := range map[string]int{"catalog": 200, "provision-duplicate": 200, "provision-different": 409, "last-operation": 200} {
		if answer := h.send(t, event); answer.StatusCode != want {
			t.Errorf("%s: %d %s, want %d", event, answer.StatusCode, answer.Body, want)
		}
	}
	gone := newTableHarness(t, nil)
	items = gone.items(t, "v1-gone")
	gone.put(t, items...)
	gone.goTo(t, items)
	if answer := gone.send(t, "deprovision"); answer.StatusCode != 410 {
		t.Errorf("a delete of what is gone: %d %s", answer.StatusCode, answer.Body)
	}
	if answer := gone.send(t, "provision"); answer.StatusCode != 202 {
		t.Errorf("a create of what is gone: %d %s", answer.StatusCode, answer.Body)
	}
}

// TestARollbackMeetsNewerRecords: a newer format is refused by everybody and written by nobody, and keeps nothing else
// from going on.
func TestARollbackMeetsNewerRecords(t *testing.T) {
	t.Parallel()
	h := newTableHarness(t, nil)
	tick := readPast[sfn.Tick](t, "executions", "v1-create-accepted")
	h.load(t, "v1-create-accepted", pasts()["create-accepted"])
	other := instanceKey
	other.InstanceID = "beside"
	newer := h.stored(t)
	beside := maps.Clone(newer)
	beside["pk"] = &types.AttributeValueMemberB{Value: []byte("demo#beside")}
	newer["format"] = &types.AttributeValueMemberN{Value: "2"}
	h.put(t, newer, beside)

	for _, event := range []string{"provision", "update", "deprovision", "last-operation"} {
		answer := h.send(t, event)
		if answer.StatusCode != 503 || answer.MultiValueHeaders["Retry-After"] == nil {
			t.Errorf("%s: %d %v %s, want 503 that says when to come again", event, answer.StatusCode, answer.MultiValueHeaders, answer.Body)
		}
	}
	_, err := h.poller.Handle(t.Context(), tick)
	if _, failed := errors.AsType[*TickFailed](err); !failed {
		t.Errorf("the poller: %v, want *TickFailed", err)
	}
	h.pass(4 * time.Minute)
	err = h.janitor.Handle(t.Context(), Schedule{Task: TaskRound})
	if _, failed := errors.AsType[*JanitorFailed](err); !failed {
		t.Errorf("the janitor: %v, want *JanitorFailed", err)
	}
	if rec := h.get(t, other); rec.Lifecycle.Operation.Calls != 1 {
		t.Errorf("what is beside it was not driven: %+v", rec.Lifecycle.Operation)
	}
	if diff := cmp.Diff(newer, h.stored(t), cmpopts.IgnoreUnexported(types.AttributeValueMemberB{}, types.AttributeValueMemberN{}, types.AttributeValueMemberS{})); diff != "" {
		t.Errorf("the item was written (-before +now):\n%s", diff)
	}
	if !strings.Contains(h.log.String(), "written by a newer Ferry") {
		t.Errorf("the log does not say why: %s", h.log)
	}
}

// TestARollbackMeetsNewerFields: in the same format they are read over, and gone with the next write; so nothing may
// depend on one (docs/runbook.md). What a newer version adds to a tick is lost likewise.
func TestARollbackMeetsNewerFields(t *testing.T) {
	t.Parallel()
	h := newTableHarness(t, nil)
	p := pasts()["create-accepted"]
	h.load(t, "v1-create-accepted", p)
	newer := h.stored(t)
	body := newer["body"].(*types.AttributeValueMemberS).Value
	newer["body"] = &types.AttributeValueMemberS{Value: strings.Replace(body, "{", `{"colour":"red",`, 1)}
	newer["shade"] = &types.AttributeValueMemberN{Value: "7"}
	h.put(t, newer)
	var tick sfn.Tick
	text := strings.Replace(string(readRaw(t, "executions", "v1-create-accepted")), "{", `{"priority":7,"shard":{"n":1},`, 1)
	if err := json.Unmarshal([]byte(text), &tick); err != nil {
		t.Fatal(err)
	}
	h.end(t, tick)
	now := h.stored(t)
	if body := now["body"].(*types.AttributeValueMemberS).Value; !strings.Contains(body, `"ready"`) || strings.Contains(body, "colour") || now["shade"] != nil {
		t.Errorf("the item is %s with %v", body, now["shade"])
	}
}

// load puts a version's items into the table and moves the clock to one second after their latest operation began.
// Cloud Foundry has what it had then, but for what comes late.
func (h *tableHarness) load(t *testing.T, version string, p past) broker.Record {
	t.Helper()
	items := h.items(t, version)
	h.put(t, items...)
	h.goTo(t, items)
	rec := h.get(t, p.key)
	if p.instance && !p.late {
		h.found(t, items, p, rec)
	}
	return rec
}

func (h *tableHarness) goTo(t *testing.T, items []map[string]types.AttributeValue) {
	t.Helper()
	var latest time.Time
	for _, it := range items {
		var body struct {
			Lifecycle struct {
				Operation struct{ Started time.Time }
			}
		}
		if text, ok := it["body"].(*types.AttributeValueMemberS); ok {
			if err := json.Unmarshal([]byte(text.Value), &body); err != nil {
				t.Fatal(err)
			}
		}
		if began := body.Lifecycle.Operation.Started; began.After(latest) {
			latest = began
		}
	}
	if latest.IsZero() {
		t.Fatal("no item tells when it was written")
	}
	h.pass(latest.Add(time.Second).Sub(h.now()))
}

// found plants what an older version made in Cloud Foundry. The GUID is the simulator's, so the items are told of it.
func (h *tableHarness) found(t *testing.T, items []map[string]types.AttributeValue, p past, rec broker.Record) {
	t.Helper()
	instance := h.get(t, instanceKey)
	row := map[string]any{
		"org": "demo", "space": "postgres", "offering": "postgres", "plan": "small", "name": instanceKey.InstanceID,
		"labels": map[string]string{"ferry-client": "demo"}, "annotations": marks(instance),
	}
	if p.updated { // Cloud Foundry writes the mark and the plan together
		row["plan"] = "large"
		row["annotations"].(map[string]string)["ferry-update"] = instance.Lifecycle.Operation.ID
		row["last_operation"] = map[string]string{"type": "update", "state": "succeeded"}
	}
	if p.keyed {
		row["keys"] = []any{map[string]any{
			"name": bindingKey.BindingID, "labels": map[string]string{"ferry-client": "demo"}, "annotations": marks(rec),
		}}
	}
	body, err := json.Marshal(row)
	if err != nil {
		t.Fatal(err)
	}
	var planted struct{ GUID string }
	if err := json.Unmarshal(h.control(t, "instances", string(body)), &planted); err != nil {
		t.Fatal(err)
	}
	old := instance.Lifecycle.CFGUID
	if old == "" {
		return
	}
	for _, it := range items {
		if body, ok := it["body"].(*types.AttributeValueMemberS); ok {
			it["body"] = &types.AttributeValueMemberS{Value: strings.ReplaceAll(body.Value, old, planted.GUID)}
		}
	}
	h.put(t, items...)
}

// marks are the annotations of what a record's create made.
func marks(r broker.Record) map[string]string {
	return map[string]string{"ferry-operation": r.Lifecycle.CreateOp.ID, "ferry-seq": fmt.Sprint(r.Lifecycle.CreateOp.Seq)}
}

// end takes an execution to its end, and all that it started itself.
func (h *tableHarness) end(t *testing.T, tick sfn.Tick) {
	t.Helper()
	h.run(t.Context(), t, tick)
	h.drive(t.Context(), t)
}

// tick lets the poller do one tick of what was started last, for fixtures.
func (h *tableHarness) tick(t *testing.T) {
	t.Helper()
	starts := h.machine.take()
	if _, err := h.poller.Handle(t.Context(), sfn.NewTick(starts[len(starts)-1])); err != nil {
		t.Fatal(err)
	}
	h.machine.starts = starts
}

// brokerCalls counts what the backing broker was asked to do.
func (h *tableHarness) brokerCalls(t *testing.T) map[string]int {
	t.Helper()
	var state struct {
		BrokerCalls []struct {
			Operation string
			Count     int
		} `json:"broker_calls"`
	}
	if err := json.Unmarshal(h.controlled("GET", "state", "").Body.Bytes(), &state); err != nil {
		t.Fatal(err)
	}
	var asked map[string]int
	for _, c := range state.BrokerCalls {
		if asked == nil {
			asked = map[string]int{}
		}
		asked[c.Operation] += c.Count
	}
	return asked
}

// stored returns the item of the instance as it is in the table.
func (h *tableHarness) stored(t *testing.T) map[string]types.AttributeValue {
	t.Helper()
	for _, it := range h.scan(t) {
		pk, sk := it["pk"].(*types.AttributeValueMemberB), it["sk"].(*types.AttributeValueMemberB)
		if string(pk.Value) == instanceKey.Client+"#"+instanceKey.InstanceID && string(sk.Value) == "instance" {
			return it
		}
	}
	t.Fatal("no item of the instance")
	return nil
}

// attribute is DynamoDB's JSON of a value.
type attribute struct {
	S *string `json:",omitempty"`
	N *string `json:",omitempty"`
	B []byte  `json:",omitempty"`
}

func (h *tableHarness) items(t *testing.T, version string) []map[string]types.AttributeValue {
	t.Helper()
	var items []map[string]types.AttributeValue
	for _, written := range readPast[[]map[string]attribute](t, "records", version) {
		it := map[string]types.AttributeValue{}
		for name, a := range written {
			switch {
			case a.S != nil:
				it[name] = &types.AttributeValueMemberS{Value: *a.S}
			case a.N != nil:
				it[name] = &types.AttributeValueMemberN{Value: *a.N}
			default:
				it[name] = &types.AttributeValueMemberB{Value: a.B}
			}
		}
		items = append(items, it)
	}
	return items
}

func pastFile(kind, version string) string {
	return filepath.Join("testdata", kind, version+".json")
}

func readRaw(t *testing.T, kind, version string) []byte {
	t.Helper()
	text, err := os.ReadFile(pastFile(kind, version))
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func readPast[T any](t *testing.T, kind, version string) (v T) {
	t.Helper()
	if err := json.Unmarshal(readRaw(t, kind, version), &v); err != nil {
		t.Fatalf("%s: %v", version, err)
	}
	return v
}

// versionsOf returns the files of all versions, v1-name first; there is at least that.
func versionsOf(t *testing.T, name string) []string {
	t.Helper()
	files, err := filepath.Glob(pastFile("executions", "v[0-9]*-"+name))
	if err != nil || len(files) == 0 {
		t.Fatalf("no execution %s: %v", name, err)
	}
	for i, file := range files {
		files[i] = strings.TrimSuffix(filepath.Base(file), ".json")
	}
	return files
}

// write writes a file that is missing.
func write(t *testing.T, kind, name string, v any) {
	t.Helper()
	file := pastFile(kind, *writePast+"-"+name)
	if _, err := os.Stat(file); err == nil {
		return
	}
	text, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, append(text, '\n'), 0o600); err != nil {
		t.Fatal(err)
	}
}

// writeRecords writes what is in the table.
func (h *tableHarness) writeRecords(t *testing.T, name string) {
	t.Helper()
	var items []map[string]attribute
	for _, it := range h.scan(t) {
		written := map[string]attribute{}
		for name, value := range it {
			switch value := value.(type) {
			case *types.AttributeValueMemberS:
				written[name] = attribute{S: &value.Value}
			case *types.AttributeValueMemberN:
				written[name] = attribute{N: &value.Value}
			case *types.AttributeValueMemberB:
				written[name] = attribute{B: value.Value}
			default:
				t.Fatalf("%s is a %T", name, value)
			}
		}
		items = append(items, written)
	}
	write(t, "records", name, items)
}

// TestWritePast writes what the version of the day writes, when it is asked to.
func TestWritePast(t *testing.T) {
	t.Parallel()
	if *writePast == "" {
		t.Skip("only with -write-past")
	}
	for name, p := range pasts() {
		h := newTableHarness(t, nil)
		p.live(t, h)
		starts := h.machine.take()
		write(t, "executions", name, sfn.NewTick(starts[len(starts)-1]))
		h.writeRecords(t, name)
	}
	h := newTableHarness(t, nil)
	h.send(t, "provision")
	h.drive(t.Context(), t)
	h.send(t, "deprovision")
	h.drive(t.Context(), t)
	h.writeRecords(t, "gone")
	start := broker.Start{Key: bindingKey, Operation: "create-0123456789abcdef0123456789abcdef", Delay: 26 * time.Second}
	write(t, "executions", "held-bind", sfn.NewTick(start))
	start.Key = broker.Key{Client: "demo", InstanceID: "shop/db ?%#1", BindingID: "ä\xff"}
	write(t, "executions", "odd-ids", sfn.NewTick(start))
	midway := sfn.NewTick(broker.Start{Key: instanceKey, Operation: start.Operation})
	for range 7 {
		midway = midway.After(broker.Step{Wait: 2500 * time.Millisecond})
	}
	write(t, "executions", "midway", midway)
}
