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

	"github.com/ferry-broker/ferry/internal/broker"
	"github.com/ferry-broker/ferry/internal/config"
	"github.com/ferry-broker/ferry/internal/lifecycle"
	"github.com/ferry-broker/ferry/internal/setup"
	"github.com/ferry-broker/ferry/internal/sfn"
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
	// statesOfTurn are the task, the choice, and either the Wait before the next turn or the end.
	statesOfTurn = 3
	// pollEvery is how often a platform asks.
	pollEvery = 10 * time.Second
	// young is how long an operation counts as young: so long rounds repeat.
	young = 5 * time.Minute
	// dueAfter is how long after its request an operation is due, and early how long before that a round looks at it.
	dueAfter, early = 20 * time.Second, 10 * time.Second
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

// costs are all kinds of requests, ticks and tasks, what template.yaml says besides, and settings.
type costs struct {
	kinds []kind
	// traced is the share of requests and executions that are traced, and configured how often the secret is read.
	traced     float64
	configured time.Duration
	// obeys: the platform asks no sooner than Retry-After says.
	obeys bool
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
	u[traces] = c.traced * float64(took.calls["StartExecution"])
	if took.function == "api" {
		u[requests] = n
		u[logs] += n * accessLog / gigabyte
		u[traces] += c.traced * n
	}
	u[seconds] = took.ran.Seconds()
	return u
}

// minus is the difference.
func (u usage) minus(v usage) usage { return sum(u, v.times(-1)) }

// course is how one operation runs. Times are those since its request.
type course struct {
	takes, now, ended time.Duration
	// busy: younger operations are in flight all the time, so that every round repeats.
	busy bool
	// turns, ticks and asked (how often it asked when rounds look) are the execution's, which stayed so long.
	turns, ticks, asked int
	stayed              time.Duration
	// began is when the last round began, which has looked so often; mine says that it found the operation.
	began time.Duration
	looks int
	mine  bool
	// repeated and single are the rounds that found it, by whether they repeat for it.
	repeated, single int
	// swept: a round has seen the end.
	swept bool
	notes // what else it has is not asked for
}

func pace() lifecycle.Pace {
	return lifecycle.Pace{First: config.Demo().Polling.First, Max: longestWait()}
}

func lookEvery() time.Duration { return broker.LooksEvery(longestWait()) }

// Advance is a tick of the execution.
func (o *course) Advance(context.Context, broker.Key, string) (broker.Step, error) {
	o.ticks++
	if o.now >= o.takes || o.swept {
		return broker.Step{Done: true}, nil
	}
	return broker.Step{Wait: pace().Wait(o.now)}, nil
}

// LastRound is what the execution reads before it hands the operation over.
func (o *course) LastRound(context.Context) (broker.RoundNote, error) {
	o.asked++
	return broker.RoundNote{Began: o.at(o.began), Repeats: o.busy || o.mine && o.began < young}, nil
}

func (*course) at(d time.Duration) time.Time { return time.Time{}.Add(time.Hour + d) }

func (o *course) sleep(_ context.Context, d time.Duration) error {
	o.now, o.stayed = o.now+d, o.stayed+d
	return nil
}

// run takes the operation from its request to its end, the execution with the poller's own code. The first round begins
// at first.
func (o *course) run(first time.Duration) {
	o.began, o.looks = first-broker.RoundEvery, 1
	parts := setup.Parts{Now: func() time.Time { return o.at(o.now) }}
	p, tick := &Poller{core: &core{notes: o, parts: parts}, sleep: o.sleep}, sfn.Tick{Swept: true}
	for !tick.HandedOver {
		o.turns++
		step, _ := p.advance(context.Background(), o, broker.Key{}, "") // never fails
		if o.rounds(o.now); step.Done {
			if !o.swept {
				o.ended = o.now
			}
			return
		}
		if tick = p.leave(context.Background(), tick, step, lookEvery()); !tick.HandedOver {
			o.now += time.Duration(tick.WaitSeconds) * time.Second
			o.rounds(o.now)
		}
	}
	o.rounds(math.MaxInt64)
}

// rounds look until then, or until one sees the end.
func (o *course) rounds(until time.Duration) {
	for !o.swept {
		next := o.began + time.Duration(o.looks)*lookEvery()
		begins := o.began >= young || !o.busy && !o.mine || next > o.began+broker.RoundTime
		if begins {
			next = o.began + broker.RoundEvery
		}
		if next > until {
			return
		}
		if o.looks++; begins {
			o.began, o.looks, o.mine = next, 1, next >= 0
		}
		ends := next >= dueAfter-early && next >= o.takes
		switch {
		case !begins || !o.mine:
		case next < young && !ends:
			o.repeated++
		default:
			o.single++
		}
		if ends {
			o.swept, o.ended = true, next
		}
	}
}

