package server

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ferry-broker/ferry/internal/config"
)

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

// TestEmbedForgets: two brokers in one process do not share what they keep.
func TestEmbedForgets(t *testing.T) {
	t.Parallel()
	o := embedded()
	o.Data = t.TempDir()
	err := Embed(t.Context(), o, func(http.Handler, string) error {
		if err := Embed(t.Context(), embedded(), func(http.Handler, string) error { return nil }); err != nil {
			t.Errorf("a second broker with a folder of its own: %v", err)
		}
		return Embed(t.Context(), o, func(http.Handler, string) error {
			t.Error("two brokers have one folder")
			return nil
		})
	})
	if ExitCode(err) != ExitFailure || !strings.Contains(err.Error(), "is in use") {
		t.Errorf("error %v", err)
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

func TestEmbedNeedsAConfiguration(t *testing.T) {
	t.Parallel()
	never := func(http.Handler, string) error { t.Error("it answers"); return nil }
	o := ServeOptions{Logger: slog.New(slog.DiscardHandler), LookupEnv: os.LookupEnv}
	if err := Embed(context.WithoutCancel(t.Context()), o, never); ExitCode(err) != ExitUsage {
		t.Errorf("without a configuration: %v", err)
	}
	o.Config = config.Demo()
	o.Config.Clients[0].CloudFoundry.CA = []byte("no certificate")
	o.Data = t.TempDir()
	if err := Embed(context.WithoutCancel(t.Context()), o, never); ExitCode(err) != ExitUsage {
		t.Errorf("with one that cannot be used: %v", err)
	}
}

// TestOptionsAreNotWrittenTo: whoever keeps them may start another broker with them,
// beside another simulator.
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

// TestADamagedFolderEndsWithASentence, and with exit code 1: which folder, what is wrong
// with it, and what to do.
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
	if ExitCode(err) != ExitFailure {
		t.Fatalf("exit code %d: %v", ExitCode(err), err)
	}
	for _, part := range []string{"The data folder " + o.Data + " cannot be used: ferry.db is damaged", "Nothing was changed. Restore "} {
		if !strings.Contains(err.Error(), part) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%v; want one line with %q", err, part)
		}
	}
}
