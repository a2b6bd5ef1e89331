package main

import (
	"net/http"
	"strings"
	"testing"
)

// TestSimulatorTakesItsFlags: what `ferry sim` and `ferry serve` are told about
// names reaches the simulated Cloud Foundry, by flag and by variable.
func TestSimulatorTakesItsFlags(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		variables, arguments []string
		status               int
	}{
		"sim":                           {nil, []string{"sim", "--listen", "127.0.0.1:0", "--names-ignore-case"}, http.StatusConflict},
		"sim by a variable":             {[]string{"FERRY_NAMES_IGNORE_CASE=true"}, []string{"sim", "--listen", "127.0.0.1:0"}, http.StatusConflict},
		"sim without it":                {nil, []string{"sim", "--listen", "127.0.0.1:0"}, http.StatusOK},
		"serve":                         {nil, []string{"serve", "--simulate-cf", "--listen", "127.0.0.1:0", "--sim-names-ignore-case"}, http.StatusConflict},
		"serve by a variable":           {[]string{"FERRY_SIM_NAMES_IGNORE_CASE=1"}, []string{"serve", "--simulate-cf", "--listen", "127.0.0.1:0"}, http.StatusConflict},
		"sim with a limit in Unix time": {nil, []string{"sim", "--listen", "127.0.0.1:0", "--rate-limit", "1", "--rate-window", "1h", "--retry-after-unix"}, http.StatusOK},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			sim := customer{t, begin(t, test.variables, test.arguments...).url(simulatorListens)}
			plant := func(name string) string {
				return `{"org":"ferry","space":"work","name":"` + name + `","offering":"postgres","plan":"small"}`
			}
			sim.want(http.MethodPost, "/__sim/instances", plant("abc"), http.StatusOK)
			sim.want(http.MethodPost, "/__sim/instances", plant("ABC"), test.status)
			if strings.Contains(name, "limit") {
				sim.want(http.MethodGet, "/v3/info", "", http.StatusOK)
				resp, err := http.Get(sim.url + "/v3/info")
				if err != nil {
					t.Fatal(err)
				}
				defer func() { _ = resp.Body.Close() }()
				if got := resp.Header.Get("Retry-After"); len(got) < len("1700000000") {
					t.Errorf("Retry-After %q is no Unix time", got)
				}
			}
		})
	}
}
