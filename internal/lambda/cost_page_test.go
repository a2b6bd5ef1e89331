package lambda

import (
	"context"
	"flag"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ferry-broker/ferry/internal/config"
	"github.com/ferry-broker/ferry/internal/lifecycle"
	"github.com/ferry-broker/ferry/internal/setup"
)

var update = flag.Bool("update", false, "write the tables of docs/aws-cost.md anew")

// What AWS bills for, in the order of prices. The last two have no price.
const (
	states = iota
	requests
	invocations
	gigabyteSeconds
	writes
	reads
	secretCalls
	logs
	traces
	foundry // calls of Cloud Foundry
	seconds // of functions, which bound how many run at once
	items
)

// prices are AWS's list prices in us-east-1, for so many of a unit. docs/aws-cost.md names the sources.
var prices = [items]struct {
	name          string
	dollars, each float64
	unit          string
}{
	{"Step Functions, states entered", 0.025, 1000, "states"},
	{"API Gateway (REST), requests", 3.50, 1e6, "requests"},
	{"Lambda, invocations", 0.20, 1e6, "invocations"},
	{"Lambda (arm64), time", 13.3334, 1e6, "GB-s"},
	{"DynamoDB on demand, writes", 0.625, 1e6, "units"},
	{"DynamoDB on demand, reads", 0.125, 1e6, "units"},
	{"Secrets Manager, calls", 0.05, 10_000, "calls"},
	{"CloudWatch, logs taken in", 0.50, 1, "GB"},
	{"X-Ray, traces recorded", 5.00, 1e6, "traces"},
}

const (
	// platformLog are the two lines that Lambda writes of an invocation, and accessLog is API Gateway's of a request:
	// both assumed.
	platformLog, accessLog = 1000, 450
	// sampled is the share of requests and executions that are traced, as long as nobody gives TraceSampling another
	// value. The janitor is not traced at all.
	sampled  = 0.05
	gigabyte = 1 << 30
	// statesOfTurn are the Wait, the task and the choice.
	statesOfTurn = 3
	// pollEvery is how often a platform asks.
	pollEvery = 10 * time.Second
)

// usage is how much of each is used.
type usage [items]float64

func (u usage) price() float64 {
	sum := 0.0
	for item, p := range prices[:foundry] {
		sum += u[item] * p.dollars / p.each
	}
	return sum
}

func sum(all ...usage) (total usage) {
	for _, u := range all {
		for item, n := range u {
			total[item] += n
		}
	}
	return total
}

func (u usage) times(n float64) usage {
	for item := range u {
		u[item] *= n
	}
	return u
}

// costs are all kinds of requests, ticks and tasks, and what template.yaml says besides.
type costs struct {
	kinds []kind
	// memory is what a function has, in GB.
	memory map[string]float64
	// throttle is how many requests a second the stack takes.
	throttle float64
	// fixed is how many the stack has of what is paid for by the month.
	fixed []float64
}

// monthly are the prices of what is there, by the kinds of the template's resources.
var monthly = []struct {
	name, kind string
	dollars    float64
}{
	{"Secrets Manager, secrets", "SecretsManager::Secret", 0.40},
	{"CloudWatch, alarms", "CloudWatch::Alarm", 0.10},
	{"CloudWatch, dashboards", "CloudWatch::Dashboard", 3.00},
	{"CloudWatch, metrics of our own", "Logs::MetricFilter", 0.30},
}

// of is what one of a kind uses. The states that an execution enters are not known here.
func (c costs) of(name string) (u usage) {
	took := c.kinds[slices.IndexFunc(c.kinds, func(k kind) bool { return k.name == name })].took
	n := float64(took.invoked)
	u[invocations], u[reads], u[writes], u[foundry] = n, took.reads, took.writes, float64(took.foundry)
	u[gigabyteSeconds] = took.ran.Seconds() * c.memory[took.function]
	u[secretCalls] = float64(took.calls["GetSecretValue"])
	u[logs] = (float64(took.logged) + n*platformLog) / gigabyte
	u[traces] = sampled * float64(took.calls["StartExecution"])
	if took.function == "api" {
		u[requests] = n
		u[logs] += n * accessLog / gigabyte
		u[traces] += sampled * n
	}
	if took.function != "janitor" {
		u[seconds] = took.ran.Seconds()
	}
	return u
}

