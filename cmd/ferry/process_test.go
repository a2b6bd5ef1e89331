package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/ferry-broker/ferry/internal/osbtest"
)

func TestSecondStartOnADataFolderInUse(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	begin(t, nil, "serve", "--simulate-cf", "--listen", "127.0.0.1:0", "--data", data).url(brokerListens)
	got := execute(t, nil, "serve", "--simulate-cf", "--listen", "127.0.0.1:0", "--data", data)
	if want := "The data folder " + data + " is in use by another process. Stop that one, or choose another folder with --data.\n"; got.code != 1 || got.stderr != want {
		t.Errorf("exit code %d, want 1; stderr %q, want %q", got.code, got.stderr, want)
	}
}

func TestPortInUse(t *testing.T) {
	t.Parallel()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	address := listener.Addr().String()
	for flag, arguments := range map[string][]string{
		"--listen":     {"serve", "--simulate-cf", "--listen", address},
		"--sim-listen": {"serve", "--simulate-cf", "--listen", "127.0.0.1:0", "--sim-listen", address},
		"--listen ":    {"sim", "--listen", address},
	} {
		t.Run(strings.Join(arguments, " "), func(t *testing.T) {
			t.Parallel()
			got := execute(t, nil, arguments...)
			want := fmt.Sprintf("The address %s is in use by another process. Stop that one, or choose another address with %s.\n", address, strings.TrimSpace(flag))
			if got.code != 1 || got.stderr != want {
				t.Errorf("exit code %d, want 1; stderr %q, want %q", got.code, got.stderr, want)
			}
		})
	}
}

func TestFlagBeatsEnvironment(t *testing.T) {
	t.Parallel()
	variables := []string{"FERRY_LISTEN=nonsense", "FERRY_LOG_FORMAT=text", "FERRY_SIMULATE_CF=true", "FERRY_SIM_JOB_DELAY=1ms"}
	c := begin(t, variables, "serve", "--listen", "127.0.0.1:0", "--log-format", "json")
	if url := c.url(brokerListens); !strings.HasPrefix(url, "http://127.0.0.1:") {
		t.Errorf("it listens at %s", url)
	}
}

func TestLogFormats(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		variables, arguments []string
		json                 bool
	}{
		"JSON when stderr is no terminal": {nil, nil, true},
		"JSON when asked for":             {nil, []string{"--log-format", "json"}, true},
		"text when asked for":             {nil, []string{"--log-format", "text"}, false},
		"text by the environment":         {[]string{"FERRY_LOG_FORMAT=text"}, nil, false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := begin(t, test.variables, append([]string{"serve", "--simulate-cf", "--listen", "127.0.0.1:0"}, test.arguments...)...)
			line := c.until(func(line string) (string, bool) { return line, strings.Contains(line, brokerListens) })
			if json.Valid([]byte(line)) != test.json {
				t.Errorf("JSON is %t wanted: %s", test.json, line)
			}
			if !test.json && !strings.HasPrefix(line, "time=") {
				t.Errorf("not the text of slog: %s", line)
			}
		})
	}
}

func TestTemporaryFolderIsRemoved(t *testing.T) {
	t.Parallel()
	for _, s := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT} {
		t.Run(s.String(), func(t *testing.T) {
			t.Parallel()
			folder := t.TempDir()
			c := begin(t, []string{"TMPDIR=" + folder}, "serve", "--simulate-cf", "--listen", "127.0.0.1:0")
			c.url(brokerListens)
			if during, _ := filepath.Glob(filepath.Join(folder, "ferry-*", "*")); len(during) == 0 {
				t.Error("no data in a temporary folder while it runs")
			}
			c.signal(s)
			if code := c.exit(); code != 0 {
				t.Errorf("exit code %d", code)
			}
			if after, err := os.ReadDir(folder); err != nil || len(after) != 0 {
				t.Errorf("left behind: %v, %v", after, err)
			}
		})
	}
}

// TestHangupIsIgnored, with a line that says what to do instead: it used to end the process.
func TestHangupIsIgnored(t *testing.T) {
	t.Parallel()
	c := begin(t, nil, "serve", "--simulate-cf", "--listen", "127.0.0.1:0")
	url := c.url(brokerListens)
	for range 2 {
		c.signal(syscall.SIGHUP)
		c.until(func(line string) (string, bool) {
			return line, strings.Contains(line, "SIGHUP is ignored: the configuration is read at the start only")
		})
	}
	answer, err := http.Get(url + "/healthz")
	if err != nil || answer.Body.Close() != nil || answer.StatusCode != http.StatusOK {
		t.Errorf("%v, %v", answer, err)
	}
}

// configured is a broker whose Cloud Foundry is a process of its own.
const configured = `clients:
  - name: a
    credentials: [{username: demo, password: demo}]
    cloud_foundry: {api: %q, org: ferry, client_id: ferry, client_secret: ferry}
polling: {first: 20ms, max: 100ms}
operations: {settle_after: 2s}
`

// clock is that of the tests: processes live by the real one.
var clock = osbtest.Clock{Now: time.Now, Patience: time.Minute, Pause: func(time.Duration) { <-time.After(10 * time.Millisecond) }}

// cloud is a simulated Cloud Foundry in a process of its own.
func cloud(t *testing.T, url string) osbtest.Cloud {
	return osbtest.Cloud{T: t, URL: url, Org: "ferry", HTTP: http.DefaultClient, Clock: clock}
}

