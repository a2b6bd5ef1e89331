package deployed

import (
	"net/http"
	"os"
	"testing"
)

// FERRY_E2E=done is how `make check` says that its stage e2e has just run all this.
const ranAlready = "done"

// TestDeployed deploys the stack once, plays every case against it, and deletes it.
func TestDeployed(t *testing.T) {
	if testing.Short() {
		t.Skip("a deployment takes minutes; run without -short")
	}
	if os.Getenv("FERRY_E2E") == ranAlready {
		t.Skip("FERRY_E2E=done: the stage e2e of make check has just run it")
	}
	before := topNames(t)
	s := deploy(t)
	for _, g := range groups() {
		stage(t, g.name, func() { t.Run(g.name, func(t *testing.T) { g.play(t, s) }) })
	}
	stage(t, "sam delete", func() { s.delete(t) })
	stage(t, "stop the stand-in and the simulator", func() { s.end(t) })
	same(t, "files at the top of the tree", topNames(t), before)
}

// topNames are those at the top of the tree: the tools write elsewhere.
func topNames(t *testing.T) (names []string) {
	t.Helper()
	entries, err := os.ReadDir("../..")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// deployParameter checks that a parameter reaches the API function, which is called by
// an alias: SAM makes no new version for it. From here on every function says all that
// it can say.
func (s *stack) deployParameter(t *testing.T, secret string) {
	t.Helper()
	s.samDeploy(t, secret, "LogLevel=debug")
	for _, qualifier := range []string{"live", "$LATEST"} {
		if level := s.cloud.environment(t, s.outputs["ApiFunctionName"], qualifier)["FERRY_LOG_LEVEL"]; level != "debug" {
			t.Errorf("%s of the API function has the log level %q", qualifier, level)
		}
	}
}

// firstCatalogs asks for the catalog as every client and returns the plans by name.
func (s *stack) firstCatalogs(t *testing.T) map[string]plan {
	t.Helper()
	plans := map[string]plan{}
	for _, name := range []string{"demo", "calm", "stormy"} {
		plans = s.platform(t, name).catalog()
	}
	return plans
}

// catalog maps offering/plan to ids.
func (p platform) catalog() map[string]plan {
	p.t.Helper()
	var body struct {
		Services []struct {
			ID, Name string
			Plans    []struct{ ID, Name string }
		}
	}
	p.send(http.MethodGet, "/v2/catalog", "").want(p.t, http.StatusOK).decode(p.t, &body)
	plans := map[string]plan{}
	for _, s := range body.Services {
		for _, offered := range s.Plans {
			plans[s.Name+"/"+offered.Name] = plan{s.ID, offered.ID}
		}
	}
	return plans
}
