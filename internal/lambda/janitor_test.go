package lambda

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ferry-broker/ferry/internal/broker"
	"github.com/ferry-broker/ferry/internal/lifecycle"
	"github.com/ferry-broker/ferry/internal/secrets"
)

// filterOf reads the pattern of a metric filter of the template: conditions on fields, all joined by the same word.
func filterOf(t *testing.T, name string) func(line string) bool {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, "template.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile(`(?s)\n  ` + name + `:\n.*?\n      FilterPattern: '([^'\n]+)'\n`).FindSubmatch(text)
	if found == nil {
		t.Fatalf("template.yaml has no filter %s", name)
	}
	conditions := regexp.MustCompile(`\$\.(\w+) = "([^"]*)"`).FindAllStringSubmatch(string(found[1]), -1)
	all := !strings.Contains(string(found[1]), "||")
	return func(line string) bool {
		var fields map[string]any
		if json.Unmarshal([]byte(line), &fields) != nil {
			return false
		}
		for _, c := range conditions {
			if (fields[c[1]] == c[2]) != all {
				return !all
			}
		}
		return all
	}
}

// matches are how many lines of the log a filter counts.
func matches(t *testing.T, name string, log *logged) int {
	t.Helper()
	counts, n := filterOf(t, name), 0
	for line := range strings.Lines(log.String()) {
		if counts(line) {
			n++
		}
	}
	return n
}

// TestAlarmsCountTheLinesOfAudits: what the template's filters look for is what the janitor writes.
func TestAlarmsCountTheLinesOfAudits(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		trouble           func(h *harness)
		task              string
		failed, completed int
	}{
		"an audit that is completed":                 {func(*harness) {}, TaskAudit, 0, 1},
		"one without a configuration":                {func(h *harness) { h.configure(nil, errDown) }, TaskAudit, 1, 0},
		"one that Cloud Foundry does not answer":     {func(h *harness) { h.configure(unreachable, nil) }, TaskAudit, 1, 0},
		"one that panics":                            {func(h *harness) { h.janitor.core.configuration = nil }, TaskAudit, 1, 0},
		"a round":                                    {func(*harness) {}, TaskRound, 0, 0},
		"a round that fails is another alarm's case": {func(h *harness) { h.configure(nil, errDown) }, TaskRound, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHarness(t)
			test.trouble(h)
			_ = h.janitor.Handle(t.Context(), Schedule{Task: test.task}) // the log is looked at
			if failed, completed := matches(t, "AuditsFailedMetric", h.log), matches(t, "AuditsCompletedMetric", h.log); failed != test.failed || completed != test.completed {
				t.Errorf("%d failed, %d completed; want %d, %d; the log: %s", failed, completed, test.failed, test.completed, h.log)
			}
		})
	}
}

func unreachable(c *secrets.Copy) { c.Config.Clients[0].CloudFoundry.API = "http://127.0.0.1:1" }

// TestAlarmsCountTheLinesOfFaultsInTheSecret, each time that it is read, for a janitor that reads it itself.
func TestAlarmsCountTheLinesOfFaultsInTheSecret(t *testing.T) {
	t.Parallel()
	const good = `{"clients": [{"name": "demo", "credentials": [{"username": "demo", "password": "demo"}], "cloud_foundry": ` +
		`{"api": "http://127.0.0.1:1", "org": "demo", "client_id": "ferry", "client_secret": "ferry"}}]}`
	for name, test := range map[string]struct {
		text string // "" for none that may be read
		want bool
	}{
		"a good text":        {good, false},
		"no text":            {"clients: []", true},
		"an unknown key":     {strings.Replace(good, `"org"`, `"s3cr3t"`, 1), true},
		"no right to read":   {"", true},
		"what is no YAML":    {"clients: [s3cr3t", true},
		"a reference to air": {strings.Replace(good, `"client_secret": "ferry"`, `"client_secret": "${env:GONE}"`, 1), true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Type", "application/x-amz-json-1.1")
				if test.text == "" || r.Header.Get("X-Amz-Target") != "secretsmanager.GetSecretValue" {
					w.WriteHeader(http.StatusBadRequest)
					_, _ = w.Write([]byte(`{"__type":"AccessDeniedException","message":"no"}`))
					return
				}
				_, _ = fmt.Fprintf(w, `{"VersionId":"1","SecretString":%s}`, strconv.Quote(test.text))
			}))
			t.Cleanup(server.Close)
			log := &logged{}
			j, err := NewJanitor(environment("", map[string]string{"AWS_ENDPOINT_URL": server.URL}), log)
			if err != nil {
				t.Fatal(err)
			}
			_ = j.Handle(t.Context(), Schedule{}) // the log is looked at
			if n := matches(t, "ConfigurationFaultsMetric", log); (n > 0) != test.want {
				t.Errorf("the filter counts %d lines of %s", n, log)
			}
		})
	}
}