// whileABindIsHeld starts a broker with an instance that is ready, and ends it with SIGTERM while a bind is held. It
// returns the answer of the bind, and what starts the broker again.
func whileABindIsHeld(t *testing.T, plan string, sim ...string) (answer osbtest.Answer, again func() osbtest.Client) {
	t.Helper()
	foundry := begin(t, nil, append([]string{"sim", "--listen", "127.0.0.1:0", "--job-delay", "10ms", "--poll-interval", "20ms"}, sim...)...).url(simulatorListens)
	arguments := []string{"serve", "--listen", "127.0.0.1:0", "--data", filepath.Join(t.TempDir(), "data"), "--config", write(t, fmt.Sprintf(configured, foundry))}
	client := func(c *child) osbtest.Client {
		p := osbtest.Client{T: t, URL: c.url(brokerListens), Username: "demo", Password: "demo", HTTP: http.DefaultClient, Clock: clock}
		p.Eventually("the catalog is known", func() bool { return p.Fetch("/readyz").Status == http.StatusOK })
		p.Plans = p.Catalog()
		return p
	}
	c := begin(t, nil, arguments...)
	p := client(c)
	p.Succeeds(osbtest.InstancePath("i"), p.Provision("i", plan, "").Want(http.StatusAccepted).Operation())
	bound := osbtest.Later(func() osbtest.Answer { return p.Bind("i", "b", plan, "") })
	p.Eventually("the bind is under way", func() bool { return cloud(t, foundry).State().Requests["POST "+osbtest.Keys] == 1 })
	c.signal(syscall.SIGTERM)
	answer = <-bound
	if code := c.exit(); code != 0 {
		t.Errorf("exit code %d", code)
	}
	if _, err := p.Try(t.Context(), http.MethodGet, "/healthz", ""); err == nil {
		t.Error("it still answers")
	}
	return answer, func() osbtest.Client { return client(begin(t, nil, arguments...)) }
}

// TestSignalFinishesWhatIsInFlight: SIGTERM stops accepting, lets a held bind end, and the data is there at the next
// start.
func TestSignalFinishesWhatIsInFlight(t *testing.T) {
	t.Parallel()
	answer, again := whileABindIsHeld(t, "postgres/async-bindings", "--broker-delay", "700ms")
	if answer.Want(http.StatusCreated).Credentials() == "" {
		t.Errorf("the bind in flight got %s", answer.Body)
	}
	p := again()
	p.Provision("i", "postgres/async-bindings", "").Want(http.StatusOK)
	p.Bind("i", "b", "postgres/async-bindings", "").Want(http.StatusOK)
}

// TestSignalEndsRequestsThatCannotEnd: a bind that would be held far longer than the grace is answered before that is
// over, and the process ends in order.
func TestSignalEndsRequestsThatCannotEnd(t *testing.T) {
	t.Parallel()
	answer, _ := whileABindIsHeld(t, "faults/bind-stalls")
	if answer.Status < 500 || answer.Text("description") == "" {
		t.Errorf("the held bind got %d %s; want a server error with a description", answer.Status, answer.Body)
	}
}

func planted(name string) string {
	return `{"org":"ferry","space":"work","name":"` + name + `","offering":"postgres","plan":"small"}`
}

// TestSimulatorTakesItsFlags: what `ferry sim` and `ferry serve` are told about names reaches the simulated Cloud
// Foundry, by flag and by variable.
func TestSimulatorTakesItsFlags(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		variables, arguments []string
		status               int
	}{
		"sim":                           {nil, []string{"sim", "--listen", "127.0.0.1:0", "--names-ignore-case"}, http.StatusConflict},
		"sim by a variable":             {[]string{"FERRY_NAMES_IGNORE_CASE=true"}, []string{"sim", "--listen", "127.0.0.1:0"}, http.StatusConflict},
		"sim without it":                {nil, []string{"sim", "--listen", "127.0.0.1:0"}, http.StatusOK},
		"serve":                         {nil, []string{"serve", "--simulate-cf", "--listen", "127.0.0.1:0", "--sim-names-ignore-case"}, http.StatusConflict},
		"serve by a variable":           {[]string{"FERRY_SIM_NAMES_IGNORE_CASE=1"}, []string{"serve", "--simulate-cf", "--listen", "127.0.0.1:0"}, http.StatusConflict},
		"sim with a limit in Unix time": {nil, []string{"sim", "--listen", "127.0.0.1:0", "--rate-limit", "1", "--rate-window", "1h", "--retry-after-unix"}, http.StatusOK},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			sim := osbtest.Client{T: t, URL: begin(t, test.variables, test.arguments...).url(simulatorListens), HTTP: http.DefaultClient}
			send := func(method, path, body string, status int) osbtest.Answer {
				answer, err := sim.Try(t.Context(), method, path, body)
				if err != nil {
					t.Fatal(err)
				}
				return answer.Want(status)
			}
			send(http.MethodPost, "/__sim/instances", planted("abc"), http.StatusOK)
			send(http.MethodPost, "/__sim/instances", planted("ABC"), test.status)
			if strings.Contains(name, "limit") {
				send(http.MethodGet, "/v3/info", "", http.StatusOK)
				refused := send(http.MethodGet, "/v3/info", "", http.StatusTooManyRequests)
				if got := refused.Header.Get("Retry-After"); len(got) < len("1700000000") {
					t.Errorf("Retry-After %q is no Unix time", got)
				}
			}
		})
	}
}

// childVariable makes the test binary be ferry itself, so that signals and exit codes are those of a real process.
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

// begin starts ferry with these variables (NAME=value) besides the test's own, and ends it with the test.
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
