package deployed

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
)

const senderVariable = "FERRY_TEST_GATE"

// TestGateSender is no test of its own: the others run it in a process that the gate
// may end. It sends one call and prints the status.
func TestGateSender(t *testing.T) {
	url, asked := os.LookupEnv(senderVariable)
	if !asked {
		return
	}
	got, err := send(url, putItem, item("one"))
	if err != nil {
		t.Fatal(err)
	}
	fmt.Printf("status=%d\n", got.status)
}

// outcome is how a sender ended.
type outcome struct {
	code   int // -1: by a signal
	output string
}

// sendFrom lets a process of its own send one call.
func sendFrom(t *testing.T, url, function string) outcome {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	c := exec.CommandContext(t.Context(), self, "-test.run=^TestGateSender$", "-test.count=1")
	c.Env = append(os.Environ(), senderVariable+"="+url, "AWS_LAMBDA_FUNCTION_NAME="+function)
	var output bytes.Buffer
	c.Stdout, c.Stderr = &output, &output
	err = c.Run()
	if _, ended := errors.AsType[*exec.ExitError](err); err != nil && !ended {
		t.Fatal(err)
	}
	return outcome{c.ProcessState.ExitCode(), output.String()}
}

func TestGateEndsTheSender(t *testing.T) {
	t.Parallel()
	requireProcesses(t)
	tests := map[string]struct {
		do      deed
		code    int
		arrives int
		output  string // a part of it
	}{
		"killed before the call":  {killBefore, -1, 0, ""},
		"killed after the call":   {killAfter, -1, 1, ""},
		"crashed before the call": {crash, 2, 0, "SIGABRT"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newShore(t)
			g := newGate(t, s.URL)
			o := g.order(t, fault{From: "Poller", Times: 1, Do: test.do})
			got := sendFrom(t, g.URL(), "stack-PollerFunction-1")
			if got.code != test.code || !strings.Contains(got.output, test.output) || strings.Contains(got.output, "status=") {
				t.Errorf("exit code %d, want %d; output: %s", got.code, test.code, got.output)
			}
			if s.count() != test.arrives || o.count() != 1 {
				t.Errorf("%d arrived, %d hits; want %d and 1", s.count(), o.count(), test.arrives)
			}
		})
	}
}

func TestGateKnowsWhoSent(t *testing.T) {
	t.Parallel()
	requireProcesses(t)
	s := newShore(t)
	g := newGate(t, s.URL)
	o := g.order(t, fault{From: "PollerFunction", Do: fail500})
	api, poller := sendFrom(t, g.URL(), "stack-ApiFunction-1"), sendFrom(t, g.URL(), "stack-PollerFunction-2")
	if !strings.Contains(api.output, "status=202") || !strings.Contains(poller.output, "status=500") || o.count() != 1 {
		t.Errorf("the api: %s; the poller: %s", api.output, poller.output)
	}
	all := g.calls("one")
	if len(all) != 2 || all[0].From != "stack-ApiFunction-1" || all[1].From != "stack-PollerFunction-2" {
		t.Errorf("written down: %+v", all)
	}
}

// TestGateKillsNoStranger: what does not descend from the guarded process lives.
func TestGateKillsNoStranger(t *testing.T) {
	t.Parallel()
	requireProcesses(t)
	s := newShore(t)
	g := newGate(t, s.URL)
	g.guard(1 << 30)
	o := &ordered{fault: fault{Do: killBefore}, met: make(chan struct{}), released: make(chan struct{})}
	g.mu.Lock()
	g.faults = append(g.faults, o)
	g.mu.Unlock()
	if got := sendFrom(t, g.URL(), "a stranger"); got.code != 0 || !strings.Contains(got.output, "status=0") || o.fate() == nil {
		t.Errorf("exit code %d, output %s, fate %v; want it to live, and the order to fail", got.code, got.output, o.fate())
	}
}
