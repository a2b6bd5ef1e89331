package lambda

import (
	"fmt"
	"math"

	"github.com/ferry-broker/ferry/internal/config"
)

// flight is what one operation does in an hour while Cloud Foundry has not finished it.
type flight struct {
	turns, polls float64
	took         tally
}

// flying is an operation that waits as long as it does at a given age, and a platform
// that asks every ten seconds.
func (a *accounts) flying(waits float64) flight {
	f := flight{turns: 3600 / waits, polls: 3600 / pollEvery.Seconds(), took: newTally()}
	for range int(f.turns) {
		turn := a.counted("create: a tick that changes nothing")
		turn.entered = 3 // Wait, Advance, Done?
		f.took = f.took.add(turn)
	}
	for range int(f.polls) {
		f.took = f.took.add(a.counted("poll of an instance"))
	}
	return f
}

// ages of operations in flight: the longest wait, and five times that after an hour.
func waits() (young, old float64) {
	longest := config.Demo().Polling.Max.Seconds()
	return longest, 5 * longest
}

func (a *accounts) flightTable() string {
	b := titled("operations in flight", "an hour, while younger than one", "of that, polls", "an hour, older", "turns a second", "polls a second", "CF calls a second", "write units a second", "environments busy")
	shortest, longest := waits()
	young, old := a.flying(shortest), a.flying(longest)
	polls := a.price(a.polls(young))
	for _, n := range []float64{1, 100, 10_000} {
		perSecond := func(hourly float64) string { return trim(n * hourly / 3600) }
		row(b, number(n), dollars(n*a.price(young.took)), dollars(n*polls), dollars(n*a.price(old.took)),
			perSecond(young.turns), perSecond(young.polls), perSecond(float64(young.took.calls["CF call"])), perSecond(young.took.writes),
			fmt.Sprint(math.Ceil(n*a.busy(young))))
	}
	fmt.Fprintf(b, "\nA poll costs %s, of which the trace is %s. The configuration, which each environment that is busy reads once a minute, comes on top: %s an hour each.\n",
		dollars(polls/young.polls), dollars(traces.of(sampled)), dollars(secretCalls.of(60)))
	return b.String()
}

// polls are the part of it that the platform causes.
func (a *accounts) polls(f flight) tally {
	all := newTally()
	for range int(f.polls) {
		all = all.add(a.counted("poll of an instance"))
	}
	return all
}

// busy is how many environments one operation keeps busy.
func (a *accounts) busy(f flight) float64 {
	return (f.took.billed["api"] + f.took.billed["poller"]).Seconds() / 3600
}

func trim(n float64) string {
	if n >= 1 {
		return number(math.Round(n))
	}
	return fmt.Sprintf("%.2g", n)
}

func (a *accounts) idleTable() string {
	b := titled("a month of a stack that nobody uses", "quantity", "price")
	month := newTally()
	for range hoursAMonth {
		month = month.add(a.hour)
	}
	for range 30 {
		month = month.add(a.audit)
	}
	fixed := []line{
		{secret, 1}, {alarm, float64(a.alarms)}, {dashboard, float64(a.boards)}, {metric, float64(a.metrics)},
	}
	all := 0.0
	for _, l := range append(billOf(month, a.memory), fixed...) {
		if l.quantity == 0 {
			continue
		}
		all += l.total()
		row(b, l.name, number(l.quantity)+" "+l.unit, dollars(l.total()))
	}
	row(b, "**all**", "", "**"+dollars(all)+"**")
	kept := 10_000 * float64(a.instance+a.key) / gigabyte
	fmt.Fprintf(b, "\nWhat is kept comes on top: 10,000 instances with a binding each are %s GB, %s a month with point-in-time recovery.\n",
		number(kept), dollars(kept*(storage.dollars+recovery.dollars)))
	return b.String()
}