// operation is one that takes so long, from its request to the poll that sees its end. verb and first name its rows.
func (c costs) operation(verb, first string, takes time.Duration) (u usage, turns int) {
	turns, ticks, stayed, ends := paced(takes)
	idle := c.of(verb + ": a tick that changes nothing").times(float64(ticks - 2))
	polls := c.of("poll of an instance").times(float64(ends/pollEvery + 1))
	u = sum(c.of(verb+", accepted"), c.of(verb+": "+first), idle, c.of(verb+": last tick"), polls)
	// The ticks of one turn are one invocation, which lasts until the last of them has ended.
	u[invocations] -= float64(ticks - turns)
	u[logs] -= float64(ticks-turns) * platformLog / gigabyte
	u[gigabyteSeconds] += stayed.Seconds() * c.memory["poller"]
	u[seconds] += stayed.Seconds()
	u[states] = float64(turns*statesOfTurn + 1)
	return u, turns
}

// paced is how an operation is looked at that Cloud Foundry finishes after so long: in how many turns of the state
// machine, with how many ticks, how long the poller stays in all, and when the end is seen.
func paced(takes time.Duration) (turns, ticks int, stayed, ends time.Duration) {
	pace := lifecycle.Pace{First: config.Demo().Polling.First, Max: longestWait()}
	var began time.Time
	p := &Poller{core: &core{parts: setup.Parts{Now: func() time.Time { return began.Add(ends) }}}}
	turns, ticks = 1, 1
	for turn := began; ends < takes; ticks++ {
		wait := max(time.Second, (pace.Wait(ends) + time.Second - 1).Truncate(time.Second)) // as sfn.Tick rounds
		stays := p.stays(context.Background(), turn, wait)
		if ends += wait; stays {
			stayed += wait
		} else {
			turn, turns = began.Add(ends), turns+1
		}
	}
	return turns, ticks, stayed, ends
}

// held is a bind or unbind that is held until it is done: its execution is stopped after its first state.
func (c costs) held(verb string) usage {
	u := c.of(verb + ", held for 2 s until it is done")
	u[states] = 1
	return u
}

// hour is what an operation in flight uses in an hour in which it is looked at in such intervals, and a platform asks.
func (c costs) hour(every time.Duration) usage {
	turn := c.of("create: a tick that changes nothing")
	turn[states] = statesOfTurn
	return sum(turn.times(float64(time.Hour/every)), c.of("poll of an instance").times(float64(time.Hour/pollEvery)))
}

// TestCostPage counts everything that the page tells, holds it against what it may cost, and the page's tables against
// it. Each table stands between two comments that name it; the rest is written by hand.
func TestCostPage(t *testing.T) {
	t.Parallel()
	c := costs{kinds: counts(t)}
	c.readTemplate(t)
	tables := map[string]string{
		"prices": priceTable(), "assumed": assumed(), "calls": c.callTable(), "life": c.lifeTable(t), "quotas": c.quotaTable(), "idle": c.idleTable(t),
	}
	path := filepath.Join(root, "docs", "aws-cost.md")
	page, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	want := string(page)
	for name, table := range tables {
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

func (c *costs) readTemplate(t *testing.T) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, "template.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	number := func(expression string) float64 {
		found := regexp.MustCompile(expression).FindSubmatch(text)
		if found == nil {
			t.Fatalf("template.yaml has nothing like %s", expression)
		}
		n, _ := strconv.ParseFloat(string(found[1]), 64) // digits
		return n
	}
	c.memory = map[string]float64{}
	for name, resource := range map[string]string{"api": "ApiFunction", "poller": "PollerFunction", "janitor": "JanitorFunction"} {
		c.memory[name] = number(`(?s)\n  `+resource+`:\n.*?MemorySize: (\d+)`) / 1024
	}
	c.throttle = number(`\n  ThrottleRate:\n    Type: Number\n    Default: (\d+)`)
	if rate := number(`\n  TraceSampling:\n    Type: Number\n    Default: ([\d.]+)\n`); rate != sampled {
		t.Errorf("template.yaml samples %v of the traces", rate)
	}
	for _, m := range monthly {
		c.fixed = append(c.fixed, float64(strings.Count(string(text), "Type: AWS::"+m.kind+"\n")))
	}
	if slices.Contains(c.fixed, 0) {
		t.Errorf("template.yaml has %v of what is paid for by the month: is it read rightly?", c.fixed)
	}
}

