package server

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ferry-broker/ferry/internal/config"
)

func TestDemoIsShortAndRight(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	if err := Demo(t.Context(), &out, "test"); err != nil {
		t.Errorf("%v\n%s", err, &out)
	}
	if lines := strings.Count(out.String(), "\n"); lines < 20 || lines >= 60 {
		t.Errorf("%d lines, want 20 to 59:\n%s", lines, &out)
	}
}

func TestDemoEndsWithItsContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := Demo(ctx, io.Discard, "test"); err == nil {
		t.Error("a demo that could not be shown succeeded")
	}
}

// exitCode is the one that an error ends the process with; 0 for none.
func exitCode(err error) int {
	if e, ok := errors.AsType[*ExitError](err); ok {
		return e.Code
	}
	return 0
}

func TestIsLoopback(t *testing.T) {
	t.Parallel()
	for address, want := range map[string]bool{
		"127.0.0.1:8080": true, "127.8.9.10:0": true, "localhost:80": true, "[::1]:8080": true,
		"0.0.0.0:8080": false, ":8080": false, "[::]:8080": false, "10.0.0.1:80": false, "example.org:80": false,
		"127.0.0.1": false, "": false, "localhost.example.org:80": false,
	} {
		if got := isLoopback(address); got != want {
			t.Errorf("isLoopback(%q) is %t", address, got)
		}
	}
}

func TestListenSaysWhatIsWrong(t *testing.T) {
	t.Parallel()
	taken, err := listen(t.Context(), "--listen", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = taken.Close() })
	const form = "Give an address as host:port with --listen."
	for address, want := range map[string]string{
		taken.Addr().String(): "is in use by another process", "127.0.0.1": form, "127.0.0.1:nonsense": form, "127.0.0.1:99999": form,
	} {
		l, err := listen(t.Context(), "--listen", address)
		if err == nil {
			_ = l.Close()
			t.Errorf("it listens on %q", address)
			continue
		}
		if exitCode(err) != ExitFailure || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("listen on %q: %v, want %q", address, err, want)
		}
	}
}

// quiet are options for a broker that the test ends.
func quiet(t *testing.T) ServeOptions {
	return ServeOptions{
		Listen: "127.0.0.1:0", Data: filepath.Join(t.TempDir(), "data"),
		Logger: slog.New(slog.DiscardHandler), LookupEnv: os.LookupEnv,
	}
}

// running starts Serve, and returns the address, and what ends it.
func running(t *testing.T, o ServeOptions) (url string, end func() error) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	listening, ended := make(chan string, 1), make(chan error, 1)
	o.Started = func(broker, _ string) { listening <- broker }
	go func() { ended <- Serve(ctx, o) }()
	select {
	case url = <-listening:
	case err := <-ended:
		t.Fatalf("it does not start: %v", err)
	}
	return url, func() error { cancel(); return <-ended }
}

func get(t *testing.T, url string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := fresh().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(raw)
}

// TestServeWithoutCloudFoundry: absence of the backend is not an outage (law 10), but a broker that has never seen a
// catalog is not ready, and says which part.
func TestServeWithoutCloudFoundry(t *testing.T) {
	t.Parallel()
	closed, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = closed.Close()
	o := quiet(t)
	o.Config = config.Demo()
	o.Config.Clients[0].CloudFoundry.API = "http://" + closed.Addr().String()
	url, end := running(t, o)
	if status, body := get(t, url+"/healthz"); status != http.StatusOK {
		t.Errorf("healthz: %d %s", status, body)
	}
	if status, body := get(t, url+"/readyz"); status != http.StatusServiceUnavailable || !strings.Contains(body, "catalog") {
		t.Errorf("readyz: %d %s, want 503 that names the catalog", status, body)
	}
	if err := end(); err != nil {
		t.Errorf("end: %v", err)
	}
}

