package lambda

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// tables are the page's, by name.
func (a *accounts) tables() map[string]string {
	return map[string]string{
		"calls": a.callTable(), "beside": a.besideTable(), "sizes": a.sizes(),
		"life": a.lifeTable(), "bill": a.billTable(), "duration": a.durationTable(), "duplicate": a.duplicateTable(),
		"flight": a.flightTable(), "quotas": a.quotaTable(), "idle": a.idleTable(),
		"prices": priceTable(), "assumed": assumedTable(),
	}
}

// ofAWS are the calls of AWS, without Cloud Foundry's.
func ofAWS(t tally) string {
	all := newTally()
	for name, n := range t.calls {
		if !strings.HasPrefix(name, "CF ") {
			all.calls[name] = n
		}
	}
	return all.String()
}

func foundries(t tally) string { return fmt.Sprint(t.calls["CF call"] + t.calls["CF login"]) }

func (a *accounts) price(t tally) float64 { return total(billOf(t, a.memory)) }

func (a *accounts) callTable() string {
	b := titled("what happens", "calls of AWS", "CF calls", "read units", "write units", "bytes logged")
	for _, c := range a.calls {
		row(b, c.name, ofAWS(c.took), foundries(c.took), number(c.took.reads), number(c.took.writes), number(float64(c.took.logged)))
	}
	return b.String()
}

func (a *accounts) besideTable() string {
	b := titled("what happens", "calls of AWS", "CF calls")
	row(b, "start of an environment of the API or of the poller, for one client", "1 GetSecretValue, "+ofAWS(a.cold), foundries(a.cold))
	row(b, "first tick of an environment of the poller (a create in a space that exists not yet)", ofAWS(a.coldTick), foundries(a.coldTick))
	row(b, "once a minute, with the next request that comes", ofAWS(a.minute), foundries(a.minute))
	return b.String()
}

func (a *accounts) sizes() string {
	return fmt.Sprintf("In these lives the record of an instance weighs up to %s bytes, that of a binding %s.\n", number(float64(a.instance)), number(float64(a.key)))
}

func (a *accounts) lifeTable() string {
	b := titled("operation", "requests", "poller's calls", "states entered", "read units", "write units", "CF calls", "Lambda, API", "Lambda, poller", "price")
	for _, l := range []struct {
		name  string
		parts []part
	}{{"done in 2 s", a.quick}, {"5 min (keys: 2 s)", a.slow}} {
		for _, p := range append(l.parts, part{"**all**", sum(l.parts)}) {
			t := p.took
			row(b, p.name+", "+l.name, number(float64(t.invoked["api"])), number(float64(t.invoked["poller"])), number(float64(t.entered)),
				number(t.reads), number(t.writes), foundries(t), t.billed["api"].String(), t.billed["poller"].String(), dollars(a.price(t)))
		}
	}
	return b.String()
}

// shortLife is create, held bind, unbind and delete.
func (a *accounts) shortLife() tally {
	all := newTally()
	for _, p := range a.quick {
		if p.name != "update" {
			all = all.add(p.took)
		}
	}
	return all
}

// otherLife is the same with an unbind that the platform polls.
func (a *accounts) otherLife() tally {
	all := a.polled
	for _, p := range a.quick {
		if p.name != "update" && p.name != "unbind, held" {
			all = all.add(p.took)
		}
	}
	return all
}

func (a *accounts) billTable() string {
	took := a.shortLife()
	bill := billOf(took, a.memory)
	b := titled("of a life that is done quickly", "quantity", "price")
	for _, l := range bill {
		row(b, l.name, number(l.quantity)+" "+l.unit, dollars(l.total()))
	}
	row(b, "**all**", "", "**"+dollars(total(bill))+"**")
	started := transition.of(float64(took.calls["StartExecution"]))
	fmt.Fprintf(b, "\nWith an unbind that the platform polls (`accepts_incomplete=true`) it is %s, with the update %s. ",
		dollars(a.price(a.otherLife())), dollars(a.price(sum(a.quick))))
	fmt.Fprintf(b, "If AWS counted the start of an execution as a transition as well, it would be %s.\n", dollars(total(bill)+started))
	return b.String()
}

func (a *accounts) durationTable() string {
	var b strings.Builder
	fmt.Fprintf(&b, "A turn of the state machine enters three states, %s; a second of the poller costs %s.\n\n",
		dollars(transition.of(3)), dollars(compute.of(a.memory["poller"])))
	b.WriteString(a.durations())
	return b.String()
}

func (a *accounts) durations() string {
	b := titled("a create that takes", "polls", "turns", "states entered", "price", "of that, Step Functions")
	for _, g := range a.ages {
		row(b, g.takes.String(), number(float64(g.took.invoked["api"]-1)), number(float64(g.took.invoked["poller"])),
			number(float64(g.took.entered)), dollars(a.price(g.took)), dollars(transition.of(float64(g.took.entered))))
	}
	return b.String()
}

// counted finds a row of the table of calls.
func (a *accounts) counted(name string) tally {
	for _, c := range a.calls {
		if c.name == name {
			return c.took
		}
	}
	panic("nothing was counted for " + name)
}

func (a *accounts) duplicateTable() string {
	b := titled("a request that is sent again", "calls of AWS", "price")
	for _, name := range []string{
		"the same create again while it runs", "the same create again when it is done", "a create of that id that differs (409)",
		"the same update again while it runs", "the same bind again while it runs", "the same bind again when it is done",
		"the same unbind again while it runs", "the same delete again while it runs", "the same delete again when it is done (410)",
	} {
		row(b, name, ofAWS(a.counted(name)), dollars(a.price(a.counted(name))))
	}
	return b.String()
}

func priceTable() string {
	b := titled("what", "list price in us-east-1")
	for _, p := range []price{transition, gateway, invocation, compute, writes, reads, secretCalls, logs, traces, secret, alarm, dashboard, metric, storage, recovery} {
		text := "$" + strconv.FormatFloat(p.dollars, 'f', -1, 64)
		switch {
		case strings.HasPrefix(p.unit, "a month"):
			text += " each " + p.unit
		case p.per == 1:
			text += " a " + p.unit
		default:
			text += " for " + number(p.per) + " " + p.unit
		}
		row(b, p.name, text)
	}
	return b.String()
}

func assumedTable() string {
	b := titled("call", "taken to last")
	for _, name := range []string{"GetItem", "PutItem", "Query", "StartExecution", "GetSecretValue", "CF call", own} {
		row(b, name, assumed()[name].Round(time.Millisecond).String())
	}
	return b.String()
}
