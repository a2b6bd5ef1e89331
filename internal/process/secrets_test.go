package process

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// TestSecrets sends secrets through everything that Ferry does with them, failures, lost answers and kills included, and
// looks for them afterwards: in the logs at level debug, in every answer that is not meant to hold them, in the metrics,
// and, after a start and after the end, in every byte of the data folder (docs/adr/0019-one-promise-for-parameters.md).
// docs/protocol.md 2 and 3 name the moments at which parameters are stored.
func TestSecrets(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	s := newSmuggler(ctx, t)
	s.start()
	var err error
	if s.plans, err = s.platform.plans(ctx); err != nil {
		t.Fatal(err)
	}
	s.refusals()
	s.successes()
	s.failures()
	s.lostAnswers()
	s.outage()
	s.search()
}

// smuggler carries secrets through a broker.
type smuggler struct {
	t            *testing.T
	ctx          context.Context
	vault        *vault
	platform     *platform
	simulator    string
	config, data string
	metrics      string // the password of /metrics
	plans        map[string]ids

	programs []*program
	mu       sync.Mutex
	answers  []string // all that may hold no secret
	pages    []string // of /metrics
}

func newSmuggler(ctx context.Context, t *testing.T) *smuggler {
	v := newVault()
	sim := startSim(t, "--job-delay", "10ms", "--broker-delay", "60ms", "--poll-interval", "20ms")
	s := &smuggler{t: t, ctx: ctx, vault: v, simulator: sim, data: filepath.Join(t.TempDir(), "data"), metrics: v.word("the metrics password")}
	c := setup{client: "smuggler", password: v.word("the client's password"), api: sim, org: "ferry", secret: "ferry", settleAfter: time.Second}
	// The simulator knows fixed logins only: secrets of others are those that it refuses.
	c.more = fmt.Sprintf("  - {name: refused-client, credentials: [{username: u2, password: x2}], cloud_foundry: {api: %[1]q, org: ferry, client_id: ferry, client_secret: %[2]s}}\n"+
		"  - {name: refused-user, credentials: [{username: u3, password: x3}], cloud_foundry: {api: %[1]q, org: ferry, username: admin, password: %[3]s}}\n",
		sim, v.word("a CF client's secret"), v.word("a CF user's password"))
	c.end = fmt.Sprintf("metrics: {credentials: [{username: m, password: %s}]}\n", s.metrics)
	s.config = c.write(t)
	s.platform = &platform{door: new(door), user: c.client, password: c.password, tally: new(tally), http: &http.Client{}}
	return s
}

// start starts the broker on its data folder.
func (s *smuggler) start() {
	s.t.Helper()
	p := start(s.t, "serve", "--config", s.config, "--data", s.data, "--listen", "127.0.0.1:0", "--log-format", "json", "--log-level", "debug")
	url, err := p.address(s.ctx, brokerListens)
	if err != nil {
		s.t.Fatal(err)
	}
	s.programs = append(s.programs, p)
	s.platform.door.open(url)
}

// restart kills and starts again.
func (s *smuggler) restart() {
	s.t.Helper()
	s.scrape()
	s.programs[len(s.programs)-1].kill()
	s.start()
}

// scrape keeps a page of the metrics.
func (s *smuggler) scrape() {
	s.t.Helper()
	m := *s.platform
	m.user, m.password = "m", s.metrics
	a, err := m.send(s.ctx, http.MethodGet, "/metrics", nil)
	if err != nil || a.status != http.StatusOK || !strings.Contains(string(a.raw), "ferry_http_requests_total") {
		s.t.Fatalf("metrics: %d, %v", a.status, err)
	}
	s.pages = append(s.pages, string(a.raw))
}

// send sends, checks the status and keeps the answer, unless it hands a secret to
// whoever asked for it.
func (s *smuggler) send(method, path string, body any, status int) answer {
	s.t.Helper()
	a, err := s.platform.send(s.ctx, method, path, body)
	if err != nil {
		s.t.Fatal(err)
	}
	if a.status != status {
		s.t.Errorf("%s %s: %d %s, want %d", method, path, a.status, a.raw, status)
	}
	if a.Credentials == nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.answers = append(s.answers, fmt.Sprintf("%v %s", a.header, a.raw))
	}
	return a
}

