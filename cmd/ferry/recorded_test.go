package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	stdflag "flag"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// The files of testdata/recorded are what an earlier version printed for the life that this test plays: nothing of it
// may go, since scripts, dashboards and searches in logs rely on it. They are written anew only to add what a new
// version promises.
var record = stdflag.Bool("record", false, "write the files of testdata/recorded anew")

// TestWhatWasPromisedIsKept plays a life with a recorded configuration and compares flags, metrics and log lines with
// those recorded. More of each is welcome, less is a fault.
func TestWhatWasPromisedIsKept(t *testing.T) {
	t.Parallel()
	log, metrics := playLife(t)
	for name, lines := range map[string][]string{
		"flags.txt": promisedFlags(t), "metrics.txt": promisedMetrics(metrics), "log.txt": promisedLines(t, log),
	} {
		path := filepath.Join("testdata", "recorded", name)
		if *record {
			if err := os.WriteFile(path, []byte(strings.Join(lines, "\n")+"\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			continue
		}
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, line := range strings.Split(strings.TrimRight(string(text), "\n"), "\n") {
			if !slices.ContainsFunc(lines, func(now string) bool { return keeps(now, line) }) {
				t.Errorf("%s: %q is promised, and gone; now there is:\n%s", name, line, strings.Join(alike(lines, line), "\n"))
			}
		}
	}
}

// keeps reports whether a line of today holds every word of a recorded one, and begins with the same.
func keeps(now, recorded string) bool {
	head, words, _ := strings.Cut(recorded, ": ")
	today, have, _ := strings.Cut(now, ": ")
	if head != today {
		return false
	}
	all := strings.Fields(have)
	return !slices.ContainsFunc(strings.Fields(words), func(w string) bool { return !slices.Contains(all, w) })
}

// alike are the lines that begin with the same.
func alike(lines []string, line string) []string {
	head, _, _ := strings.Cut(line, ": ")
	return slices.DeleteFunc(slices.Clone(lines), func(l string) bool { return !strings.HasPrefix(l, head+": ") })
}

// promisedFlags are the flags of each command with their types.
func promisedFlags(t *testing.T) []string {
	t.Helper()
	var lines []string
	for _, command := range []string{"serve", "sim", "demo", "version"} {
		var out bytes.Buffer
		code := run(t.Context(), environment{
			args: []string{command, "--help"}, stdout: &out, stderr: &out,
			lookupEnv: func(string) (string, bool) { return "", false },
		})
		if code != 0 {
			t.Fatalf("ferry %s --help: exit %d: %s", command, code, &out)
		}
		for _, flags := range regexp.MustCompile(`(?m)^ +(?:-\w, )?(--[a-z-]+)(?: (string|duration|int))?  `).FindAllStringSubmatch(out.String(), -1) {
			lines = append(lines, fmt.Sprintf("ferry %s %s: %s", command, flags[1], flags[2]))
		}
	}
	return lines
}

// promisedMetrics are the names, types and labels on the page of metrics.
func promisedMetrics(page string) []string {
	found := map[string]map[string]bool{}
	add := func(name string, words ...string) {
		if found[name] == nil {
			found[name] = map[string]bool{}
		}
		for _, w := range words {
			found[name][w] = true
		}
	}
	for _, m := range regexp.MustCompile(`(?m)^# TYPE (ferry_\w+) (\w+)$`).FindAllStringSubmatch(page, -1) {
		add(m[1], m[2])
	}
	for _, m := range regexp.MustCompile(`(?m)^(ferry_\w+)\{(.*)\} `).FindAllStringSubmatch(page, -1) {
		for _, label := range regexp.MustCompile(`(\w+)="([^"]*)"`).FindAllStringSubmatch(m[2], -1) {
			add(m[1], label[1])
			if label[1] != "le" && label[1] != "call" && !strings.HasPrefix(m[1], "ferry_build") {
				add(m[1], label[1]+"="+strings.ReplaceAll(label[2], " ", "_"))
			}
		}
	}
	return joined(found)
}

// promisedLines are the messages of the log and what they are about, with the keys of each.
func promisedLines(t *testing.T, log string) []string {
	t.Helper()
	found := map[string]map[string]bool{}
	for _, line := range strings.Split(strings.TrimSpace(log), "\n") {
		var entry map[string]any
		if json.Unmarshal([]byte(line), &entry) != nil {
			continue // the hint for people
		}
		head := fmt.Sprintf("%v %v", entry["level"], entry["msg"])
		for _, key := range []string{"verb", "outcome", "step", "reply", "state"} {
			if value, ok := entry[key]; ok {
				head += fmt.Sprintf(" %s=%v", key, value)
			}
		}
		if found[head] == nil {
			found[head] = map[string]bool{}
			for key := range entry {
				found[head][key] = true
			}
		}
		for key := range found[head] {
			if _, ok := entry[key]; !ok {
				delete(found[head], key) // not in each line of this message: no promise
			}
		}
	}
	return joined(found)
}

func joined(found map[string]map[string]bool) []string {
	lines := make([]string, 0, len(found))
	for _, head := range slices.Sorted(maps.Keys(found)) {
		lines = append(lines, head+": "+strings.Join(slices.Sorted(maps.Keys(found[head])), " "))
	}
	return lines
}

// output is what a process prints, to be read while it prints.
type output struct {
	mu   sync.Mutex
	text bytes.Buffer
}

// Write implements io.Writer.
func (o *output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(b)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

// listening starts a command in this process and returns where it listens, and how to end it.
func listening(t *testing.T, message string, variables map[string]string, arguments ...string) (url string, out *output, stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	out = &output{}
	ended := make(chan int, 1)
	go func() {
		ended <- run(ctx, environment{
			args: arguments, stdout: out, stderr: out,
			lookupEnv: func(name string) (string, bool) { v, ok := variables[name]; return v, ok },
		})
	}()
	stop = func() { cancel(); ended <- <-ended }
	t.Cleanup(stop)
	pattern := regexp.MustCompile(`"msg":"` + message + `","url":"([^"]+)"`)
	for {
		if m := pattern.FindStringSubmatch(out.String()); m != nil {
			return m[1], out, stop
		}
		select {
		case code := <-ended:
			ended <- code
			t.Fatalf("ferry %s ended with %d:\n%s", strings.Join(arguments, " "), code, out)
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// playLife takes an instance and a binding through a life with duplicates and refusals, and returns the log, all
// levels, and the page of metrics.
func playLife(t *testing.T) (log, metrics string) {
	t.Helper()
	cloud, _, _ := listening(t, "the simulated Cloud Foundry listens", nil, "sim", "--listen", "127.0.0.1:0", "--log-format", "json", "--job-delay", "10ms", "--broker-delay", "10ms", "--poll-interval", "20ms")
	url, out, stop := listening(t, "ferry listens", map[string]string{
		"DEMO_PASSWORD": "demo", "CF_API": cloud, "CF_SECRET": "ferry", "METRICS_PASSWORD": "scrape",
	}, "serve", "--listen", "127.0.0.1:0", "--log-format", "json", "--log-level", "debug", "--data", t.TempDir(),
		"--config", filepath.Join("testdata", "recorded", "config.yaml"))
	l := &life{t: t, url: url}
	service, plan := l.plan("postgres", "small")
	body := fmt.Sprintf(`{"service_id":%q,"plan_id":%q,"organization_guid":"o","space_guid":"s"}`, service, plan)
	ids := fmt.Sprintf("service_id=%s&plan_id=%s", service, plan)
	const instance, binding = "/v2/service_instances/recorded", "/v2/service_instances/recorded/service_bindings/recorded"
	l.send("PUT", instance, body, 422)
	l.send("PUT", instance+"?accepts_incomplete=true", body, 202)
	l.send("PUT", instance+"?accepts_incomplete=true", body, 202)
	l.until(instance+"/last_operation?"+ids, "succeeded")
	l.send("PUT", instance+"?accepts_incomplete=true", strings.Replace(body, `"s"`, `"other"`, 1), 409)
	l.send("PUT", binding, body, 201)
	l.send("PUT", binding, body, 200)
	l.send("GET", binding, "", 200)
	l.send("PATCH", instance+"?accepts_incomplete=true", fmt.Sprintf(`{"service_id":%q,"parameters":{"a":1}}`, service), 202)
	l.until(instance+"/last_operation?"+ids, "succeeded")
	l.send("DELETE", binding+"?"+ids, "", 200)
	l.send("DELETE", binding+"?"+ids, "", 410)
	l.send("DELETE", instance+"?accepts_incomplete=true&"+ids, "", 202)
	l.until(instance+"/last_operation?"+ids, "")
	l.send("GET", "/v2/nothing", "", 404)
	metrics = l.metrics()
	stop()
	return out.String(), metrics
}

// life sends the requests.
type life struct {
	t   *testing.T
	url string
}

func (l *life) do(method, path, body, user, password string) (int, []byte) {
	l.t.Helper()
	q, err := http.NewRequestWithContext(l.t.Context(), method, l.url+path, strings.NewReader(body))
	if err != nil {
		l.t.Fatal(err)
	}
	q.SetBasicAuth(user, password)
	q.Header.Set("X-Broker-API-Version", "2.17")
	q.Header.Set("Content-Type", "application/json")
	a, err := http.DefaultTransport.RoundTrip(q)
	if err != nil {
		l.t.Fatal(err)
	}
	text, err := io.ReadAll(a.Body)
	if err = errors.Join(err, a.Body.Close()); err != nil {
		l.t.Fatal(err)
	}
	return a.StatusCode, text
}

func (l *life) send(method, path, body string, status int) []byte {
	l.t.Helper()
	got, text := l.do(method, path, body, "demo", "demo")
	if got != status {
		l.t.Fatalf("%s %s: %d %s, want %d", method, path, got, text, status)
	}
	return text
}

// until polls until the operation has this state; an empty one means gone: 410, the quirk of the configuration.
func (l *life) until(path, state string) {
	l.t.Helper()
	for {
		status, text := l.do("GET", path, "", "demo", "demo")
		var poll struct{ State string }
		_ = json.Unmarshal(text, &poll)
		switch {
		case status == http.StatusGone && state == "", status == http.StatusOK && state != "" && poll.State == state:
			return
		case status != http.StatusOK || poll.State != "in progress":
			l.t.Fatalf("GET %s: %d %s", path, status, text)
		}
		<-time.After(50 * time.Millisecond)
	}
}

func (l *life) plan(offering, name string) (service, plan string) {
	l.t.Helper()
	var catalog struct {
		Services []struct {
			ID, Name string
			Plans    []struct{ ID, Name string }
		}
	}
	if err := json.Unmarshal(l.send("GET", "/v2/catalog", "", 200), &catalog); err != nil {
		l.t.Fatal(err)
	}
	for _, s := range catalog.Services {
		for _, p := range s.Plans {
			if s.Name == offering && p.Name == name {
				return s.ID, p.ID
			}
		}
	}
	l.t.Fatalf("no plan %s/%s", offering, name)
	return "", ""
}

func (l *life) metrics() string {
	l.t.Helper()
	status, text := l.do("GET", "/metrics", "", "prometheus", "scrape")
	if diff := cmp.Diff(http.StatusOK, status); diff != "" {
		l.t.Fatalf("GET /metrics (-want +got):\n%s", diff)
	}
	return string(text)
}
