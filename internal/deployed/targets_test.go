package deployed

import (
	"bytes"
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/ferry-broker/ferry/internal/osbtest"
)

// FERRY_E2E=aws is how `make e2e-aws` says that a stack of somebody's is meant: variables that happen to be set start
// nothing there.
const byName = "aws"

// crowd is how many send the same request at once.
const crowd = 20

// tenant returns the client of the configuration that has this name.
func (s *stack) tenant(t *testing.T, name string) osbtest.Tenant {
	t.Helper()
	who, ok := map[string]osbtest.Tenant{
		"demo":   {Client: osbtest.Client{Username: "demo", Password: "demo-password-7f31"}, Cloud: osbtest.Cloud{Org: "demo"}},
		"calm":   {Client: osbtest.Client{Username: "calm", Password: "calm-password-90c2"}, Cloud: osbtest.Cloud{Org: "ferry"}},
		"stormy": {Client: osbtest.Client{Username: "stormy", Password: "stormy-password-b5d8"}, Cloud: osbtest.Cloud{Org: "ferry-b"}},
	}[name]
	if !ok {
		t.Fatalf("the configuration has no client %s", name)
	}
	clock := osbtest.Clock{Now: time.Now, Pause: func(time.Duration) { <-time.After(300 * time.Millisecond) }, Patience: patience}
	who.Name, who.Client.URL, who.Cloud.URL, who.Client.HTTP, who.Cloud.HTTP = name, s.BrokerURL(), s.simServer.url, s.http, s.http
	who.Client.Clock, who.Cloud.Clock, who.Plans, who.NewID, who.OnAnswer = clock, clock, s.plans, s.newID, s.ledger.note
	// A user whose name is nobody's business.
	who.Originator = "kubernetes " + base64.StdEncoding.EncodeToString([]byte(`{"uid":"u-1","username":"`+identityMark+`"}`))
	return who.In(t)
}

func newHTTP() *http.Client {
	return &http.Client{
		Timeout:       patience,
		Transport:     &http.Transport{MaxIdleConnsPerHost: 40, IdleConnTimeout: 5 * time.Second},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// clauses plays the clauses of OSB against the deployed stack. It is slower than a process, and the stand-in decodes
// paths (the events of events/ have what it makes of them): hence some repeats less.
func clauses(t *testing.T, s *stack) {
	other := s.tenant(t, "calm")
	osbtest.Run(t, osbtest.Target{Tenant: s.tenant(t, "demo"), Other: &other, Bindable: "postgres/small", Crowd: crowd, Repeats: 3, Beside: 10})
}

// remote is a stack that somebody has deployed, on AWS or anywhere.
type remote struct{ url, username, password, plan, parameters string }

// remotePatience: a real backing broker may take its time.
const remotePatience = 30 * time.Minute

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

// TestOnAWS plays the clauses that need no simulator against the stack that the environment names (`make e2e-aws`). It
// makes instances of FERRY_E2E_PLAN and deletes them.
func TestOnAWS(t *testing.T) {
	if os.Getenv("FERRY_E2E") != byName {
		t.Skip("make e2e-aws runs it, on a stack that it is told of")
	}
	r, err := remoteFrom(os.LookupEnv)
	if err != nil {
		t.Fatal(err)
	}
	c := r.tenant(t)
	if _, ok := c.Plans[r.plan]; !ok {
		t.Fatalf("the catalog has no plan %s (FERRY_E2E_PLAN)", r.plan)
	}
	osbtest.Run(t, osbtest.Target{Tenant: c, Bindable: r.plan, Parameters: r.parameters, Crowd: crowd, Beside: 4})
}

// tenant has ids that no other run has, and asks again when it is told to.
func (r remote) tenant(t *testing.T) osbtest.Tenant {
	t.Helper()
	run := make([]byte, 6)
	_, _ = rand.Read(run) // never fails: it ends the process instead
	clock := osbtest.Clock{Now: time.Now, Pause: func(after time.Duration) { <-time.After(max(after, time.Second)) }, Patience: remotePatience}
	c := osbtest.Tenant{Name: "remote", Client: osbtest.Client{
		URL: r.url, Username: r.username, Password: r.password, HTTP: newHTTP(), NewID: osbtest.Numbered("ferry-e2e-" + hex.EncodeToString(run)), Clock: clock,
	}}.In(t)
	t.Cleanup(c.Client.HTTP.CloseIdleConnections)
	c.Plans = c.Catalog()
	return c
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

// onAWS is what `make e2e-aws` runs, in a process of its own, against this stack.
func onAWS(t *testing.T, s *stack) {
	c := s.tenant(t, "calm")
	test, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	said := s.shop.runWith(t, []string{
		"FERRY_E2E=" + byName, "FERRY_E2E_BROKER_URL=" + s.BrokerURL(), "FERRY_E2E_USERNAME=" + c.Username, "FERRY_E2E_PASSWORD=" + c.Password, "FERRY_E2E_PLAN=postgres/async-bindings",
	}, test, "-test.run", "^TestOnAWS$", "-test.v")
	if n := strings.Count(said, "    --- PASS: TestOnAWS/"); n < 15 {
		t.Errorf("%d clauses passed, want 15 at least:\n%s", n, said)
	}
	if strings.Contains(said, c.Password) {
		t.Error("the password stands in what it says")
	}
}

// clientLibrary lets the client library of Kubernetes' and OpenShift's service-catalog, which is in a module of its
// own, drive the deployed broker.
func clientLibrary(t *testing.T, s *stack) {
	p := s.tenant(t, "demo")
	c := exec.CommandContext(t.Context(), "go", "-C", "clienttest", "test", "-v", "-count=1", "-timeout=8m",
		"-run", "^(TestCatalog|TestLife|TestDuplicates|TestErrors|TestMitigation)$", ".")
	c.Dir = s.shop.root
	c.Env = append(s.shop.env, "FERRY_CLIENT_URL="+p.Client.URL, "FERRY_CLIENT_USERNAME="+p.Username, "FERRY_CLIENT_PASSWORD="+p.Password)
	c.Cancel = inGroup(c)
	var output bytes.Buffer
	c.Stdout, c.Stderr = &output, &output
	if err := c.Run(); err != nil {
		t.Errorf("the client library against the deployed broker: %v\n%s", err, output.String())
	}
	// The deployed broker has the simulator behind it, so that nothing has to be skipped.
	passed, skipped := bytes.Count(output.Bytes(), []byte("--- PASS")), bytes.Count(output.Bytes(), []byte("--- SKIP"))
	if passed < 15 || skipped > 0 {
		t.Errorf("%d tests of the client library passed and %d were skipped:\n%s", passed, skipped, output.String())
	}
}
