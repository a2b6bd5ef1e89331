package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// childVariable makes the test binary be ferry itself, so that signals and exit
// codes are those of a real process.
const childVariable = "FERRY_TEST_IS_FERRY"

func TestMain(m *testing.M) {
	if os.Getenv(childVariable) == "1" {
		main()
	}
	os.Exit(m.Run())
}

// outcome is what a finished command line left.
type outcome struct {
	code           int
	stdout, stderr string
}

// execute runs a command line in this process until it ends.
func execute(t *testing.T, variables map[string]string, arguments ...string) outcome {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var stdout, stderr bytes.Buffer
	code := run(ctx, environment{
		args: arguments, stdout: &stdout, stderr: &stderr, version: "v1.2.3", commit: "abc1234",
		lookupEnv: func(name string) (string, bool) { v, ok := variables[name]; return v, ok },
	})
	if ctx.Err() != nil {
		t.Fatalf("ferry %s does not end; it said:\n%s", strings.Join(arguments, " "), &stderr)
	}
	return outcome{code, stdout.String(), stderr.String()}
}

// child is ferry as a process of its own.
type child struct {
	t       *testing.T
	command *exec.Cmd
	ended   chan struct{}
	err     error

	mu      sync.Mutex
	stderr  bytes.Buffer
	changed chan struct{}
}

// begin starts ferry with these variables (NAME=value) besides the test's own, and
// ends it with the test.
func begin(t *testing.T, variables []string, arguments ...string) *child {
	t.Helper()
	c := &child{t: t, command: exec.Command(os.Args[0], arguments...), ended: make(chan struct{}), changed: make(chan struct{})}
	outside := slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "FERRY_") })
	c.command.Env = append(append(outside, variables...), childVariable+"=1")
	c.command.Stderr = c
	if err := c.command.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		c.err = c.command.Wait()
		close(c.ended)
	}()
	t.Cleanup(func() {
		_ = c.command.Process.Kill() // it may have ended
		<-c.ended
	})
	return c
}

// Write implements io.Writer for the child's log.
func (c *child) Write(b []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	close(c.changed)
	c.changed = make(chan struct{})
	return c.stderr.Write(b)
}

func (c *child) log() (string, chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.stderr.String(), c.changed
}

// until waits for a line that fits, and returns what found makes of it.
func (c *child) until(found func(line string) (string, bool)) string {
	c.t.Helper()
	deadline := time.After(time.Minute)
	for {
		text, changed := c.log()
		for line := range strings.Lines(text) {
			if s, ok := found(strings.TrimSpace(line)); ok {
				return s
			}
		}
		select {
		case <-changed:
		case <-c.ended:
			if again, _ := c.log(); again == text {
				c.t.Fatalf("it ended: %v\n%s", c.err, text)
			}
		case <-deadline:
			c.t.Fatalf("no such line in time:\n%s", text)
		}
	}
}

// url waits for the JSON line that names an address.
func (c *child) url(message string) string {
	c.t.Helper()
	return c.until(func(line string) (string, bool) {
		var entry struct{ Msg, URL string }
		err := json.Unmarshal([]byte(line), &entry)
		return entry.URL, err == nil && entry.Msg == message
	})
}

// exit waits for the end and returns the exit code.
func (c *child) exit() int {
	c.t.Helper()
	select {
	case <-c.ended:
	case <-time.After(time.Minute):
		c.t.Fatal("it does not end")
	}
	if failed, ok := errors.AsType[*exec.ExitError](c.err); ok {
		return failed.ExitCode()
	}
	if c.err != nil {
		c.t.Fatal(c.err)
	}
	return 0
}

// signal sends the process a signal.
func (c *child) signal(s os.Signal) {
	c.t.Helper()
	if err := c.command.Process.Signal(s); err != nil {
		c.t.Fatal(err)
	}
}

const (
	brokerListens    = "ferry listens"
	simulatorListens = "the simulated Cloud Foundry listens"
)