func instancePath(id string) string     { return "/v2/service_instances/" + id }
func bindingPath(id, key string) string { return instancePath(id) + "/service_bindings/" + key }

// body is a request for a plan with secret parameters.
func (s *smuggler) body(plan, what string) map[string]any {
	i, ok := s.plans[plan]
	if !ok {
		s.t.Fatalf("no plan %s", plan)
	}
	return map[string]any{"service_id": i.service, "plan_id": i.plan, "organization_guid": "o", "space_guid": "s", "parameters": s.vault.parameters(what)}
}

func (s *smuggler) create(id, plan, what string) answer {
	s.t.Helper()
	return s.send(http.MethodPut, instancePath(id)+"?"+incomplete, s.body(plan, what), http.StatusAccepted)
}

// ends waits for the end of an operation and keeps what the platform is told of it.
func (s *smuggler) ends(path string, started answer, want string) {
	s.t.Helper()
	state, err := s.platform.end(s.ctx, path, started.Operation)
	if err != nil || state != want {
		s.t.Fatalf("%s: %q, want %q, %v", path, state, want, err)
	}
	s.send(http.MethodGet, path+"/last_operation?operation="+started.Operation, nil, http.StatusOK)
}

// bind binds without accepts_incomplete and takes the credentials into the vault.
func (s *smuggler) bind(id, key, plan string) {
	s.t.Helper()
	body := s.body(plan, "the parameters of the bind "+key)
	a := s.send(http.MethodPut, bindingPath(id, key), body, http.StatusCreated)
	var c struct{ URI, Password string }
	if err := json.Unmarshal(a.Credentials, &c); err != nil || c.Password == "" {
		s.t.Fatalf("credentials of %s: %v", key, err)
	}
	s.vault.add("the password of the binding "+key, c.Password)
	s.send(http.MethodPut, bindingPath(id, key), body, http.StatusOK)
}

// refusals are requests that lead to nothing.
func (s *smuggler) refusals() {
	path := instancePath("refused") + "?" + incomplete
	unknown := s.body("postgres/small", "an unknown plan")
	unknown["plan_id"] = "no-such-plan"
	wrongType := s.body("postgres/small", "a body of the wrong type")
	wrongType["plan_id"] = []string{s.vault.word("a plan id of the wrong type")}
	large := s.body("postgres/small", "parameters over the limit")
	large["padding"], large["parameters"] = "", map[string]any{"x": s.vault.word("large parameters") + strings.Repeat("-", 300<<10)}
	huge := s.body("postgres/small", "a body over the limit")
	huge["parameters"] = map[string]any{"x": s.vault.word("a huge body") + strings.Repeat("-", 2<<20)}
	s.send(http.MethodPut, path, unknown, http.StatusBadRequest)
	s.send(http.MethodPut, path, wrongType, http.StatusBadRequest)
	s.send(http.MethodPut, path, large, http.StatusBadRequest)
	s.send(http.MethodPut, path, huge, http.StatusRequestEntityTooLarge)
	s.send(http.MethodPut, path, []byte(`{"parameters": {"password": "`+s.vault.word("bad JSON")+`"`), http.StatusBadRequest)
	s.send(http.MethodPut, path, []byte(`{"parameters": `+s.vault.word("worse JSON")+`}`), http.StatusBadRequest)
	s.send(http.MethodPut, path, []byte(`{"parameters": {"a": "`+s.vault.word("a key that stands twice")+`", "a": 1}}`), http.StatusBadRequest)
	s.send(http.MethodPut, instancePath("refused"), s.body("postgres/small", "a create that would be synchronous"), http.StatusUnprocessableEntity)
	s.send(http.MethodPatch, path, s.body("postgres/small", "an update of nothing"), http.StatusNotFound)
	s.send(http.MethodPut, bindingPath("refused", "k"), s.body("postgres/small", "a bind to nothing"), http.StatusNotFound)
	stranger := *s.platform
	stranger.password = s.vault.word("a wrong password")
	if a, err := stranger.send(s.ctx, http.MethodGet, "/v2/catalog", nil); err != nil || a.status != http.StatusUnauthorized {
		s.t.Errorf("a stranger: %d, %v", a.status, err)
	}
	if a, err := stranger.send(s.ctx, http.MethodGet, "/metrics", nil); err != nil || a.status != http.StatusUnauthorized {
		s.t.Errorf("a stranger at the metrics: %d, %v", a.status, err)
	}
}

