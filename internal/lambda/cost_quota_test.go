package lambda

import (
	"cmp"
	"math"
	"slices"
	"time"
)

// quota is one of a service, and what meets it.
type quota struct {
	name, limit string
	// flying is how many operations in flight meet it, beginning how many that begin
	// each second, for ever.
	flying, beginning float64
	raise             string
}

// quotas are those that an operation in flight uses, and one of five minutes from its
// beginning to its end.
func (a *accounts) quotas() []quota {
	shortest, _ := waits()
	f := a.flying(shortest)
	whole := a.create(5 * time.Minute)
	of := func(perSecond, hourly, each float64) (float64, float64) {
		return perSecond * 3600 / hourly, perSecond / each
	}
	use := func(name, limit, raise string, perSecond, hourly, each float64) quota {
		q := quota{name: name, limit: limit, raise: raise}
		q.flying, q.beginning = of(perSecond, hourly, each)
		return q
	}
	states, requests := float64(whole.entered), float64(whole.invoked["api"])
	busy := (whole.billed["api"] + whole.billed["poller"]).Seconds()
	calls := float64(f.took.calls["CF call"])
	return []quota{
		use("Cloud Controller's rate limiter, where it is on", "2,000 requests an hour for a login, on each process of its API",
			"`cc.rate_limiter.general_limit`, by the operator of Cloud Foundry; or a larger `polling.max`", 2000.0/3600, calls, float64(whole.calls["CF call"])),
		use("the stack's own throttle", number(a.throttle)+" requests/s", "parameters `ThrottleRate` and `ThrottleBurst`", a.throttle, f.polls, requests),
		use("Step Functions, state transitions, most regions", "500/s, bucket 800", "Service Quotas", 500, float64(f.took.entered), states),
		use("Step Functions, state transitions, us-east-1, us-west-2 and eu-west-1", "1,500/s, bucket 5,000", "Service Quotas", 1500, float64(f.took.entered), states),
		use("Step Functions, StartExecution, most regions", "150/s, bucket 800", "Service Quotas", 150, 0, 1),
		use("Step Functions, StartExecution, us-east-1, us-west-2 and eu-west-1", "300/s, bucket 1,300", "Service Quotas", 300, 0, 1),
		use("DynamoDB, a new table on demand", "4,000 write units/s", "warm throughput; it grows by itself with use", 4000, f.took.writes, whole.writes),
		use("DynamoDB, partitions of the index `due`", "1,000 write units/s each, four of them", "more of them: `dueShards` in `internal/dynamo`", 4000, 2*f.turns,
			2*float64(whole.calls["PutItem"])),
		use("Lambda, concurrent invocations", "1,000 for the account", "Service Quotas", 1000, a.busy(f)*3600, busy),
		use("API Gateway", "10,000 requests/s for the account", "Service Quotas", 10_000, f.polls, requests),
		{"Step Functions, open executions", "1,000,000", 1e6, 1e6 / 333, "Service Quotas"},
	}
}

// create is what was counted of a create that takes so long.
func (a *accounts) create(takes time.Duration) tally {
	i := slices.IndexFunc(a.ages, func(g aged) bool { return g.takes == takes })
	return a.ages[i].took
}

// quotaTable has the narrowest first.
func (a *accounts) quotaTable() string {
	all := a.quotas()
	slices.SortFunc(all, func(a, b quota) int { return cmp.Compare(a.beginning, b.beginning) })
	b := titled("quota", "default", "met by so many in flight", "met by so many creates of 5 min that begin", "how to raise it")
	for _, q := range all {
		flying := "-"
		if !math.IsInf(q.flying, 1) {
			flying = number(math.Floor(round(q.flying)))
		}
		rate := number(round(q.beginning)) + " a second"
		if q.beginning < 1 {
			rate = number(round(q.beginning*3600)) + " an hour"
		}
		row(b, q.name, q.limit, flying, rate, q.raise)
	}
	return b.String()
}

// round keeps two digits, downwards: nobody should plan with more.
func round(n float64) float64 {
	if n < 100 {
		return math.Floor(n*10+1e-9) / 10
	}
	scale := math.Pow(10, math.Floor(math.Log10(n))-1)
	return math.Floor(n/scale+1e-9) * scale
}