func (c costs) callTable() string {
	b := titled("what happens", "calls of AWS", "CF calls", "read units", "write units", "bytes logged", "price")
	for _, k := range c.kinds {
		b.row(k.name, k.took.String(), number(float64(k.took.foundry)), number(k.took.reads), number(k.took.writes),
			number(float64(k.took.logged)), dollars(c.of(k.name).price()))
	}
	return b.String()
}

func priceTable() string {
	b := titled("what", "list price in us-east-1")
	for _, p := range prices[:foundry] {
		b.row(p.name, fmt.Sprintf("$%v for %s %s", p.dollars, number(p.each), p.unit))
	}
	for _, m := range monthly {
		b.row(m.name, dollars(m.dollars)+" each a month")
	}
	return b.String()
}

func assumed() string {
	var all []string
	for _, call := range slices.Sorted(maps.Keys(lasting)) {
		all = append(all, fmt.Sprintf("%s %v", call, lasting[call]))
	}
	return strings.Join(all, ", ") + ".\n"
}

const (
	// mark is what a life has to stay below whose operations are done quickly, once a worker of the Cloud Controller
	// comes.
	mark  = 0.0005
	quick = 2 * time.Second
	slow  = 5 * time.Minute
)

// mostTurns are how many turns of the state machine a create may take.
var mostTurns = map[time.Duration]int{quick: 1, 10 * time.Second: 1, 30 * time.Second: 3, time.Minute: 5, slow: 9, 30 * time.Minute: 34}

func (c costs) lifeTable(t *testing.T) string {
	t.Helper()
	b := titled("what happens", "requests", "states entered", "CF calls", "write units", "Lambda", "price", "of that, Step Functions")
	row := func(name string, u usage) {
		b.row(name, number(u[requests]), number(u[states]), number(u[foundry]), number(u[writes]),
			fmt.Sprintf("%.1f s", u[seconds]), dollars(u.price()), dollars(usage{states: u[states]}.price()))
	}
	creates := map[time.Duration]usage{}
	for _, takes := range slices.Sorted(maps.Keys(mostTurns)) {
		u, turns := c.operation("create", "first tick (POST)", takes)
		if creates[takes] = u; turns > mostTurns[takes] {
			t.Errorf("a create that takes %v takes %d turns of the state machine, want at most %d", takes, turns, mostTurns[takes])
		}
		row("create that takes "+strings.Replace(takes.String(), "m0s", "m", 1), u)
	}
	change, _ := c.operation("update", "first tick (PATCH)", quick)
	remove, _ := c.operation("delete", "next tick (DELETE)", quick)
	bind, unbind := c.held("bind"), c.held("unbind")
	row("update that takes 2s", change)
	row("delete that takes 2s", remove)
	row("bind, held for 2s", bind)
	row("unbind, held for 2s", unbind)
	life := sum(creates[quick], bind, unbind, remove)
	row("**the shortest life**: create, bind, unbind, delete", life)
	row("the same with an update", sum(life, change))
	row("the same with an update, and a create that takes 5m", sum(creates[slow], bind, change, unbind, remove))
	row("an hour in flight, while younger than one", c.hour(longestWait()))
	row("an hour in flight, older", c.hour(5*longestWait()))
	if life.price() >= mark {
		t.Errorf("a life costs %s, which is not below $%v: %v", dollars(life.price()), mark, life)
	}
	return b.String()
}