// successes are a whole life, with a restart after each step.
func (s *smuggler) successes() {
	const id = "good"
	path := instancePath(id)
	created := s.create(id, "postgres/async", "a create")
	s.restart()
	s.ends(path, created, "succeeded")
	s.send(http.MethodPut, path+"?"+incomplete, s.body("postgres/async", "a create that differs"), http.StatusConflict)
	s.bind(id, "k1", "postgres/async")
	s.send(http.MethodPut, bindingPath(id, "k1"), s.body("postgres/async", "a bind that differs"), http.StatusConflict)
	updated := s.send(http.MethodPatch, path+"?"+incomplete, s.body("postgres/async-bindings", "an update"), http.StatusAccepted)
	s.restart()
	s.ends(path, updated, "succeeded")
	bound := s.send(http.MethodPut, bindingPath(id, "k2")+"?"+incomplete, s.body("postgres/async-bindings", "an asynchronous bind"), http.StatusAccepted)
	s.restart()
	s.ends(bindingPath(id, "k2"), bound, "succeeded")
	gone := s.send(http.MethodDelete, path+"?"+incomplete+"&"+s.plans["postgres/async-bindings"].query(), nil, http.StatusAccepted)
	s.restart()
	s.ends(path, gone, "succeeded")
}

// failures are operations that the backing broker refuses, at once or later.
func (s *smuggler) failures() {
	for _, plan := range []string{"create-rejected", "create-fails"} {
		s.ends(instancePath(plan), s.create(plan, "faults/"+plan, "a create of the plan "+plan), "failed")
	}
	for _, plan := range []string{"update-rejected", "update-fails"} {
		s.ends(instancePath(plan), s.create(plan, "faults/bind-fails", "a create before "+plan), "succeeded")
		body := s.body("faults/"+plan, "an update, "+plan)
		s.ends(instancePath(plan), s.send(http.MethodPatch, instancePath(plan)+"?"+incomplete, body, http.StatusAccepted), "failed")
	}
	for _, plan := range []string{"bind-rejected", "bind-fails"} {
		s.ends(instancePath(plan), s.create(plan, "faults/"+plan, "a create of the plan "+plan), "succeeded")
		s.send(http.MethodPut, bindingPath(plan, plan+"-k1"), s.body("faults/"+plan, "a bind, "+plan), http.StatusInternalServerError)
		bound := s.send(http.MethodPut, bindingPath(plan, plan+"-k2")+"?"+incomplete, s.body("faults/"+plan, "an asynchronous bind, "+plan), http.StatusAccepted)
		s.ends(bindingPath(plan, plan+"-k2"), bound, "failed")
	}
}

// fault tells the simulator to misbehave; a nil one clears all.
func (s *smuggler) fault(f map[string]any) {
	s.t.Helper()
	method, body := http.MethodPost, []byte(nil)
	if f == nil {
		method = http.MethodDelete
	} else {
		body, _ = json.Marshal(f) // strings and numbers
	}
	sim := &platform{door: new(door), http: http.DefaultClient, tally: new(tally)}
	sim.door.open(s.simulator)
	if a, err := sim.send(s.ctx, method, "/__sim/faults", body); err != nil || a.status >= 300 {
		s.t.Fatalf("fault: %d %s, %v", a.status, a.raw, err)
	}
}

