package local

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ferry-broker/ferry/internal/config"
)

// nothing is the environment of a container without a cloud.
func nothing(string) (string, bool) { return "", false }

// started runs a broker for as long as f does, and returns its log.
func started(t *testing.T, lookupEnv func(string) (string, bool), f func(http.Handler)) string {
	t.Helper()
	var log output
	if err := run(t.Context(), lookupEnv, &log, func(h http.Handler, _ *slog.Logger) { f(h) }); err != nil {
		t.Fatal(err)
	}
	return log.String()
}

// output is a log that the broker's goroutines write.
type output struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

const create = `{"service_id": "c1bdaf3c-d4fc-8216-aa15-6fd5195e3efc", "plan_id": "84a1f17d-7f77-8e25-8e4d-38896314fafd",
	"organization_guid": "o", "space_guid": "s"}`

func provision(t *testing.T, h http.Handler) (int, string) {
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPut, "/v2/service_instances/i?accepts_incomplete=true", strings.NewReader(create))
	r.SetBasicAuth("demo", "demo")
	r.Header.Set("X-Broker-API-Version", "2.17")
	r.Header.Set("Content-Type", "application/json")
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Code, w.Body.String()
}

// TestTwentyCreatesAtOnce: what the emulator cannot show, since it takes one call after the other.
func TestTwentyCreatesAtOnce(t *testing.T) {
	t.Parallel()
	started(t, nothing, func(h http.Handler) {
		answers := make([]string, 20)
		var sent sync.WaitGroup
		for i := range answers {
			sent.Go(func() {
				status, body := provision(t, h)
				if answers[i] = body; status != http.StatusAccepted {
					t.Errorf("%d %s", status, body)
				}
			})
		}
		sent.Wait()
		slices.Sort(answers)
		if distinct := slices.Compact(answers); len(distinct) != 1 {
			t.Errorf("%d different answers: %q", len(distinct), distinct)
		}
	})
}

func TestTheLogSaysWhatIsOffered(t *testing.T) {
	t.Parallel()
	// What template.yaml sets for the deployed function does not count here.
	set := map[string]string{"FERRY_TABLE": "Table", "FERRY_CONFIG_SECRET_ARN": "Secret", "AWS_ENDPOINT_URL": "http://127.0.0.1:1", "FERRY_LOG_LEVEL": "info"}
	log := started(t, func(name string) (string, bool) { v, ok := set[name]; return v, ok }, func(http.Handler) {})
	type said struct {
		Username, Password string
		Plans              []string
	}
	for line := range strings.Lines(log) {
		var s said
		if err := json.Unmarshal([]byte(line), &s); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		if s.Username == "demo" && s.Password == "demo" && slices.Contains(s.Plans, "postgres/small") && slices.Contains(s.Plans, "drain/standard") {
			return
		}
	}
	t.Errorf("nothing about plans and credentials: %s", log)
}

func TestStartRefuses(t *testing.T) {
	t.Parallel()
	err := Start(func(string) (string, bool) { return "loud", true }, io.Discard)
	if err == nil || !strings.Contains(err.Error(), `FERRY_LOG_LEVEL "loud" is none of`) {
		t.Errorf("error %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := run(ctx, nothing, io.Discard, func(http.Handler, *slog.Logger) { t.Error("it serves") }); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want that of the context", err)
	}
}

func TestOffered(t *testing.T) {
	t.Parallel()
	as := config.Credential{Username: "u", Password: config.NewSecret("p")}
	tests := map[string]struct {
		answer http.HandlerFunc
		want   []string
		fault  string
	}{
		"the plans in the catalog's order": {func(w http.ResponseWriter, r *http.Request) {
			if user, password, _ := r.BasicAuth(); user != "u" || password != "p" {
				t.Errorf("%s:%s", user, password)
			}
			_, _ = io.WriteString(w, `{"services": [{"name": "b", "plans": [{"name": "2"}, {"name": "1"}]}, {"name": "a", "plans": [{"name": "3"}]}]}`)
		}, []string{"b/2", "b/1", "a/3"}, ""},
		"a refusal":  {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) }, nil, "status 503"},
		"no catalog": {func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "sorry") }, nil, "invalid character"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := offered(t.Context(), test.answer, as)
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if (err == nil) != (test.fault == "") || err != nil && !strings.Contains(err.Error(), test.fault) {
				t.Errorf("error %v, want %q", err, test.fault)
			}
		})
	}
}
