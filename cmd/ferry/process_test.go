package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
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

// TestSignalFinishesWhatIsInFlight: SIGTERM stops accepting, lets a held bind end,
// and the data is there at the next start.
func TestSignalFinishesWhatIsInFlight(t *testing.T) {
	t.Parallel()
	sim := begin(t, nil, "sim", "--listen", "127.0.0.1:0", "--broker-delay", "700ms", "--job-delay", "10ms", "--poll-interval", "20ms").url(simulatorListens)
	arguments := []string{"serve", "--listen", "127.0.0.1:0", "--data", filepath.Join(t.TempDir(), "data"), "--config", write(t, fmt.Sprintf(configured, sim))}
	c := begin(t, nil, arguments...)
	p := customer{t, c.url(brokerListens)}
	service, plan := p.choose("postgres", "async-bindings")
	body := fmt.Sprintf(`{"service_id":%q,"plan_id":%q,"organization_guid":"o","space_guid":"s"}`, service, plan)
	const instance, binding = "/v2/service_instances/i?accepts_incomplete=true", "/v2/service_instances/i/service_bindings/b"
	p.want(http.MethodPut, instance, body, http.StatusAccepted)
	p.await("/v2/service_instances/i/last_operation", `"succeeded"`)
	held := make(chan string, 1)
	go func() { _, answer, _ := p.send(http.MethodPut, binding, body); held <- answer }()
	customer{t, sim}.await("/__sim/state", `"POST /v3/service_credential_bindings":1`)
	c.signal(syscall.SIGTERM)
	if answer := <-held; !strings.Contains(answer, `"credentials"`) {
		t.Errorf("the bind in flight got %q", answer)
	}
	if code := c.exit(); code != 0 {
		t.Errorf("exit code %d", code)
	}
	if _, _, err := p.send(http.MethodGet, "/healthz", ""); err == nil {
		t.Error("it still answers")
	}
	p.url = begin(t, nil, arguments...).url(brokerListens)
	p.want(http.MethodPut, instance, body, http.StatusOK)
	p.want(http.MethodPut, binding, body, http.StatusOK)
}

// customer sends requests to a process.
type customer struct {
	t   *testing.T
	url string
}

func (c customer) send(method, path, body string) (int, string, error) {
	ctx, cancel := context.WithTimeout(c.t.Context(), time.Minute)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, c.url+path, strings.NewReader(body))
	if err != nil {
		return 0, "", err
	}
	req.SetBasicAuth("demo", "demo")
	req.Header.Set("X-Broker-API-Version", "2.17")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, "", err
	}
	defer func() { _ = resp.Body.Close() }()
	raw, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(raw), err
}

func (c customer) want(method, path, body string, status int) {
	c.t.Helper()
	if got, answer, err := c.send(method, path, body); err != nil || got != status {
		c.t.Fatalf("%s %s: %d %s, %v; want %d", method, path, got, answer, err, status)
	}
}

// await asks until the answer holds the text.
func (c customer) await(path, text string) string {
	c.t.Helper()
	again := time.NewTicker(10 * time.Millisecond)
	defer again.Stop()
	deadline := time.After(time.Minute)
	for {
		_, answer, err := c.send(http.MethodGet, path, "")
		if err == nil && strings.Contains(answer, text) {
			return answer
		}
		select {
		case <-again.C:
		case <-deadline:
			c.t.Fatalf("%s never held %s; last %s, %v", path, text, answer, err)
		}
	}
}

// choose returns the ids of a plan once the catalog is known.
func (c customer) choose(offering, plan string) (serviceID, planID string) {
	c.t.Helper()
	var catalog struct {
		Services []struct {
			ID, Name string
			Plans    []struct{ ID, Name string }
		}
	}
	if err := json.Unmarshal([]byte(c.await("/v2/catalog", `"services"`)), &catalog); err != nil {
		c.t.Fatal(err)
	}
	for _, s := range catalog.Services {
		for _, p := range s.Plans {
			if s.Name == offering && p.Name == plan {
				return s.ID, p.ID
			}
		}
	}
	c.t.Fatalf("no plan %s of %s", plan, offering)
	return "", ""
}