// TestServeBecomesReady, and knows the catalog at once when it starts again without its Cloud Foundry.
func TestServeBecomesReady(t *testing.T) {
	t.Parallel()
	o := quiet(t)
	o.Simulate, o.Sim = true, DefaultSimOptions()
	o.Sim.Listen = "127.0.0.1:0"
	url, end := running(t, o)
	untilReady(t, url)
	until(t, "the catalog of the client demo is in the store", func() bool {
		raw, err := os.ReadFile(filepath.Join(o.Data, "ferry.db"))
		return err == nil && bytes.Contains(raw, []byte("demo"))
	})
	if err := end(); err != nil {
		t.Errorf("end: %v", err)
	}
	o.Simulate, o.Config = false, config.Demo()
	o.Config.Clients[0].CloudFoundry.API = "http://127.0.0.1:1"
	url, end = running(t, o)
	untilReady(t, url)
	if err := end(); err != nil {
		t.Errorf("end: %v", err)
	}
}

// TestServeBehindAPrefix: what the start-up line says is what platforms register.
func TestServeBehindAPrefix(t *testing.T) {
	t.Parallel()
	o := quiet(t)
	o.Config, o.BasePath = config.Demo(), "/broker/"
	o.Config.Clients[0].CloudFoundry.API = "http://127.0.0.1:1"
	url, end := running(t, o)
	root, found := strings.CutSuffix(url, "/broker")
	if !found {
		t.Errorf("it says that it listens at %s", url)
	}
	for path, want := range map[string]int{"/broker/v2/catalog": 401, "/broker/healthz": 200, "/healthz": 200, "/v2/catalog": 404} {
		if status, body := get(t, root+path); status != want {
			t.Errorf("%s: %d %s, want %d", path, status, body, want)
		}
	}
	if err := end(); err != nil {
		t.Errorf("end: %v", err)
	}
	o.BasePath = "broker"
	if err := Serve(t.Context(), o); exitCode(err) != ExitUsage || !strings.Contains(err.Error(), "--base-path") {
		t.Errorf("a base path without its slash: %v", err)
	}
}

func untilReady(t *testing.T, url string) {
	t.Helper()
	until(t, "ready", func() bool {
		status, _ := get(t, url+"/readyz")
		return status == http.StatusOK
	})
}

// until looks again and again.
func until(t *testing.T, what string, happened func() bool) {
	t.Helper()
	again := time.NewTicker(10 * time.Millisecond)
	defer again.Stop()
	deadline := time.After(time.Minute)
	for !happened() {
		select {
		case <-again.C:
		case <-deadline:
			t.Fatalf("never seen: %s", what)
		}
	}
}

func TestFaithfulSimulator(t *testing.T) {
	t.Parallel()
	o := DefaultSimOptions()
	o.Faithful = true
	c := o.options(slog.New(slog.DiscardHandler))
	if c.JobDelay != 5*time.Second || c.PollInterval != time.Minute || c.BrokerTimeout != time.Minute {
		t.Errorf("job delay %v, poll interval %v, broker timeout %v; want 5s, 60s, 60s", c.JobDelay, c.PollInterval, c.BrokerTimeout)
	}
}

func TestSimEndsWithItsContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	o := DefaultSimOptions()
	o.Listen = "127.0.0.1:0"
	if err := Sim(ctx, o, slog.New(slog.DiscardHandler)); err != nil {
		t.Error(err)
	}
}

// fresh is a client whose connections nobody else closes: a test server that stops closes the idle ones of
// http.DefaultTransport, whoever is about to use them.
func fresh() *http.Client {
	return &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
}

// embedded are options for a broker of the demo client with a simulator beside it.
func embedded() ServeOptions {
	sim := DefaultSimOptions()
	sim.Listen = "127.0.0.1:0"
	return ServeOptions{Simulate: true, Sim: sim, Logger: slog.New(slog.DiscardHandler), LookupEnv: os.LookupEnv}
}