// operation is one that takes so long, from its request to the poll that sees its end, on average over the times at
// which the first round may begin. verb and first name its rows. It is alone in flight, or one of so many that are
// younger than five minutes at any time, and that begin at a steady rate; own is without what rounds use.
func (c costs) operation(verb, first string, takes time.Duration, together float64) (own, all usage) {
	const phases = 60
	for phase := range phases {
		o := &course{takes: takes, busy: together > 1}
		o.run(time.Duration(phase) * broker.RoundEvery / phases)
		u := c.beside(verb, first, o, together)
		own, all = sum(own, u), sum(all, u, c.swept(o, together))
	}
	return own.times(1. / phases), all.times(1. / phases)
}

// beside is what the operation uses beside rounds.
func (c costs) beside(verb, first string, o *course, together float64) usage {
	idle, last := c.of(verb+": a tick that changes nothing"), c.of(verb+": last tick")
	ticks := sum(c.of(verb+": "+first), idle.times(float64(o.ticks-1)), last.minus(idle))
	if o.swept { // its last tick was part of a round, which counts its calls and time
		for _, item := range []int{invocations, gigabyteSeconds, seconds, foundry} {
			ticks[item] -= last[item] - idle[item]
		}
	}
	if verb == "create" && (o.ticks > 2 || o.swept) {
		ticks = sum(ticks, c.of("create: a tick that sees the row first").minus(idle))
	}
	notes := c.of("create: a tick that hands over").minus(c.of("create: a tick that changes nothing")).times(float64(o.asked))
	u := sum(c.of(verb+", accepted"), ticks, notes, c.polls(o.ended, together), c.reads().times(float64(o.turns)))
	// The ticks of one turn are one invocation, which lasts until the last of them has ended.
	u[invocations] -= float64(o.ticks - o.turns)
	u[logs] -= float64(o.ticks-o.turns) * platformLog / gigabyte
	u[gigabyteSeconds] += o.stayed.Seconds() * c.memory["poller"]
	u[seconds] += o.stayed.Seconds()
	u[states] = float64(o.turns * statesOfTurn)
	return u
}

// polls are the platform's, until one sees the end, which came at ended.
func (c costs) polls(ended time.Duration, together float64) usage {
	n := 1.
	for at := pollEvery; at < ended; n++ {
		wait := time.Duration(0)
		switch {
		case !c.obeys:
		case at >= dueAfter && at < young:
			wait = lookEvery()
		default:
			wait = pace().Wait(at)
		}
		at += max(wait, pollEvery)
	}
	return sum(c.of("poll of an instance").times(n), c.reads().times(ended.Seconds()/c.configured.Seconds()/together))
}

// reads is what an environment takes that reads the configuration anew.
func (c costs) reads() usage {
	u := c.of("request that is the first after a minute (a catalog)").minus(c.of("catalog"))
	u[logs] = 0
	return u
}

// swept is what rounds use for the operation: all that is more than a round with nothing due when it is alone, or its
// share.
func (c costs) swept(o *course, together float64) usage {
	if together == 1 {
		return sum(c.round(1, 0).times(float64(o.repeated)), c.round(0, 1).times(float64(o.single)))
	}
	older := max(0, o.ended-young).Minutes()
	u := c.round(together, 0).times(min(o.ended, young).Minutes() / together)
	if older > 0 {
		n := together * older / young.Minutes()
		u = sum(u, c.round(0, n).times(older/n))
	}
	return u
}

// round is what a round uses above one with nothing due, with so many operations in flight that are younger than five
// minutes and so many that are older, up to an hour.
func (c costs) round(younger, older float64) usage {
	return sum(c.waiting("younger than 5 min", younger), c.waiting("older than 5 min", older))
}

// waiting interpolates between one operation and 1,000. Above, lists are full, and fewer for each operation.
func (c costs) waiting(age string, n float64) usage {
	if n == 0 {
		return usage{}
	}
	one, many := c.of("janitor's round: one waits, "+age), c.of("janitor's round: 1,000 wait, "+age)
	u := sum(one, many.minus(one).times((n-1)/999), c.of("janitor's round with nothing due").times(-1))
	if n > 1000 {
		u[foundry] = many[foundry] / mostLists * (mostLists + (n-1000)/9000*(mostListsOfTenThousand-mostLists))
	}
	return u
}

// held is a bind or unbind that is held until it is done: no execution is started for it.
func (c costs) held(verb string) usage { return c.of(verb + ", held for 2 s until it is done") }

