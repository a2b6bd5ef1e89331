package process

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/ferry-broker/ferry/internal/osbtest"
)

// program is a started ferry. Its output is kept, and its exit is waited for once.
type program struct {
	command *exec.Cmd
	out     *output
	ended   chan struct{}
	err     error // of the exit; set when ended is closed
}

// launch starts ferry with these arguments. Environment variables of the test that ferry would read do not reach it.
func launch(arguments ...string) (*program, error) {
	p := &program{command: exec.Command(binary, arguments...), out: newOutput(), ended: make(chan struct{})}
	p.command.Stdout, p.command.Stderr = p.out, p.out
	p.command.Env = withoutFerry(os.Environ())
	if err := p.command.Start(); err != nil {
		return nil, fmt.Errorf("start ferry %s: %w", strings.Join(arguments, " "), err)
	}
	go func() {
		p.err = p.command.Wait()
		p.out.close()
		close(p.ended)
	}()
	return p, nil
}

func withoutFerry(environment []string) []string {
	kept := make([]string, 0, len(environment))
	for _, variable := range environment {
		if !strings.HasPrefix(variable, "FERRY_") {
			kept = append(kept, variable)
		}
	}
	return kept
}

// start launches ferry and ends it with the test.
func start(t testing.TB, arguments ...string) *program {
	t.Helper()
	p, err := launch(arguments...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.kill)
	return p
}

// kill ends the process as a power cut would, and waits until it has gone.
func (p *program) kill() {
	_ = p.command.Process.Kill() // it may have ended already
	<-p.ended
}

// stop asks the process to end, and returns how it did.
func (p *program) stop(ctx context.Context) error {
	if err := p.command.Process.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	select {
	case <-p.ended:
		return p.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// address waits for the line of the log that says where the process listens.
func (p *program) address(ctx context.Context, message string) (string, error) {
	entry, err := p.out.find(ctx, message)
	if err != nil {
		return "", err
	}
	url, _ := entry["url"].(string)
	return url, nil
}

const (
	brokerListens    = "ferry listens"
	simulatorListens = "the simulated Cloud Foundry listens"
)

// startSim starts a simulated Cloud Foundry of its own process and returns its URL.
func startSim(t testing.TB, arguments ...string) string {
	t.Helper()
	p := start(t, append([]string{"sim", "--listen", "127.0.0.1:0", "--log-format", "json"}, arguments...)...)
	url, err := p.address(t.Context(), simulatorListens)
	if err != nil {
		t.Fatal(err)
	}
	return url
}

// output collects what a process prints.
type output struct {
	mu      sync.Mutex
	text    []byte
	closed  bool
	changed chan struct{} // closed and replaced at each change
}

func newOutput() *output { return &output{changed: make(chan struct{})} }

// Write implements io.Writer.
func (o *output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.text = append(o.text, b...)
	close(o.changed)
	o.changed = make(chan struct{})
	return len(b), nil
}

func (o *output) close() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.closed = true
	close(o.changed)
	o.changed = make(chan struct{})
}

func (o *output) look() (text string, closed bool, changed chan struct{}) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return string(o.text), o.closed, o.changed
}

func (o *output) String() string {
	text, _, _ := o.look()
	return text
}

// find waits for a JSON line with this message.
func (o *output) find(ctx context.Context, message string) (map[string]any, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for {
		text, closed, changed := o.look()
		for line := range strings.Lines(text) {
			var entry map[string]any
			if json.Unmarshal([]byte(line), &entry) == nil && entry["msg"] == message {
				return entry, nil
			}
		}
		if closed {
			return nil, fmt.Errorf("%w before it said %q:\n%s", errEnded, message, text)
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, fmt.Errorf("waiting for %q: %w", message, ctx.Err())
		}
	}
}

var errEnded = errors.New("the process ended")

// binary is the ferry that all tests start; TestMain builds it.
var binary string

func TestMain(m *testing.M) { os.Exit(buildAndRun(m)) }

// buildAndRun builds without the race detector on purpose: the tests are about processes that start and die quickly,
// and each package has its own race tests.
func buildAndRun(m *testing.M) int {
	dir, err := os.MkdirTemp("", "ferry-process-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() { _ = os.RemoveAll(dir) }()
	binary = filepath.Join(dir, "ferry")
	if out, err := exec.Command("go", "build", "-o", binary, "../../cmd/ferry").CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "building ferry: %v\n%s", err, out)
		return 1
	}
	return m.Run()
}

// setup is the configuration of a broker under test.
type setup struct {
	client, password string // the password of the user of the same name
	api, org         string
	secret           string // of the login ferry at Cloud Foundry
	settleAfter      time.Duration
	polling          string // the section; empty is in a hurry
	more, end        string // further clients, further sections
}

// write puts the configuration into a file and returns its name.
func (s setup) write(t testing.TB) string {
	t.Helper()
	text := fmt.Sprintf(`clients:
  - name: %[1]s
    credentials: [{username: %[1]s, password: %[2]q}]
    cloud_foundry: {api: %[3]q, org: %[4]s, client_id: ferry, client_secret: %[5]q}
%[7]spolling: %[9]s
operations: {settle_after: %[6]s, request_budget: 20s}
%[8]s`, s.client, s.password, s.api, s.org, s.secret, s.settleAfter, s.more, s.end, cmp.Or(s.polling, "{first: 20ms, max: 200ms}"))
	file := filepath.Join(t.TempDir(), "ferry.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// count returns how often the backing broker was asked to do it.
func count(s osbtest.CloudState, instance, binding, operation string) int {
	for _, c := range s.BrokerCalls {
		if c.Instance == instance && c.Binding == binding && c.Operation == operation {
			return c.Count
		}
	}
	return 0
}

// readState asks the simulator.
func readState(ctx context.Context, simulator string) (s osbtest.CloudState, err error) {
	raw, status, err := fetch(ctx, simulator+"/__sim/state")
	if err != nil || status != http.StatusOK {
		return s, fmt.Errorf("state of the simulator: status %d, %w", status, err)
	}
	return s, json.Unmarshal(raw, &s)
}

// fetch reads a page without credentials.
func fetch(ctx context.Context, url string) ([]byte, int, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, 0, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, 0, err
	}
	defer func() { _ = resp.Body.Close() }()
	raw, err := io.ReadAll(resp.Body)
	return raw, resp.StatusCode, err
}

// wait pauses between two looks at something that is still on its way.
func wait(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