// lostAnswers are calls whose answers are lost, or are pages that repeat what was
// sent; Cloud Foundry's own errors quote a broker's whole answer after "Body: ".
func (s *smuggler) lostAnswers() {
	page := `<html>500: you sent ` + s.vault.word("a page of HTML") + `</html>`
	mirror := `{"errors":[{"code":10001,"title":"ServiceBrokerBadResponse","detail":"Status Code: 500, Body: you sent ` + s.vault.word("an error of Cloud Foundry's own") + `"}]}`
	const instances, keys = "/v3/service_instances", "/v3/service_credential_bindings"
	for i, f := range []map[string]any{
		{"method": "POST", "route": instances, "times": 1, "when": "after", "action": "drop"},
		{"method": "POST", "route": instances, "times": 2, "when": "before", "action": "respond", "status": 500, "body": page},
		{"method": "POST", "route": instances, "times": 1, "when": "after", "action": "respond", "status": 500, "body": mirror},
		{"method": "*", "route": "*", "times": 6, "when": "after", "action": "respond", "status": 502, "body": page},
	} {
		id := fmt.Sprintf("lost-%d", i)
		s.fault(f)
		s.ends(instancePath(id), s.create(id, "postgres/async", "a create with fault "+id), "succeeded")
		f["route"] = keys
		s.fault(f)
		bound := s.send(http.MethodPut, bindingPath(id, id+"-k")+"?"+incomplete, s.body("postgres/async", "a bind with fault "+id), http.StatusAccepted)
		s.ends(bindingPath(id, id+"-k"), bound, "succeeded")
		s.fault(nil)
	}
}

// outage keeps parameters in the store for a while, since Cloud Foundry takes none. Those of an operation that runs are
// there meanwhile, and no others.
func (s *smuggler) outage() {
	s.fault(map[string]any{"method": "*", "route": "*", "times": 0, "when": "before", "action": "respond", "status": 503, "body": "<html>maintenance</html>"})
	created := s.create("patient", "postgres/small", "a create during an outage")
	s.send(http.MethodPut, instancePath("patient")+"?"+incomplete, s.body("postgres/small", "another create during an outage"), http.StatusConflict)
	given := s.create("given-up", "postgres/small", "a create that is given up")
	gone := s.send(http.MethodDelete, instancePath("given-up")+"?"+incomplete+"&"+s.plans["postgres/small"].query(), nil, http.StatusAccepted)
	s.restart()
	others, kept := s.vault.split("a create during an outage")
	others.seekFiles(s.t, "after a kill", s.data)
	if len(kept.findInFiles(s.t, "after a kill", s.data)) == 0 {
		s.t.Error("the search does not even find the parameters of an operation that runs")
	}
	s.fault(nil)
	s.ends(instancePath("patient"), created, "succeeded")
	s.ends(instancePath("given-up"), gone, "succeeded")
	s.ends(instancePath("given-up"), given, "failed")
	s.delivered("patient", "a create during an outage")
}

// delivered checks that Cloud Foundry got the secret, whatever happened on its way.
func (s *smuggler) delivered(id, what string) {
	s.t.Helper()
	seen, err := readState(s.ctx, s.simulator)
	if err != nil {
		s.t.Fatal(err)
	}
	for _, i := range seen.Instances {
		if i.Name == id && strings.Contains(string(i.Parameters), s.vault.words[what]) {
			return
		}
	}
	s.t.Errorf("%s is not in Cloud Foundry with its parameters", id)
}

// search looks everywhere.
func (s *smuggler) search() {
	s.scrape()
	last := s.programs[len(s.programs)-1]
	if err := last.stop(s.ctx); err != nil {
		s.t.Errorf("stop: %v", err)
	}
	s.vault.seekFiles(s.t, "after the end", s.data)
	for i, p := range s.programs {
		s.vault.seek(s.t, fmt.Sprintf("log %d", i), []byte(p.out.String()))
	}
	for _, a := range s.answers {
		s.vault.seek(s.t, "an answer", []byte(a))
	}
	for _, page := range s.pages {
		s.vault.seek(s.t, "a page of metrics", []byte(page))
	}
	basic := base64.StdEncoding.EncodeToString([]byte(s.platform.user + ":" + s.platform.password))
	for _, p := range s.programs {
		if strings.Contains(p.out.String(), basic) {
			s.t.Error("a log holds an Authorization header")
		}
	}
	s.t.Logf("%d secrets, %d answers, %d processes", len(s.vault.words), len(s.answers), len(s.programs))
}