// TestCostPage counts everything that the page tells, holds it against what it may cost, and the page's tables against
// it. Each table stands between two comments that name it; the rest is written by hand.
func TestCostPage(t *testing.T) {
	t.Parallel()
	if raced > 1 {
		t.Skip("too slow under the race detector: make in-flight runs it without")
	}
	c := costs{kinds: counts(t), traced: sampled, configured: time.Minute}
	c.readTemplate(t)
	tables := map[string]string{
		"prices": priceTable(), "assumed": assumed(), "calls": c.callTable(), "life": c.lifeTable(t), "flight": c.flightTable(t), "few": c.fewInFlight(t), "repeat": c.repeating(), "quotas": c.quotaTable(), "idle": c.idleTable(t),
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
	half := len(all) / 2
	return "  " + strings.Join(all[:half], ", ") + ",\n  " + strings.Join(all[half:], ", ") + ".\n"
}

// lean are the costs with settings that save: nothing is traced, the configuration is read each five minutes, and the
// platform obeys Retry-After.
func (c costs) lean() costs {
	c.traced, c.configured, c.obeys = 0, 5*time.Minute, true
	return c
}

const (
	quick = 2 * time.Second
	slow  = 5 * time.Minute
)

// ceiling is what an operation may cost that is one of ten, in dollars.
var ceiling = map[string]struct{ standard, lean float64 }{
	"create that takes 5m":                                {0.0006, 0.0003},
	"create that takes 30m":                               {0.0023, 0.0005},
	"**the shortest life**: create, bind, unbind, delete": {0.0004, 0.0004},
}

// lifeTable has each operation alone, as one of ten and of 1,000, with standard settings and lean ones.
func (c costs) lifeTable(t *testing.T) string {
	t.Helper()
	b := titled("what happens", "requests", "states entered", "CF calls", "Lambda", "alone", "one of ten", "one of 1,000", "lean, alone", "lean, one of ten", "lean, one of 1,000")
	row := func(name string, of func(c costs, together float64) usage) {
		alone := of(c, 1)
		cells := []string{name, number(alone[requests]), number(alone[states]), number(alone[foundry]), fmt.Sprintf("%.0f s", alone[seconds])}
		for _, c := range []costs{c, c.lean()} {
			for _, together := range []float64{1, 10, 1000} {
				price := of(c, together).price()
				cells = append(cells, dollars(price))
				most := ceiling[name].standard
				if c.obeys {
					most = ceiling[name].lean
				}
				if most > 0 && together == 10 && price > most {
					t.Errorf("%s costs %s as one of ten, more than $%v", name, dollars(price), most)
				}
			}
		}
		b.row(cells...)
	}
	operation := func(verb, first string, takes time.Duration) func(costs, float64) usage {
		return func(c costs, together float64) usage {
			_, all := c.operation(verb, first, takes, together)
			return all
		}
	}
	create := func(takes time.Duration) func(costs, float64) usage {
		return operation("create", "first tick (POST)", takes)
	}
	update, remove := operation("update", "first tick (PATCH)", quick), operation("delete", "next tick (DELETE)", quick)
	held := func(verb string) func(costs, float64) usage {
		return func(c costs, _ float64) usage { return c.held(verb) }
	}
	together := func(all ...func(costs, float64) usage) func(costs, float64) usage {
		return func(c costs, n float64) (u usage) {
			for _, of := range all {
				u = sum(u, of(c, n))
			}
			return u
		}
	}
	for _, takes := range []time.Duration{quick, 10 * time.Second, 25 * time.Second, time.Minute, slow, 30 * time.Minute, time.Hour} {
		row("create that takes "+short(takes), create(takes))
	}
	row("update that takes 2s", update)
	row("delete that takes 2s", remove)
	row("bind, held for 2s", held("bind"))
	row("unbind, held for 2s", held("unbind"))
	row("**the shortest life**: create, bind, unbind, delete", together(create(quick), held("bind"), held("unbind"), remove))
	row("the same with an update, and a create that takes 5m", together(create(slow), held("bind"), update, held("unbind"), remove))
	return b.String()
}

// short prints no parts that are nought.
func short(d time.Duration) string {
	return strings.Replace(strings.Replace(d.String(), "m0s", "m", 1), "h0m", "h", 1)
}

// longestWait is how long an operation waits between two looks while it is younger than an hour.
func longestWait() time.Duration { return config.Demo().Polling.Max }

// flightTable has what so many use in flight, by their age, and at a steady rate of creates.
func (c costs) flightTable(t *testing.T) string {
	t.Helper()
	held := []string{"younger than 5 min", "older than 5 min", "older than an hour", "creates of 30 min"} // to the ceilings
	b := titled("in flight", "which", "CF calls/s for those in flight", "and for those that begin", "states/s", "Lambda, at once", "rounds, an hour", "all, with polls each 10 s, an hour")
	row := func(n float64, which string, perSecond, begin usage) {
		polls := c.of("poll of an instance").times(n / pollEvery.Seconds())
		all := sum(perSecond, polls, begin)
		b.row(number(n), which, number(perSecond[foundry]), number(begin[foundry]), number(begin[states]), number(all[seconds]),
			dollars(perSecond.times(3600).price()), dollars(all.times(3600).price()))
		if slices.Contains(held, which) && (perSecond[foundry] > 3 || begin[states] > 20) {
			t.Errorf("%v in flight, %s: %v calls of Cloud Foundry and %v states a second", n, which, perSecond[foundry], begin[states])
		}
	}
	for _, n := range []float64{100, 1000, 10_000} {
		row(n, "younger than 5 min", c.round(n, 0).times(1./60), usage{})
		row(n, "older than 5 min", c.round(0, n).times(1./60), usage{})
		row(n, "older than an hour", sum(c.round(0, n).times(75./300), c.waiting("older than an hour, not their turn", n).times(225./300)).times(1./60), usage{})
		for _, takes := range []time.Duration{slow, 30 * time.Minute} {
			begin := c.steady(takes, n)
			younger := n * min(1, young.Seconds()/takes.Seconds())
			row(n, fmt.Sprintf("creates of %.0f min", takes.Minutes()), c.round(younger, n-younger).times(1./60), begin)
		}
	}
	return b.String()
}

// fewInFlight is what a create of 30 minutes costs when ten are in flight in all, of which not two are young.
func (c costs) fewInFlight(t *testing.T) string {
	t.Helper()
	const takes = 30 * time.Minute
	_, u := c.operation("create", "first tick (POST)", takes, 10*young.Seconds()/takes.Seconds())
	_, lean := c.lean().operation("create", "first tick (POST)", takes, 10*young.Seconds()/takes.Seconds())
	if u.price() > ceiling["create that takes 30m"].standard {
		t.Errorf("a create that takes %v costs %s as one of ten in flight", takes, dollars(u.price()))
	}
	return fmt.Sprintf("%s, with lean settings %s.\n", dollars(u.price()), dollars(lean.price()))
}

// repeating is what rounds cost that repeat all the time.
func (c costs) repeating() string {
	u := c.of("janitor's round: one waits, younger than 5 min")
	const month = 730 * 60
	return fmt.Sprintf("A round that repeats for one operation lasts %.0f s and costs %s. All rounds of a month would cost %s if each of\nthem repeated.\n",
		u[seconds], dollars(u.price()), dollars(u.times(month).price()))
}

// steady is what creates that take so long use in a second beside rounds and polls, of which n are in flight.
func (c costs) steady(takes time.Duration, n float64) usage {
	own, _ := c.operation("create", "first tick (POST)", takes, n)
	polls := c.of("poll of an instance").times(own[requests] - 1)
	return own.minus(polls).times(n / takes.Seconds())
}

// quotaTable has the narrowest first: how many operations in flight meet it, and how many creates of five minutes that
// begin at a steady rate.
func (c costs) quotaTable() string {
	wait := sum(c.round(0, 1000).times(60./1000), c.of("poll of an instance").times(float64(time.Hour/pollEvery)))
	_, whole := c.operation("create", "first tick (POST)", slow, 1000)
	b := titled("quota", "default", "met by so many that wait", "met by so many creates of 5 min that begin in an hour", "how to raise it")
	for _, q := range []struct {
		name, limit string
		perSecond   float64
		item        int
		raise       string
	}{
		{"Cloud Controller's rate limiter, where it is on", "2,000 requests an hour for a login, on each process of its API", 2000.0 / 3600, foundry,
			"`cc.rate_limiter.general_limit`, by the operator of Cloud Foundry"},
		{"the stack's own throttle", number(c.throttle) + " requests/s", c.throttle, requests, "parameters `ThrottleRate` and `ThrottleBurst`"},
		{"Step Functions, state transitions, most regions", "500/s, bucket 800", 500, states, "Service Quotas"},
		{"Lambda, concurrent invocations", "1,000 for the account", 1000, seconds, "Service Quotas"},
		{"DynamoDB, a new table on demand", "4,000 write units/s", 4000, writes, "warm throughput; it grows by itself with use"},
		{"Step Functions, state transitions, us-east-1, us-west-2 and eu-west-1", "1,500/s, bucket 5,000", 1500, states, "Service Quotas"},
	} {
		met := func(u usage) string {
			if u[q.item] < 1e-9 {
				return "none"
			}
			return number(round(q.perSecond * 3600 / u[q.item]))
		}
		b.row(q.name, q.limit, met(wait), met(whole), q.raise)
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
	case d < 0.1:
		return fmt.Sprintf("$%.3f", d)
	default:
		return fmt.Sprintf("$%.2f", d)
	}
}
