package deployed

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"
)

// remote is a stack that somebody has deployed, on AWS or anywhere.
type remote struct{ url, username, password, plan, parameters string }

// remotePatience: a real backing broker may take its time.
const remotePatience = 30 * time.Minute

// FERRY_E2E=aws is how `make e2e-aws` says that a stack of somebody's is meant: variables
// that happen to be set start nothing there.
const byName = "aws"

// needed are the variables that name the stack.
func needed() []string {
	return []string{"FERRY_E2E_BROKER_URL", "FERRY_E2E_USERNAME", "FERRY_E2E_PASSWORD", "FERRY_E2E_PLAN"}
}

// remoteFrom reads the variables. The error says in a sentence which of them are missing.
func remoteFrom(lookupEnv func(string) (string, bool)) (remote, error) {
	values, missing := map[string]string{}, []string{}
	for _, name := range needed() {
		if values[name], _ = lookupEnv(name); values[name] == "" {
			missing = append(missing, name)
		}
	}
	if len(missing) > 0 {
		return remote{}, fmt.Errorf("a stack cannot be tested without %s: the broker's URL (output BrokerUrl), username and password of a client of its configuration, "+
			"and a plan that can be bound, as OFFERING/PLAN", strings.Join(missing, ", "))
	}
	r := remote{
		url: strings.TrimSuffix(values["FERRY_E2E_BROKER_URL"], "/"), username: values["FERRY_E2E_USERNAME"],
		password: values["FERRY_E2E_PASSWORD"], plan: values["FERRY_E2E_PLAN"],
	}
	r.parameters, _ = lookupEnv("FERRY_E2E_PARAMETERS")
	return r, nil
}

// TestOnAWS plays what needs no simulator against the stack that the environment names
// (`make e2e-aws`). It makes instances of FERRY_E2E_PLAN and deletes them.
func TestOnAWS(t *testing.T) {
	if os.Getenv("FERRY_E2E") != byName {
		t.Skip("make e2e-aws runs it, on a stack that it is told of")
	}
	r, err := remoteFrom(os.LookupEnv)
	if err != nil {
		t.Fatal(err)
	}
	p := r.platform(t)
	if _, ok := p.plans[r.plan]; !ok {
		t.Fatalf("the catalog has no plan %s (FERRY_E2E_PLAN)", r.plan)
	}
	with := func(play func(platform)) func(*testing.T, *stack) {
		return func(t *testing.T, _ *stack) {
			p := p
			p.t = t
			play(p)
		}
	}
	group{cases: []testCase{
		{"the catalog has a tag, and 304 for who knows it", with(catalogAnswers)},
		{"an instance and its bindings live and end", with(func(p platform) { wholeLife(p, r.plan, r.parameters) })},
		{"20 identical requests at once are one", with(func(p platform) { crowds(p, r.plan, r.parameters) })},
	}}.play(t, nil)
}

// crowds sends each request of a life many times at once.
func crowds(p platform, plan, parameters string) {
	p.t.Helper()
	id := crowdedCreate(p, plan, parameters)
	binding := crowdedBind(p, id, plan, "")
	crowdedUnbind(p, id, binding, plan)
	crowdedDelete(p, id, plan)
}

// platform has ids that no other run has.
func (r remote) platform(t *testing.T) platform {
	t.Helper()
	run := make([]byte, 6)
	_, _ = rand.Read(run) // never fails: it ends the process instead
	p := platform{
		t: t, url: r.url, name: "remote", user: r.username, token: r.password, http: newHTTP(), patience: remotePatience,
		newID: numbered("ferry-e2e-" + hex.EncodeToString(run)), heard: func(answer) {},
	}
	t.Cleanup(p.http.CloseIdleConnections)
	p.plans = p.catalog()
	return p
}

func TestRemoteFrom(t *testing.T) {
	t.Parallel()
	whole := map[string]string{
		"FERRY_E2E_BROKER_URL": "https://x/prod/", "FERRY_E2E_USERNAME": "u", "FERRY_E2E_PASSWORD": "p", "FERRY_E2E_PLAN": "a/b",
	}
	from := func(variables map[string]string) (remote, error) {
		return remoteFrom(func(name string) (string, bool) { v, ok := variables[name]; return v, ok })
	}
	if got, err := from(whole); err != nil || got != (remote{url: "https://x/prod", username: "u", password: "p", plan: "a/b"}) {
		t.Errorf("%+v, %v", got, err)
	}
	if _, err := from(nil); err == nil || !strings.Contains(err.Error(), strings.Join(needed(), ", ")) {
		t.Errorf("without any variable: %v", err)
	}
	for _, name := range needed() {
		short := map[string]string{}
		for n, v := range whole {
			if n != name {
				short[n] = v
			}
		}
		if _, err := from(short); err == nil || !strings.Contains(err.Error(), "without "+name+":") {
			t.Errorf("without %s: %v", name, err)
		}
	}
}

func portable() []testCase {
	return []testCase{{"what make e2e-aws plays passes against this stack", onAWS}}
}

// onAWS is what `make e2e-aws` runs, in a process of its own, against this stack.
func onAWS(t *testing.T, s *stack) {
	p := s.platform(t, "calm")
	test, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	said := s.shop.runWith(t, []string{
		"FERRY_E2E=" + byName, "FERRY_E2E_BROKER_URL=" + s.BrokerURL(), "FERRY_E2E_USERNAME=" + p.user, "FERRY_E2E_PASSWORD=" + p.token, "FERRY_E2E_PLAN=postgres/async-bindings",
	}, test, "-test.run", "^TestOnAWS$", "-test.v")
	if n := strings.Count(said, "    --- PASS: TestOnAWS/"); n != 3 {
		t.Errorf("%d cases passed, want 3:\n%s", n, said)
	}
	if strings.Contains(said, p.token) {
		t.Error("the password stands in what it says")
	}
}
