package deployed

import (
	"cmp"
	"slices"
	"sync"
	"testing"
)

// testCase is one subtest against the deployed stack. Its name is a clause.
type testCase struct {
	name string
	run  func(t *testing.T, s *stack)
}

// group is played at once, its cases beside each other unless they are alone.
type group struct {
	name  string
	alone bool
	// beside is how many cases run at once; 0 means 8. Most wait most of the time.
	beside int
	cases  []testCase
}

// play does not use t.Parallel, which runs as many as there are processors.
func (g group) play(t *testing.T, s *stack) {
	places := make(chan struct{}, cmp.Or(g.beside, 8))
	if g.alone {
		places = make(chan struct{}, 1)
	}
	var all sync.WaitGroup
	for _, c := range g.cases {
		places <- struct{}{}
		all.Go(func() {
			defer func() { <-places }()
			t.Run(c.name, func(t *testing.T) { c.run(t, s) })
		})
	}
	all.Wait()
}

// groups are played one after the other.
func groups() []group {
	return []group{
		{name: "the bug report", alone: true, cases: bugReport()},
		{name: "a healthy day", cases: slices.Concat(portable(), matrix(), healthyDay(), refusals())},
		{name: "after a healthy day", alone: true, cases: afterHealth()},
		{name: "faults, backing brokers that do not work, and client libraries", beside: 32, cases: slices.Concat(faultCases(), backingBrokers(), clientCases())},
		{name: "faults that everybody notices", alone: true, cases: aloneCases()},
		{name: "what is kept and what is not", cases: searches()},
	}
}
