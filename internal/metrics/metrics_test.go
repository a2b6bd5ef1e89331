package metrics

import (
	"bufio"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// scrape returns the lines of ours that are samples, in the order of the answer, without buckets that count nothing
// new.
func scrape(t *testing.T, m *Metrics, prefix string) []string {
	t.Helper()
	answer := httptest.NewRecorder()
	m.Handler().ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	if answer.Code != http.StatusOK {
		t.Fatalf("status %d: %s", answer.Code, answer.Body)
	}
	var lines []string
	for scanner := bufio.NewScanner(answer.Body); scanner.Scan(); {
		if strings.HasPrefix(scanner.Text(), prefix) {
			lines = append(lines, scanner.Text())
		}
	}
	return lines
}

func TestSamples(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		do     func(*Metrics)
		prefix string
		want   []string
	}{
		"requests by verb, status and outcome": {
			do: func(m *Metrics) {
				m.Request("provision", 202, "accepted", time.Second)
				m.Request("provision", 202, "accepted", time.Second)
				m.Request("provision", 409, "conflict", time.Millisecond)
			},
			prefix: "ferry_http_requests_total",
			want: []string{
				`ferry_http_requests_total{outcome="accepted",status="202",verb="provision"} 2`,
				`ferry_http_requests_total{outcome="conflict",status="409",verb="provision"} 1`,
			},
		},
		"a status that is none": {
			do:     func(m *Metrics) { m.Request("bind", 0, "lost", 0); m.Request("bind", 12345, "lost", 0) },
			prefix: "ferry_http_requests_total",
			want:   []string{`ferry_http_requests_total{outcome="lost",status="other",verb="bind"} 2`},
		},
		"time of requests": {
			do: func(m *Metrics) {
				m.Request("bind", 200, "ok", 1500*time.Millisecond)
				m.Request("bind", 500, "ok", -1)
			},
			prefix: "ferry_http_request_duration_seconds",
			want: append(buckets("ferry_http_request_duration_seconds", `outcome="ok",verb="bind"`,
				"0.001:1 0.0025:1 0.005:1 0.01:1 0.025:1 0.05:1 0.1:1 0.25:1 0.5:1 1:1 2.5:2 5:2 10:2 30:2 60:2 +Inf:2"),
				`ferry_http_request_duration_seconds_sum{outcome="ok",verb="bind"} 1.5`,
				`ferry_http_request_duration_seconds_count{outcome="ok",verb="bind"} 2`),
		},
		"duplicates by verb": {
			do:     func(m *Metrics) { m.Duplicate("provision"); m.Duplicate("bind"); m.Duplicate("bind") },
			prefix: "ferry_duplicates",
			want: []string{
				`ferry_duplicates_absorbed_total{verb="bind"} 2`,
				`ferry_duplicates_absorbed_total{verb="provision"} 1`,
			},
		},
		"operations that run": {
			do: func(m *Metrics) {
				m.OperationStarted("instance", "create")
				m.OperationStarted("instance", "create")
				m.OperationStarted("binding", "delete")
				m.OperationEnded("instance", "create", "succeeded", time.Minute)
			},
			prefix: "ferry_operations_running",
			want: []string{
				`ferry_operations_running{kind="binding",verb="delete"} 1`,
				`ferry_operations_running{kind="instance",verb="create"} 1`,
			},
		},
		"operations that ended without a start here": {
			do: func(m *Metrics) {
				m.OperationEnded("instance", "create", "failed", time.Minute)
				m.OperationStarted("instance", "create")
			},
			prefix: "ferry_operations_",
			want: []string{
				`ferry_operations_ended_total{kind="instance",state="failed",verb="create"} 1`,
				`ferry_operations_running{kind="instance",verb="create"} 1`,
			},
		},
		"time of operations": {
			do:     func(m *Metrics) { m.OperationEnded("instance", "delete", "succeeded", 90*time.Second) },
			prefix: "ferry_operation_duration_seconds",
			want: append(buckets("ferry_operation_duration_seconds", `kind="instance",state="succeeded",verb="delete"`,
				"0.1:0 0.5:0 1:0 5:0 15:0 30:0 60:0 120:1 300:1 600:1 1800:1 3600:1 10800:1 21600:1 43200:1 86400:1 +Inf:1"),
				`ferry_operation_duration_seconds_sum{kind="instance",state="succeeded",verb="delete"} 90`,
				`ferry_operation_duration_seconds_count{kind="instance",state="succeeded",verb="delete"} 1`),
		},
		"calls by name and result": {
			do: func(m *Metrics) {
				m.Call("create_instance", "accepted", time.Second)
				m.Call("create_instance", "unknown", time.Minute)
			},
			prefix: "ferry_cloud_foundry_calls_total",
			want: []string{
				`ferry_cloud_foundry_calls_total{call="create_instance",result="accepted"} 1`,
				`ferry_cloud_foundry_calls_total{call="create_instance",result="unknown"} 1`,
			},
		},
		"time of calls": {
			do:     func(m *Metrics) { m.Call("job", "ok", 20*time.Millisecond) },
			prefix: "ferry_cloud_foundry_call_duration_seconds_sum",
			want:   []string{`ferry_cloud_foundry_call_duration_seconds_sum{call="job",result="ok"} 0.02`},
		},
		"audits by result": {
			do:     func(m *Metrics) { m.Audit("completed"); m.Audit("failed"); m.Audit("completed") },
			prefix: "ferry_audits",
			want:   []string{`ferry_audits_total{result="completed"} 2`, `ferry_audits_total{result="failed"} 1`},
		},
		"overdue operations by result": {
			do:     func(m *Metrics) { m.Overdue("restarted", 3); m.Overdue("failed", 0); m.Overdue("failed", -1) },
			prefix: "ferry_overdue",
			want:   []string{`ferry_overdue_operations_total{result="failed"} 0`, `ferry_overdue_operations_total{result="restarted"} 3`},
		},
		"the build that was named last": {
			do:     func(m *Metrics) { m.Build("0.1", "abc", "go1"); m.Build("0.2", "def", "go1.26") },
			prefix: "ferry_build_info",
			want:   []string{`ferry_build_info{commit="def",go_version="go1.26",version="0.2"} 1`},
		},
		"a word that is not UTF-8": {
			do:     func(m *Metrics) { m.Duplicate("a\xffb") },
			prefix: "ferry_duplicates",
			want:   []string{`ferry_duplicates_absorbed_total{verb="a?b"} 1`},
		},
		"nothing yet": {do: func(*Metrics) {}, prefix: "ferry_"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := New()
			tt.do(m)
			if diff := cmp.Diff(tt.want, scrape(t, m, tt.prefix)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// buckets writes the bucket lines of one histogram, told as bound:count.
func buckets(name, labels, counts string) []string {
	var lines []string
	for _, bucket := range strings.Fields(counts) {
		le, n, _ := strings.Cut(bucket, ":")
		lines = append(lines, fmt.Sprintf(`%s_bucket{%s,le="%s"} %s`, name, labels, le, n))
	}
	return lines
}

func TestLabelValuesAreBounded(t *testing.T) {
	t.Parallel()
	m := New()
	for i := range 10 * maxWords {
		m.Duplicate(fmt.Sprint("id-", i))
	}
	lines := scrape(t, m, "ferry_duplicates")
	if len(lines) != maxWords+1 {
		t.Errorf("%d series, want %d", len(lines), maxWords+1)
	}
	want := fmt.Sprintf(`ferry_duplicates_absorbed_total{verb="other"} %d`, 9*maxWords)
	if last := lines[len(lines)-1]; last != want {
		t.Errorf("the rest is %q, want %q", last, want)
	}
}

func TestRuntimeAndProcessAreBeside(t *testing.T) {
	t.Parallel()
	m := New()
	for _, prefix := range []string{"go_goroutines ", "process_resident_memory_bytes "} {
		if lines := scrape(t, m, prefix); len(lines) != 1 {
			t.Errorf("%d samples of %s, want 1", len(lines), prefix)
		}
	}
}

// Two in one process must not meet in a registry.
func TestEachCountsForItself(t *testing.T) {
	t.Parallel()
	first, second := New(), New()
	first.Duplicate("bind")
	if lines := scrape(t, second, "ferry_"); lines != nil {
		t.Errorf("the second has %v", lines)
	}
}

func TestConcurrentUseLosesNothing(t *testing.T) {
	t.Parallel()
	m := New()
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 100 {
				m.OperationStarted("instance", "create")
				m.Request("provision", 202, "accepted", time.Millisecond)
				m.Call("job", "ok", time.Millisecond)
			}
		})
	}
	all.Wait()
	for line, prefix := range map[string]string{
		`ferry_operations_running{kind="instance",verb="create"} 800`:                     "ferry_operations_running",
		`ferry_http_requests_total{outcome="accepted",status="202",verb="provision"} 800`: "ferry_http_requests_total",
		`ferry_cloud_foundry_call_duration_seconds_count{call="job",result="ok"} 800`:     "ferry_cloud_foundry_call_duration_seconds_count",
	} {
		if diff := cmp.Diff([]string{line}, scrape(t, m, prefix)); diff != "" {
			t.Error(diff)
		}
	}
}

// docs/metrics.md is what operators build dashboards on.
func TestDocsListEveryMetric(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	m := New()
	m.Build("0", "0", "0")
	m.Request("bind", 200, "ok", time.Second)
	m.Duplicate("bind")
	m.OperationStarted("binding", "create")
	m.OperationEnded("binding", "create", "succeeded", time.Second)
	m.Call("job", "200", time.Second)
	m.Audit("completed")
	m.Overdue("restarted", 1)
	families, documented := map[string]bool{}, map[string]bool{}
	for _, line := range scrape(t, m, "# TYPE ferry_") {
		families[strings.Fields(line)[2]] = true
	}
	for line := range strings.Lines(string(page)) {
		if name, ok := strings.CutPrefix(line, "| `ferry_"); ok {
			name, _, _ = strings.Cut(name, "`")
			documented["ferry_"+name] = true
		}
	}
	if diff := cmp.Diff(families, documented); diff != "" {
		t.Errorf("-exposed +documented:\n%s", diff)
	}
}