func TestEmbedHandsOutTheHandler(t *testing.T) {
	t.Parallel()
	mine := errors.New("mine")
	var simulatorURL string
	err := Embed(t.Context(), embedded(), func(handler http.Handler, url string) error {
		simulatorURL = url
		request := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/v2/catalog", nil)
		request.SetBasicAuth("demo", "demo")
		request.Header.Set("X-Broker-API-Version", "2.17")
		answer := httptest.NewRecorder()
		handler.ServeHTTP(answer, request)
		if answer.Code != http.StatusOK || !strings.Contains(answer.Body.String(), `"postgres"`) {
			t.Errorf("%d %s", answer.Code, answer.Body)
		}
		if status, _ := get(t, url+"/v3/info"); status != http.StatusOK {
			t.Errorf("the simulator answers %d", status)
		}
		if err := Embed(t.Context(), embedded(), func(http.Handler, string) error { return nil }); err != nil {
			t.Errorf("a second broker in this process: %v", err)
		}
		return mine
	})
	if !errors.Is(err, mine) {
		t.Errorf("error %v, want that of the answers", err)
	}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, simulatorURL+"/v3/info", nil)
	if err != nil {
		t.Fatal(err)
	}
	if answer, err := fresh().Do(request); err == nil {
		_ = answer.Body.Close()
		t.Error("the simulator outlived the broker")
	}
}

func TestEmbedWarnsOfWhatIsSeldomMeant(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	o := embedded()
	o.Logger = slog.New(slog.NewTextHandler(&log, nil))
	o.Config = config.Demo()
	second := o.Config.Clients[0]
	second.Name, second.Credentials = "second", []config.Credential{{Username: "second", Password: config.NewSecret("second")}}
	o.Config.Clients = append(o.Config.Clients, second)
	if err := Embed(t.Context(), o, func(http.Handler, string) error { return nil }); err != nil {
		t.Fatal(err)
	}
	if text := log.String(); !strings.Contains(text, "level=WARN") || strings.Count(text, "demo and second use the same org") != 1 {
		t.Errorf("want one warning of the org, not\n%s", text)
	}
}

func TestEmbedRefuses(t *testing.T) {
	t.Parallel()
	never := func(http.Handler, string) error { t.Error("it answers"); return nil }
	unusable := embedded()
	unusable.Config = config.Demo()
	unusable.Config.Clients[0].CloudFoundry.CA = []byte("no certificate")
	nothing := embedded()
	nothing.Simulate = false
	for name, o := range map[string]ServeOptions{"a certificate that is none": unusable, "no configuration": nothing} {
		if err := Embed(t.Context(), o, never); exitCode(err) != ExitUsage {
			t.Errorf("%s: %v", name, err)
		}
	}
	shared := embedded()
	shared.Data = t.TempDir()
	err := Embed(t.Context(), shared, func(http.Handler, string) error { return Embed(t.Context(), shared, never) })
	if exitCode(err) != ExitFailure || !strings.Contains(err.Error(), "is in use") {
		t.Errorf("two brokers with one folder: %v", err)
	}
}

// TestOptionsAreNotWrittenTo: whoever keeps them may start another broker with them, beside another simulator.
func TestOptionsAreNotWrittenTo(t *testing.T) {
	t.Parallel()
	o := embedded()
	o.Config = config.Demo()
	for range 2 {
		if err := Embed(t.Context(), o, func(http.Handler, string) error { return nil }); err != nil {
			t.Fatal(err)
		}
		if api := o.Config.Clients[0].CloudFoundry.API; api != "" {
			t.Fatalf("the client is at %s now", api)
		}
	}
}

// TestADamagedFolderEndsWithASentence, and with exit code 1: which folder, what is wrong with it, and what to do.
func TestADamagedFolderEndsWithASentence(t *testing.T) {
	t.Parallel()
	o := embedded()
	o.Data = t.TempDir()
	file := filepath.Join(o.Data, "ferry.db")
	if err := Embed(t.Context(), o, func(http.Handler, string) error { return nil }); err != nil {
		t.Fatal(err)
	}
	whole, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, whole[:len(whole)/3], 0o600); err != nil {
		t.Fatal(err)
	}
	err = Embed(t.Context(), o, func(http.Handler, string) error { t.Error("it answers"); return nil })
	if exitCode(err) != ExitFailure {
		t.Fatalf("exit code %d: %v", exitCode(err), err)
	}
	for _, part := range []string{"The data folder " + o.Data + " cannot be used: ferry.db is damaged", "Nothing was changed. Restore "} {
		if !strings.Contains(err.Error(), part) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%v; want one line with %q", err, part)
		}
	}
}
