package deployed

import (
	"flag"
	"os"
	"slices"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ferry-broker/ferry/internal/osbtest"
)

// FERRY_E2E=done is how `make check` says that its stage e2e has just run all this.
const ranAlready = "done"

func at(id string) string                 { return osbtest.InstancePath(id) }
func bindingAt(id, binding string) string { return osbtest.BindingPath(id, binding) }

// TestMain lets the deployments run beside each other: each waits most of the time.
func TestMain(m *testing.M) {
	flag.Parse()
	if given := flag.Lookup("test.parallel"); given.Value.String() == given.DefValue {
		_ = flag.Set("test.parallel", "8")
	}
	os.Exit(m.Run())
}

// TestDeployed deploys the stack once, plays every case against it, and deletes it.
func TestDeployed(t *testing.T) {
	if testing.Short() {
		t.Skip("a deployment takes minutes; run without -short")
	}
	if os.Getenv("FERRY_E2E") == ranAlready {
		t.Skip("FERRY_E2E=done: the stage e2e of make check has just run it")
	}
	before := topNames(t)
	t.Parallel()
	s := deploy(t)
	for _, g := range groups() {
		stage(t, g.name, func() { t.Run(g.name, func(t *testing.T) { g.play(t, s) }) })
	}
	stage(t, "sam delete", func() { s.delete(t) })
	stage(t, "stop the stand-in and the simulator", func() { s.end(t) })
	same(t, "files at the top of the tree", topNames(t), before)
}

// testCase is one subtest against the deployed stack.
type testCase struct {
	name string
	run  func(t *testing.T, s *stack)
}

// group is played at once, its cases beside each other unless they are alone.
type group struct {
	name  string
	alone bool
	cases []testCase
}

// groups are played one after the other. What is quiet comes first: nothing of it is worth a warning.
func groups() []group {
	return []group{
		{name: "a healthy day", cases: []testCase{
			{"the clauses of OSB", clauses},
			{"what make e2e-aws plays passes against this stack", onAWS},
			{"a deployment without a change leaves all as it is", deployedAgain},
		}},
		{name: "after a healthy day", alone: true, cases: []testCase{
			{"no function says anything louder than INFO", quietLogs},
			{"every operation that no request was held for has an execution of its name, which succeeded", drivenByExecutions},
		}},
		{name: "faults that concern one instance", cases: slices.Concat(roundFaults(), callFaults(), driverFaults())},
		{name: "faults that everybody notices", alone: true, cases: []testCase{
			{"Cloud Foundry answers nothing at all for a while", cloudDown},
			{"a secret that cannot be read any more", secretUnreadable},
			{"a secret with a text that is no configuration", secretWrong},
			{"a password that is rotated", secretRotated},
			{"roles that are too narrow", rolesTooNarrow},
			{"a resource that is another one", otherResource},
		}},
		{name: "what is kept and what is not", cases: []testCase{
			{"no log holds a secret", secretsInLogs},
			{"no execution's input or history holds more than ids and numbers", secretsInExecutions},
			{"the table holds neither credentials nor parameters that were accepted", secretsInTable},
			{"rounds say what they drove, and what had been lost", roundsSay},
			{"another parameter reaches the function that is called by an alias", anotherParameter},
		}},
	}
}

// play does not use t.Parallel, which would run one case as soon as its group has ended.
func (g group) play(t *testing.T, s *stack) {
	places := make(chan struct{}, 32) // most wait most of the time
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

// topNames are those at the top of the tree: the tools write elsewhere. make aws-local, which may run beside this,
// builds into bin.
func topNames(t *testing.T) (names []string) {
	t.Helper()
	entries, err := os.ReadDir("../..")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if e.Name() != "bin" {
			names = append(names, e.Name())
		}
	}
	return names
}

// same reports what differs.
func same(t *testing.T, what string, got, want any) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s differ (-want +got):\n%s", what, diff)
	}
}