// TestTheHourlyTurnAuditsWhatIsDue: what failed at the next hour, what was completed a day later; and whoever asks for
// an audit by hand gets one.
func TestTheHourlyTurnAuditsWhatIsDue(t *testing.T) {
	t.Parallel()
	h := newTableHarness(t, nil)
	hour := read[Schedule](t, "schedule-audit")
	for n, step := range []struct {
		pass      time.Duration
		event     Schedule
		away      bool
		completed int
		failed    int
	}{
		{0, hour, true, 0, 1},
		{time.Hour, hour, false, 1, 1},
		{time.Hour, hour, false, 1, 1},
		{0, Schedule{Task: TaskAudit}, false, 2, 1},
		{23 * time.Hour, hour, false, 2, 1},
		{time.Hour - time.Minute, hour, false, 3, 1}, // an hour that came a little early
	} {
		h.pass(step.pass)
		h.control(t, "reset", "")
		if step.away {
			h.control(t, "faults", `{"method":"*","route":"*","times":0,"action":"drop"}`)
		}
		err := h.janitor.Handle(t.Context(), step.event)
		if _, failed := errors.AsType[*JanitorFailed](err); failed != step.away {
			t.Errorf("step %d: %v; Cloud Foundry is away: %t", n, err, step.away)
		}
		text := h.log.String()
		completed, failed := strings.Count(text, `"level":"INFO","msg":"audit completed","client":"demo","seen":0`), strings.Count(text, `"level":"WARN","msg":"audit failed","client":"demo"`)
		if completed != step.completed || failed != step.failed {
			t.Errorf("step %d: %d completed, %d failed; want %d, %d", n, completed, failed, step.completed, step.failed)
		}
	}
}

// TestManyDueOperationsAreDrivenInOneRound on a table of the stand-in, of two clients. Their records are read in few
// calls, and few lists say that what each of them made has vanished. FERRY_DUE says how many: 10,000 take their time
// there, so that fewer have to do where nobody waits for it.
func TestManyDueOperationsAreDrivenInOneRound(t *testing.T) {
	t.Parallel()
	many := 150
	if text, ok := os.LookupEnv("FERRY_DUE"); ok {
		var err error
		if many, err = strconv.Atoi(text); err != nil {
			t.Fatal(err)
		}
	}
	h := newTableHarness(t, nil)
	h.configure(func(c *secrets.Copy) {
		calm := c.Config.Clients[0]
		calm.Name = "calm"
		c.Config.Clients, c.Version = append(c.Config.Clients, calm), "v2"
	}, nil)
	due(t, h, "demo", many, time.Hour)
	due(t, h, "calm", 1, 5*time.Minute)
	h.mu.Lock()
	h.asked = 0
	h.mu.Unlock()
	began := time.Now()
	if err := h.janitor.Handle(t.Context(), Schedule{Task: TaskRound}); err != nil {
		t.Fatalf("%v; the log: %.4000s", err, h.log)
	}
	t.Logf("%d operations in %v, with %d calls of Cloud Foundry", many+1, time.Since(began), h.asked)
	if n := strings.Count(h.log.String(), `"msg":"operation ended"`); n != many+1 {
		t.Errorf("%d operations ended, want %d; the log: %.4000s", n, many+1, h.log)
	}
	page, err := h.store.Unfinished(t.Context(), h.now(), "", 10)
	if err != nil || len(page.Operations) != 0 {
		t.Errorf("%v are due afterwards, %v", page.Operations, err)
	}
}

// due stores creates of a client whose POST was carried out, and whose drivers got lost.
func due(t *testing.T, h *tableHarness, client string, n int, age time.Duration) {
	t.Helper()
	at := h.now().Add(-age)
	next := make(chan int, n)
	for i := range n {
		next <- i
	}
	close(next)
	var writers sync.WaitGroup
	for range 8 {
		writers.Go(func() {
			for i := range next {
				key := broker.Key{Client: client, InstanceID: fmt.Sprintf("i-%05d", i)}
				_, err := h.store.Put(t.Context(), broker.Record{Key: key, Lifecycle: lifecycle.Record{
					Kind: key.Kind(), State: lifecycle.Creating, Seq: 1,
					Operation: lifecycle.Operation{
						ID: "create-" + key.InstanceID, Verb: lifecycle.Create, Started: at, Deadline: at.Add(100 * time.Hour),
						Due: at.Add(time.Duration(i) * time.Millisecond), Calls: 1, CreatedWithoutJob: true,
					},
				}}, 0)
				if err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	writers.Wait()
}

// TestAnOperationWhoseStartWasLostIsDrivenByRounds, though no execution can be started for it at all.
func TestAnOperationWhoseStartWasLostIsDrivenByRounds(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.machine.fault = errDown
	if answer := h.send(t, "provision"); answer.StatusCode != 202 {
		t.Fatalf("%d %s: the platform is not to notice", answer.StatusCode, answer.Body)
	}
	if err := h.janitor.Handle(t.Context(), read[Schedule](t, "schedule")); err != nil {
		t.Fatal(err)
	}
	if want := `"msg":"janitor round","restarted":1,"driven":2`; !strings.Contains(h.log.String(), want) {
		t.Errorf("want %s in the log: %s", want, h.log)
	}
	if answer := h.send(t, "last-operation"); !strings.Contains(answer.Body, `"succeeded"`) {
		t.Errorf("%s", answer.Body)
	}
}
