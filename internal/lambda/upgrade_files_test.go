package lambda

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/ferry-broker/ferry/internal/broker"
	"github.com/ferry-broker/ferry/internal/sfn"
)

// attribute is DynamoDB's JSON of a value.
type attribute struct {
	S *string `json:",omitempty"`
	N *string `json:",omitempty"`
	B []byte  `json:",omitempty"`
}

func (r *upgradeRig) items(t *testing.T, version string) []map[string]types.AttributeValue {
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
func (r *upgradeRig) writeRecords(t *testing.T, name string) {
	t.Helper()
	var items []map[string]attribute
	for _, it := range r.scan(t) {
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
		r := newUpgradeRig(t)
		p.live(t, r)
		starts := r.machine.take()
		write(t, "executions", name, sfn.NewTick(starts[len(starts)-1]))
		r.writeRecords(t, name)
	}
	r := newUpgradeRig(t)
	r.send(t, "provision")
	r.drive(t)
	r.send(t, "deprovision")
	r.drive(t)
	r.writeRecords(t, "gone")
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