// longestWait is how long an operation waits between two looks while it is younger than an hour.
func longestWait() time.Duration { return config.Demo().Polling.Max }

// quotaTable has the narrowest first: how many operations in flight meet it, and how many creates of five minutes that
// begin at a steady rate.
func (c costs) quotaTable() string {
	hour := c.hour(longestWait())
	whole, _ := c.operation("create", "first tick (POST)", slow)
	b := titled("quota", "default", "met by so many in flight", "met by so many creates of 5 min that begin in an hour", "how to raise it")
	for _, q := range []struct {
		name, limit string
		perSecond   float64
		item        int
		raise       string
	}{
		{"Cloud Controller's rate limiter, where it is on", "2,000 requests an hour for a login, on each process of its API", 2000.0 / 3600, foundry,
			"`cc.rate_limiter.general_limit`, by the operator of Cloud Foundry; or a larger `polling.max`"},
		{"the stack's own throttle", number(c.throttle) + " requests/s", c.throttle, requests, "parameters `ThrottleRate` and `ThrottleBurst`"},
		{"Step Functions, state transitions, most regions", "500/s, bucket 800", 500, states, "Service Quotas"},
		{"DynamoDB, a new table on demand", "4,000 write units/s", 4000, writes, "warm throughput; it grows by itself with use"},
		{"Step Functions, state transitions, us-east-1, us-west-2 and eu-west-1", "1,500/s, bucket 5,000", 1500, states, "Service Quotas"},
		{"Lambda, concurrent invocations", "1,000 for the account", 1000, seconds, "Service Quotas"},
	} {
		b.row(q.name, q.limit, number(round(q.perSecond*3600/hour[q.item])), number(round(q.perSecond*3600/whole[q.item])), q.raise)
	}
	return b.String()
}

// round keeps two digits, downwards: nobody should plan with more.
func round(n float64) float64 {
	scale := math.Pow(10, math.Floor(math.Log10(n))-1)
	return math.Floor(n/scale+1e-9) * scale
}

func (c costs) idleTable(t *testing.T) string {
	t.Helper()
	b := titled("a month of a stack that nobody uses", "quantity", "price")
	month := sum(c.of("janitor's hour with nothing due").times(730), c.of("janitor's audit of an empty Cloud Foundry").times(30))
	all := month.price()
	b.row("the janitor's calls, time and log", "", dollars(all))
	for i, m := range monthly {
		b.row(m.name, number(c.fixed[i]), dollars(c.fixed[i]*m.dollars))
		all += c.fixed[i] * m.dollars
	}
	b.row("**all**", "", "**"+dollars(all)+"**")
	if all > 7 {
		t.Errorf("a month of a stack that nobody uses costs %s", dollars(all))
	}
	return b.String()
}

// markdown is a table.
type markdown struct{ strings.Builder }

func titled(columns ...string) *markdown {
	b := &markdown{}
	b.row(columns...)
	b.WriteString("|---" + strings.Repeat("|--:", len(columns)-1) + "|\n")
	return b
}

func (b *markdown) row(cells ...string) {
	_, _ = fmt.Fprintf(b, "| %s |\n", strings.Join(cells, " | "))
}

// number prints a quantity with as many digits as it needs.
func number(n float64) string {
	switch {
	case n >= 1000:
		digits := fmt.Sprintf("%.0f", n)
		return number(math.Floor(n/1000)) + "," + digits[len(digits)-3:]
	case n >= 10, n == math.Floor(n):
		return fmt.Sprintf("%.0f", n)
	default:
		return fmt.Sprintf("%.2g", n)
	}
}

// dollars prints an amount with three digits that count.
func dollars(d float64) string {
	switch {
	case d < 0.00001:
		return fmt.Sprintf("$%.7f", d)
	case d < 0.01:
		return fmt.Sprintf("$%.6f", d)
	default:
		return fmt.Sprintf("$%.2f", d)
	}
}
