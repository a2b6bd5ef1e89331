package sfn

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/google/go-cmp/cmp"

	"github.com/ferry-broker/ferry/internal/broker"
)

func fakeCredentials(context.Context) (aws.Credentials, error) {
	return aws.Credentials{AccessKeyID: "id", SecretAccessKey: "none"}, nil
}

func TestTickKeepsAnyID(t *testing.T) {
	t.Parallel()
	for _, id := range []string{"3f1e", "a/b", "a%2Fb", "100%", "ä\x00\xff", " ", "..", "{\"a\":1}"} {
		key := broker.Key{Client: "a", InstanceID: id, BindingID: id}
		text, err := json.Marshal(NewTick(broker.Start{Key: key, Operation: "create-0f"}))
		if err != nil {
			t.Fatal(err)
		}
		var tick Tick
		if err := json.Unmarshal(text, &tick); err != nil {
			t.Fatal(err)
		}
		if got, err := tick.Key(); got != key || err != nil {
			t.Errorf("%q came back as %q, %v", key, got, err)
		}
	}
}

func TestTickRefusesWhatNobodyWrote(t *testing.T) {
	t.Parallel()
	tests := map[string]Tick{
		"no client":           {InstanceID: "i", Operation: "o"},
		"no instance":         {Client: "a", Operation: "o"},
		"no operation":        {Client: "a", InstanceID: "i"},
		"a broken escape":     {Client: "a", InstanceID: "100%", Operation: "o"},
		"one in a binding id": {Client: "a", InstanceID: "i", BindingID: "%zz", Operation: "o"},
	}
	for name, tick := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if key, err := tick.Key(); err == nil {
				t.Errorf("it names %v", key)
			}
		})
	}
}

// TestHandOver: an execution that leaves its operation to rounds has not seen its end.
func TestHandOver(t *testing.T) {
	t.Parallel()
	want := Tick{Operation: "o", Turn: 8, WaitSeconds: 3, Swept: true, HandedOver: true}
	got := Tick{Operation: "o", Turn: 7, Swept: true}.After(broker.Step{Wait: 3 * time.Second}).HandOver()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestAfter(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		step broker.Step
		want Tick
	}{
		"a step that goes on says how long to wait": {broker.Step{Wait: 3 * time.Second}, Tick{Operation: "o", Turn: 8, WaitSeconds: 3}},
		"a part of a second counts as one":          {broker.Step{Wait: 3001 * time.Millisecond}, Tick{Operation: "o", Turn: 8, WaitSeconds: 4}},
		"no wait at all would spin":                 {broker.Step{}, Tick{Operation: "o", Turn: 8, WaitSeconds: 1}},
		"the last step ends it":                     {broker.Step{Done: true}, Tick{Operation: "o", Turn: 8, Done: true}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(test.want, (Tick{Operation: "o", Turn: 7, WaitSeconds: 9}).After(test.step)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestOldInputs: executions live for days, so what they were started with must be read by every later version.
func TestOldInputs(t *testing.T) {
	t.Parallel()
	var tick Tick
	if err := json.Unmarshal([]byte(`{"client":"a","instance_id":"i","operation":"create-0f","wait_seconds":0,"unknown":1}`), &tick); err != nil {
		t.Fatal(err)
	}
	if key, err := tick.Key(); err != nil || key != (broker.Key{Client: "a", InstanceID: "i"}) {
		t.Errorf("%v, %v", key, err)
	}
}
