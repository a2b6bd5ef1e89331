package metrics

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

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
