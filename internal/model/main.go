// Command model checks docs/protocol.md by exhaustive search: every order in which requests, ticks, Cloud Foundry and
// time can do their steps, within the bounds of a scenario. What it finds is a shortest trace to the first state in
// which something is not as it must be.
//
//	go run ./internal/model -scenario life,bind            two scenarios in full
//	go run ./internal/model -brief                         all, in the small worlds of the tests
//	go run ./internal/model -scenario life -without GoneWaits -traces    what breaks without a safeguard
//	go run ./internal/model -mutations                     every safeguard taken away once
//	go run ./internal/model -scenario pages -without AloneWhenTorn -traces -json
//
// rules.go names the safeguards, scenarios.go the worlds, judge.go what must never be. A state is what the store, Cloud
// Foundry and every actor hold at one moment; search.go visits all of them, nearest first, and compares them in full,
// so that nothing is lost to a shared hash. Time is not trusted: anybody may pause anywhere, and the only assumption is
// that an open call expires when nothing of it can take effect any more (world.go).
package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"
)

func main() {
	if err := run(os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "model:", err)
		os.Exit(1)
	}
}

// options are those of the command line.
type options struct {
	without      []string
	most         int
	first, brief bool
	traces, json bool
}

func run(args []string, out io.Writer) error {
	flags := flag.NewFlagSet("model", flag.ContinueOnError)
	names := flags.String("scenario", "", "comma list of scenarios; all when empty")
	without := flags.String("without", "", "comma list of rules to take away")
	mutations := flags.Bool("mutations", false, "run the table of mutations instead: each must break something")
	var o options
	flags.IntVar(&o.most, "states", 40_000_000, "give up a scenario after so many states")
	flags.BoolVar(&o.first, "first", false, "stop a scenario at its first violation")
	flags.BoolVar(&o.brief, "brief", false, "search the small worlds of the tests")
	flags.BoolVar(&o.traces, "traces", false, "print a shortest trace to each property that does not hold")
	flags.BoolVar(&o.json, "json", false, "print one JSON object for each scenario, its traces included with -traces")
	flags.SetOutput(out)
	if err := flags.Parse(args); errors.Is(err, flag.ErrHelp) {
		return nil
	} else if err != nil {
		return err
	}
	o.without = words(*without)
	if *mutations {
		return runMutations(out, o)
	}
	for _, name := range words(*names) {
		if _, err := named(name); err != nil {
			return err
		}
	}
	broken := 0
	for _, sc := range scenarios() {
		if wanted := words(*names); len(wanted) > 0 && !slices.Contains(wanted, sc.Name) {
			continue
		}
		if o.brief && sc.Brief != nil {
			sc.Brief(&sc)
		}
		found, err := runScenario(out, sc, o)
		if err != nil {
			return err
		}
		if found > 0 {
			broken++
		}
	}
	if *names == "" && !o.json {
		broken += runStarts(out)
	}
	if broken > 0 {
		return fmt.Errorf("%d scenarios do not hold", broken)
	}
	return nil
}

func words(list string) []string {
	return strings.FieldsFunc(list, func(r rune) bool { return r == ',' })
}

// runScenario prints one search, and returns how many properties do not hold.
func runScenario(out io.Writer, sc scenario, o options) (int, error) {
	m, err := newModel(sc, o.without...)
	if err != nil {
		return 0, err
	}
	began := time.Now()
	found := m.search(o.most, o.first)
	if o.json {
		return len(found.Found), json.NewEncoder(out).Encode(exported(m, o, found))
	}
	_, err = fmt.Fprintf(out, "%-14s %10d states %11d steps %6.1f s  %s\n", sc.Name, found.States, found.Steps, time.Since(began).Seconds(), found)
	if o.traces {
		for p := range found.all() {
			printTrace(out, p, found.Found[p])
		}
	}
	return len(found.Found), err
}

// runMutations takes away each safeguard once.
func runMutations(out io.Writer, o options) error {
	o.first = true
	unnoticed := 0
	for _, mu := range mutations {
		sc, err := mu.world()
		if err != nil {
			return err
		}
		o.without = mu.without
		if _, err := fmt.Fprintf(out, "without %-30s in ", strings.Join(mu.without, ", ")); err != nil {
			return err
		}
		found, err := runScenario(out, sc, o)
		if err != nil {
			return err
		}
		if found == 0 {
			unnoticed++
		}
	}
	if unnoticed > 0 {
		return fmt.Errorf("%d safeguards are missed by nothing", unnoticed)
	}
	return nil
}

// runStarts prints the model of starts, and returns how many of its cases are not as they should be.
func runStarts(out io.Writer) (wrong int) {
	for _, c := range startCases {
		states, undriven := c.rules.search()
		_, _ = fmt.Fprintf(out, "starts         %10d states, %d of them never driven again: %s\n", states, undriven, c.name)
		if c.holds != (undriven == 0) {
			wrong++
		}
	}
	return wrong
}
