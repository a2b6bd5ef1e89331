package lambda

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write the tables of docs/aws-cost.md anew")

// TestCostPage counts everything that the page tells and holds its tables against it.
// Each table stands between two comments that name it; the rest is written by hand.
func TestCostPage(t *testing.T) {
	t.Parallel()
	path := filepath.Join(root, "docs", "aws-cost.md")
	page, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	want := string(page)
	for name, table := range newAccounts(t).tables() {
		block := regexp.MustCompile(`(?s)(<!-- counted: ` + name + ` -->\n).*?(<!-- end -->)`)
		if !block.MatchString(want) {
			t.Errorf("the page has no place for the table %q", name)
		}
		want = block.ReplaceAllStringFunc(want, func(old string) string {
			return block.FindStringSubmatch(old)[1] + table + "<!-- end -->"
		})
	}
	if *update {
		if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(string(page), want); diff != "" {
		t.Errorf("docs/aws-cost.md is stale: make docs (-page +counted):\n%s", diff)
	}
}

// accounts are all that was counted for the page.
type accounts struct {
	memory         map[string]float64
	calls          []costed
	instance, key  int // bytes
	quick, slow    []part
	ages           []aged
	polled         tally // an unbind
	hour, audit    tally
	cold, coldTick tally // init alone; a tick after it
	minute         tally
	alarms, boards int
	metrics        int
	throttle       float64
}

// aged is a create that takes so long.
type aged struct {
	takes time.Duration
	took  tally
}

func newAccounts(t *testing.T) *accounts {
	t.Helper()
	a := &accounts{memory: memory(t)}
	a.callsOf(newStack(t, 24*time.Hour))
	a.coldOf(newStack(t, time.Minute))
	s := newLife(t)
	a.quick, a.slow = s.life(quick, true), s.life(5*time.Minute, true)
	s.create(quick)
	s.bind(quick)
	a.polled = s.polledUnbind(quick)
	s.remove(quick)
	a.hour, a.audit = s.hour(), s.counted(func() { s.sweep(TaskAudit) })
	for _, d := range []time.Duration{2 * time.Second, 10 * time.Second, 30 * time.Second, time.Minute, 5 * time.Minute, 30 * time.Minute} {
		s.clock.pass(time.Hour)
		s.ask(200, "GET", "/v2/catalog", "")
		a.ages = append(a.ages, aged{d, s.create(d)})
		s.remove(quick)
	}
	a.resources(t)
	return a
}

func (a *accounts) callsOf(s *stack) {
	s.Helper()
	s.warm()
	for _, c := range s.calls() {
		c.took = s.count(c)
		a.calls = append(a.calls, c)
	}
	a.instance, a.key = s.meter.weights()
}

// coldOf counts what an environment takes before its first event, and its first tick.
// The secret has been read by then: that is one call more.
func (a *accounts) coldOf(s *stack) {
	s.Helper()
	if n := s.meter.take().calls["GetSecretValue"]; n != 3 {
		s.Errorf("three environments read the secret %d times", n)
	}
	s.sweep(TaskRound)
	a.cold = s.counted(func() { s.api.prepare(s.Context()) })
	s.poller.prepare(s.Context())
	if first := s.counted(func() { s.ask(200, "GET", "/v2/catalog", "") }); first.String() != "nothing" {
		s.Errorf("the first request after init calls %v", first)
	}
	s.ask(202, "PUT", at(instanceID)+async, provisionBody(small))
	a.coldTick = s.counted(s.turn)
	s.finish()
	s.clock.pass(time.Minute)
	a.minute = s.counted(func() { s.ask(200, "GET", "/v2/catalog", "") })
}

// resources counts what is paid for by the month.
func (a *accounts) resources(t *testing.T) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, "template.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	of := func(kind string) int { return strings.Count(string(text), "Type: AWS::"+kind+"\n") }
	a.alarms, a.boards, a.metrics = of("CloudWatch::Alarm"), of("CloudWatch::Dashboard"), of("Logs::MetricFilter")
	if !regexp.MustCompile(fmt.Sprintf(`\n  TraceSampling:\n    Type: Number\n    Default: %v\n`, sampled)).Match(text) {
		t.Errorf("template.yaml does not sample %v of the traces", sampled)
	}
	if rate := regexp.MustCompile(`\n  ThrottleRate:\n    Type: Number\n    Default: (\d+)`).FindSubmatch(text); rate != nil {
		a.throttle, _ = strconv.ParseFloat(string(rate[1]), 64) // digits
	}
	if a.throttle == 0 || a.alarms == 0 || a.boards == 0 || a.metrics == 0 {
		t.Errorf("template.yaml has %d alarms, %d dashboards, %d metrics, a throttle at %v: is it read rightly?", a.alarms, a.boards, a.metrics, a.throttle)
	}
}

// titled begins a table.
func titled(columns ...string) *strings.Builder {
	var b strings.Builder
	row(&b, columns...)
	b.WriteString("|---" + strings.Repeat("|--:", len(columns)-1) + "|\n")
	return &b
}

func row(b *strings.Builder, cells ...string) {
	fmt.Fprintf(b, "| %s |\n", strings.Join(cells, " | "))
}

// number prints a quantity with as many digits as it needs.
func number(n float64) string {
	switch {
	case n == float64(int(n)):
		return thousands(fmt.Sprint(int(n)))
	case n < 0.01:
		return fmt.Sprintf("%.6f", n)
	case n < 1000:
		return strings.TrimSuffix(fmt.Sprintf("%.2f", n), "0")
	default:
		return thousands(fmt.Sprintf("%.0f", n))
	}
}

// thousands puts commas between digits.
func thousands(digits string) string {
	if len(digits) <= 3 {
		return digits
	}
	return thousands(digits[:len(digits)-3]) + "," + digits[len(digits)-3:]
}
