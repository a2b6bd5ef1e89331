package lambda

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/ferry-broker/ferry/internal/secrets"
)

// filterOf reads the pattern of a metric filter of the template: conditions on fields,
// all joined by the same word.
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

// TestAlarmsCountTheLinesOfAudits: what the template's filters look for is what the
// janitor writes.
func TestAlarmsCountTheLinesOfAudits(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		trouble           func(r *rig)
		task              string
		failed, completed int
	}{
		"an audit that is completed":                 {func(*rig) {}, TaskAudit, 0, 1},
		"one without a configuration":                {func(r *rig) { r.configure(nil, errDown) }, TaskAudit, 1, 0},
		"one that Cloud Foundry does not answer":     {func(r *rig) { r.configure(unreachable, nil) }, TaskAudit, 1, 0},
		"one that panics":                            {func(r *rig) { r.janitor.core.configuration = nil }, TaskAudit, 1, 0},
		"a round":                                    {func(*rig) {}, TaskRound, 0, 0},
		"a round that fails is another alarm's case": {func(r *rig) { r.configure(nil, errDown) }, TaskRound, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			test.trouble(r)
			_ = r.janitor.Handle(t.Context(), Schedule{Task: test.task}) // the log is looked at
			if failed, completed := matches(t, "AuditsFailedMetric", r.log), matches(t, "AuditsCompletedMetric", r.log); failed != test.failed || completed != test.completed {
				t.Errorf("%d failed, %d completed; want %d, %d; the log: %s", failed, completed, test.failed, test.completed, r.log)
			}
		})
	}
}

func unreachable(c *secrets.Copy) { c.Config.Clients[0].CloudFoundry.API = "http://127.0.0.1:1" }

// TestAlarmsCountTheLinesOfFaultsInTheSecret, each time that it is read, for a janitor
// that reads it itself.
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

// TestAConfigurationThatCannotBeUsedCountsToo: the text is good, and what it names is not.
func TestAConfigurationThatCannotBeUsedCountsToo(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.configure(func(c *secrets.Copy) { c.Config.Clients[0].CloudFoundry.CA = []byte("no certificate") }, nil)
	if err := r.janitor.Handle(t.Context(), Schedule{}); err == nil || matches(t, "ConfigurationFaultsMetric", r.log) != 1 {
		t.Errorf("%v; the log: %s", err, r.log)
	}
}
