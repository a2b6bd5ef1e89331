package lambda

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"testing"
)

// price is one of AWS's list prices in us-east-1. docs/aws-cost.md names the sources.
type price struct {
	name    string
	dollars float64
	per     float64
	unit    string
}

func (p price) of(quantity float64) float64 { return quantity * p.dollars / p.per }

const (
	gigabyte = 1 << 30
	// platformLog are the two lines that Lambda writes of an invocation, and
	// accessLog is API Gateway's of a request: both assumed.
	platformLog, accessLog = 1000, 450
	// hoursAMonth are those of a month, as AWS counts.
	hoursAMonth = 730
)

// The prices, by what is used.
var (
	transition  = price{"Step Functions, states entered", 0.025, 1000, "states"}
	gateway     = price{"API Gateway (REST), requests", 3.50, 1e6, "requests"}
	invocation  = price{"Lambda, invocations", 0.20, 1e6, "invocations"}
	compute     = price{"Lambda (arm64), time", 0.0000133334, 1, "GB-s"}
	writes      = price{"DynamoDB on demand, writes", 0.625, 1e6, "units"}
	reads       = price{"DynamoDB on demand, reads", 0.125, 1e6, "units"}
	secretCalls = price{"Secrets Manager, calls", 0.05, 10_000, "calls"}
	logs        = price{"CloudWatch, logs taken in", 0.50, 1, "GB"}
	traces      = price{"X-Ray, traces recorded", 5.00, 1e6, "traces"}
	secret      = price{"Secrets Manager, the secret", 0.40, 1, "a month"}
	alarm       = price{"CloudWatch, alarms", 0.10, 1, "a month"}
	dashboard   = price{"CloudWatch, dashboards", 3.00, 1, "a month"}
	metric      = price{"CloudWatch, metrics of our own", 0.30, 1, "a month"}
	storage     = price{"DynamoDB, storage", 0.25, 1, "GB a month"}
	recovery    = price{"DynamoDB, point-in-time recovery", 0.20, 1, "GB a month"}
)

// line is one of a bill.
type line struct {
	price
	quantity float64
}

func (l line) total() float64 { return l.of(l.quantity) }

func total(bill []line) float64 {
	all := 0.0
	for _, l := range bill {
		all += l.total()
	}
	return all
}

// memory is what a function has, in GB, as template.yaml says.
func memory(t testing.TB) map[string]float64 {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, "template.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	sizes := map[string]float64{}
	for name, resource := range map[string]string{"api": "ApiFunction", "poller": "PollerFunction", "janitor": "JanitorFunction"} {
		found := regexp.MustCompile(`(?s)\n  ` + resource + `:\n.*?MemorySize: (\d+)`).FindSubmatch(text)
		if found == nil {
			t.Fatalf("template.yaml gives %s no memory", resource)
		}
		megabytes, _ := strconv.Atoi(string(found[1])) // digits
		sizes[name] = float64(megabytes) / 1024
	}
	return sizes
}

// sampled is the share of requests and executions that are traced, as long as nobody
// gives TraceSampling another value. The janitor is not traced at all.
const sampled = 0.05

// billOf is what AWS takes for it.
func billOf(took tally, memory map[string]float64) []line {
	invoked, gigabyteSeconds := 0, 0.0
	for name, n := range took.invoked {
		invoked += n
		gigabyteSeconds += took.billed[name].Seconds() * memory[name]
	}
	requests, executions := took.invoked["api"], took.calls["StartExecution"]
	written := took.logged + invoked*platformLog + requests*accessLog
	return []line{
		{transition, float64(took.entered)},
		{gateway, float64(requests)},
		{invocation, float64(invoked)},
		{compute, gigabyteSeconds},
		{writes, took.writes},
		{reads, took.reads},
		{secretCalls, float64(took.calls["GetSecretValue"])},
		{logs, float64(written) / gigabyte},
		{traces, sampled * float64(requests+executions)},
	}
}

// dollars prints a small amount with three digits that count.
func dollars(d float64) string {
	switch {
	case d == 0:
		return "0"
	case d < 0.00001:
		return fmt.Sprintf("$%.7f", d)
	case d < 0.01:
		return fmt.Sprintf("$%.6f", d)
	default:
		return fmt.Sprintf("$%.2f", d)
	}
}

// mark is what a life has to stay below whose operations are done quickly.
const mark = 0.0005

func TestThePriceOfALife(t *testing.T) {
	t.Parallel()
	bill := billOf(sum(newLife(t).life(quick, false)), memory(t))
	for _, l := range bill {
		t.Logf("%-32s %10.4f  %s", l.name, l.quantity, dollars(l.total()))
	}
	if total(bill) >= mark {
		t.Errorf("a life costs $%.6f, which is not below $%v", total(bill), mark)
	}
}
