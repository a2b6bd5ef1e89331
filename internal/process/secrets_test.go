package process

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ferry-broker/ferry/internal/osbtest"
)

// TestSecrets sends secrets through everything that Ferry does with them, failures, lost answers and kills included,
// and looks for them afterwards: in the logs at level debug, in every answer that is not meant to hold them, in the
// metrics, and, after a start and after the end, in every byte of the data folder
// (docs/adr/0019-one-promise-for-parameters.md). docs/protocol.md 2 and 3 name the moments at which parameters are
// stored.
func TestSecrets(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	s := newSearcher(ctx, t)
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

// searcher carries secrets through a broker.
type searcher struct {
	t            *testing.T
	ctx          context.Context
	secrets      *secrets
	platform     *platform
	cloud        osbtest.Cloud
	config, data string
	metrics      string // the password of /metrics
	plans        map[string]osbtest.Plan

	programs []*program
	mu       sync.Mutex
	answers  []string // all that may hold no secret
	pages    []string // of /metrics
}

func newSearcher(ctx context.Context, t *testing.T) *searcher {
	v := newSecrets()
	sim := startSim(t, "--job-delay", "10ms", "--broker-delay", "60ms", "--poll-interval", "20ms")
	s := &searcher{t: t, ctx: ctx, secrets: v, cloud: osbtest.Cloud{T: t, URL: sim, Org: "ferry", HTTP: http.DefaultClient}, data: filepath.Join(t.TempDir(), "data"), metrics: v.word("the metrics password")}
	c := setup{client: "searcher", password: v.word("the client's password"), api: sim, org: "ferry", secret: "ferry", settleAfter: time.Second}
	// The simulator knows fixed logins only: secrets of others are those that it refuses.
	c.more = fmt.Sprintf("  - {name: refused-client, credentials: [{username: u2, password: x2}], cloud_foundry: {api: %[1]q, org: ferry, client_id: ferry, client_secret: %[2]s}}\n"+
		"  - {name: refused-user, credentials: [{username: u3, password: x3}], cloud_foundry: {api: %[1]q, org: ferry, username: admin, password: %[3]s}}\n",
		sim, v.word("a CF client's secret"), v.word("a CF user's password"))
	c.end = fmt.Sprintf("metrics: {credentials: [{username: m, password: %s}]}\n", s.metrics)
	s.config = c.write(t)
	s.platform = newPlatform(c.client, c.password, http.DefaultTransport)
	return s
}

// start starts the broker on its data folder.
func (s *searcher) start() {
	s.t.Helper()
	p := start(s.t, "serve", "--config", s.config, "--data", s.data, "--listen", "127.0.0.1:0", "--log-format", "json", "--log-level", "debug")
	url, err := p.address(s.ctx, brokerListens)
	if err != nil {
		s.t.Fatal(err)
	}
	s.programs = append(s.programs, p)
	s.platform.address.open(url)
}

// restart kills and starts again.
func (s *searcher) restart() {
	s.t.Helper()
	s.scrape()
	s.programs[len(s.programs)-1].kill()
	s.start()
}

// scrape keeps a page of the metrics.
func (s *searcher) scrape() {
	s.t.Helper()
	m := *s.platform
	m.Username, m.Password = "m", s.metrics
	a, err := m.send(s.ctx, http.MethodGet, "/metrics", nil)
	if err != nil || a.Status != http.StatusOK || !strings.Contains(a.Body, "ferry_http_requests_total") {
		s.t.Fatalf("metrics: %d, %v", a.Status, err)
	}
	s.pages = append(s.pages, a.Body)
}

// send sends, checks the status and keeps the answer, unless it hands a secret to whoever asked for it.
func (s *searcher) send(method, path string, body any, status int) answer {
	s.t.Helper()
	a, err := s.platform.send(s.ctx, method, path, body)
	if err != nil {
		s.t.Fatal(err)
	}
	if a.Status != status {
		s.t.Errorf("%s %s: %d %s, want %d", method, path, a.Status, a.Body, status)
	}
	if a.Credentials() == "" {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.answers = append(s.answers, fmt.Sprintf("%v %s", a.Header, a.Body))
	}
	return a
}

func instancePath(id string) string     { return osbtest.InstancePath(id) }
func bindingPath(id, key string) string { return osbtest.BindingPath(id, key) }

// body is a request for a plan with secret parameters.
func (s *searcher) body(plan, what string) map[string]any {
	i, ok := s.plans[plan]
	if !ok {
		s.t.Fatalf("no plan %s", plan)
	}
	return map[string]any{"service_id": i.ServiceID, "plan_id": i.PlanID, "organization_guid": "o", "space_guid": "s", "parameters": s.secrets.parameters(what)}
}

func (s *searcher) create(id, plan, what string) answer {
	s.t.Helper()
	return s.send(http.MethodPut, instancePath(id)+"?"+incomplete, s.body(plan, what), http.StatusAccepted)
}

// ends waits for the end of an operation and keeps what the platform is told of it.
func (s *searcher) ends(path string, started answer, want string) {
	s.t.Helper()
	state, err := s.platform.end(s.ctx, path, started.Operation())
	if err != nil || state != want {
		s.t.Fatalf("%s: %q, want %q, %v", path, state, want, err)
	}
	s.send(http.MethodGet, path+"/last_operation?operation="+started.Operation(), nil, http.StatusOK)
}

// bind binds without accepts_incomplete and takes the credentials into the secrets.
func (s *searcher) bind(id, key, plan string) {
	s.t.Helper()
	body := s.body(plan, "the parameters of the bind "+key)
	a := s.send(http.MethodPut, bindingPath(id, key), body, http.StatusCreated)
	var c struct{ URI, Password string }
	if err := json.Unmarshal(a.Fields["credentials"], &c); err != nil || c.Password == "" {
		s.t.Fatalf("credentials of %s: %v", key, err)
	}
	s.secrets.add("the password of the binding "+key, c.Password)
	s.send(http.MethodPut, bindingPath(id, key), body, http.StatusOK)
}

// refusals are requests that lead to nothing.
func (s *searcher) refusals() {
	path := instancePath("refused") + "?" + incomplete
	unknown := s.body("postgres/small", "an unknown plan")
	unknown["plan_id"] = "no-such-plan"
	wrongType := s.body("postgres/small", "a body of the wrong type")
	wrongType["plan_id"] = []string{s.secrets.word("a plan id of the wrong type")}
	large := s.body("postgres/small", "parameters over the limit")
	large["padding"], large["parameters"] = "", map[string]any{"x": s.secrets.word("large parameters") + strings.Repeat("-", 300<<10)}
	huge := s.body("postgres/small", "a body over the limit")
	huge["parameters"] = map[string]any{"x": s.secrets.word("a huge body") + strings.Repeat("-", 2<<20)}
	s.send(http.MethodPut, path, unknown, http.StatusBadRequest)
	s.send(http.MethodPut, path, wrongType, http.StatusBadRequest)
	s.send(http.MethodPut, path, large, http.StatusBadRequest)
	s.send(http.MethodPut, path, huge, http.StatusRequestEntityTooLarge)
	s.send(http.MethodPut, path, `{"parameters": {"password": "`+s.secrets.word("bad JSON")+`"`, http.StatusBadRequest)
	s.send(http.MethodPut, path, `{"parameters": `+s.secrets.word("worse JSON")+`}`, http.StatusBadRequest)
	s.send(http.MethodPut, path, `{"parameters": {"a": "`+s.secrets.word("a key that stands twice")+`", "a": 1}}`, http.StatusBadRequest)
	s.send(http.MethodPut, instancePath("refused"), s.body("postgres/small", "a create that would be synchronous"), http.StatusUnprocessableEntity)
	s.send(http.MethodPatch, path, s.body("postgres/small", "an update of nothing"), http.StatusNotFound)
	s.send(http.MethodPut, bindingPath("refused", "k"), s.body("postgres/small", "a bind to nothing"), http.StatusNotFound)
	stranger := *s.platform
	stranger.Password = s.secrets.word("a wrong password")
	if a, err := stranger.send(s.ctx, http.MethodGet, "/v2/catalog", nil); err != nil || a.Status != http.StatusUnauthorized {
		s.t.Errorf("a stranger: %d, %v", a.Status, err)
	}
	if a, err := stranger.send(s.ctx, http.MethodGet, "/metrics", nil); err != nil || a.Status != http.StatusUnauthorized {
		s.t.Errorf("a stranger at the metrics: %d, %v", a.Status, err)
	}
}

// successes are a whole life, with a restart after each step.
func (s *searcher) successes() {
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
	gone := s.send(http.MethodDelete, path+"?"+incomplete+"&"+hints(s.plans["postgres/async-bindings"]), nil, http.StatusAccepted)
	s.restart()
	s.ends(path, gone, "succeeded")
}

// failures are operations that the backing broker refuses, at once or later.
func (s *searcher) failures() {
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

func (s *searcher) heal() { s.t.Helper(); s.cloud.Control(http.MethodDelete, "/faults", "") }

// lostAnswers are calls whose answers are lost, or are pages that repeat what was sent; Cloud Foundry's own errors
// quote a broker's whole answer after "Body: ".
func (s *searcher) lostAnswers() {
	page := `<html>500: you sent ` + s.secrets.word("a page of HTML") + `</html>`
	mirror := `{"errors":[{"code":10001,"title":"ServiceBrokerBadResponse","detail":"Status Code: 500, Body: you sent ` + s.secrets.word("an error of Cloud Foundry's own") + `"}]}`
	for i, f := range []osbtest.Fault{
		osbtest.Fault{Action: "drop"}.After().On("POST", osbtest.Instances, 1),
		osbtest.Fault{Action: "respond", Status: 500, Body: page}.On("POST", osbtest.Instances, 2),
		osbtest.Fault{Action: "respond", Status: 500, Body: mirror}.After().On("POST", osbtest.Instances, 1),
		osbtest.Fault{Action: "respond", Status: 502, Body: page}.After().On("*", "*", 6),
	} {
		id := fmt.Sprintf("lost-%d", i)
		s.cloud.Disturb(f)
		s.ends(instancePath(id), s.create(id, "postgres/async", "a create with fault "+id), "succeeded")
		f.Route = osbtest.Keys
		s.cloud.Disturb(f)
		bound := s.send(http.MethodPut, bindingPath(id, id+"-k")+"?"+incomplete, s.body("postgres/async", "a bind with fault "+id), http.StatusAccepted)
		s.ends(bindingPath(id, id+"-k"), bound, "succeeded")
		s.heal()
	}
}

// outage keeps parameters in the store for a while, since Cloud Foundry takes none. Those of an operation that runs are
// there meanwhile, and no others.
func (s *searcher) outage() {
	s.cloud.Disturb(osbtest.Fault{Action: "respond", Status: 503, Body: "<html>maintenance</html>"}.On("*", "*", 0))
	created := s.create("patient", "postgres/small", "a create during an outage")
	s.send(http.MethodPut, instancePath("patient")+"?"+incomplete, s.body("postgres/small", "another create during an outage"), http.StatusConflict)
	given := s.create("given-up", "postgres/small", "a create that is given up")
	gone := s.send(http.MethodDelete, instancePath("given-up")+"?"+incomplete+"&"+hints(s.plans["postgres/small"]), nil, http.StatusAccepted)
	s.restart()
	others, kept := s.secrets.split("a create during an outage")
	others.seekFiles(s.t, "after a kill", s.data)
	if len(kept.findInFiles(s.t, "after a kill", s.data)) == 0 {
		s.t.Error("the search does not even find the parameters of an operation that runs")
	}
	s.heal()
	s.ends(instancePath("patient"), created, "succeeded")
	s.ends(instancePath("given-up"), gone, "succeeded")
	s.ends(instancePath("given-up"), given, "failed")
	if got := string(s.cloud.Row("patient").Parameters); !strings.Contains(got, s.secrets.words["a create during an outage"]) {
		s.t.Error("Cloud Foundry has not got the parameters that were kept for it")
	}
}

// search looks everywhere.
func (s *searcher) search() {
	s.scrape()
	last := s.programs[len(s.programs)-1]
	if err := last.stop(s.ctx); err != nil {
		s.t.Errorf("stop: %v", err)
	}
	s.secrets.seekFiles(s.t, "after the end", s.data)
	for i, p := range s.programs {
		s.secrets.seek(s.t, fmt.Sprintf("log %d", i), []byte(p.out.String()))
	}
	for _, a := range s.answers {
		s.secrets.seek(s.t, "an answer", []byte(a))
	}
	for _, page := range s.pages {
		s.secrets.seek(s.t, "a page of metrics", []byte(page))
	}
	basic := base64.StdEncoding.EncodeToString([]byte(s.platform.Username + ":" + s.platform.Password))
	for _, p := range s.programs {
		if strings.Contains(p.out.String(), basic) {
			s.t.Error("a log holds an Authorization header")
		}
	}
	s.t.Logf("%d secrets, %d answers, %d processes", len(s.secrets.words), len(s.answers), len(s.programs))
}

// secrets makes secrets and knows them again, in the forms in which they could leak.
type secrets struct {
	mu    sync.Mutex
	words map[string]string // by what they are
}

func newSecrets() *secrets { return &secrets{words: map[string]string{}} }

// word returns a new secret. What it is stands in the report, never in the word.
func (s *secrets) word(what string) string {
	w := "zq" + strings.ToLower(rand.Text())
	s.add(what, w)
	return w
}

// add takes a secret that somebody else made.
func (s *secrets) add(what, word string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.words[what] = word
}

// parameters returns parameters with a secret in a value, deep inside.
func (s *secrets) parameters(what string) map[string]any {
	return map[string]any{"deep": []any{map[string]any{"password": s.word(what)}}}
}

// split returns all secrets but one, and that one.
func (s *secrets) split(what string) (others, one *secrets) {
	s.mu.Lock()
	defer s.mu.Unlock()
	others, one = newSecrets(), newSecrets()
	maps.Copy(others.words, s.words)
	delete(others.words, what)
	one.words[what] = s.words[what]
	return others, one
}

// find returns a sentence for each secret in the text.
func (s *secrets) find(place string, text []byte) (findings []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for what, word := range s.words {
		for form, disguised := range forms(word) {
			if at := bytes.Index(text, disguised); at >= 0 {
				line := text[bytes.LastIndexByte(text[:at], '\n')+1 : at]
				findings = append(findings, fmt.Sprintf("%s holds the secret of %s (%s), after %.300q", place, what, form, line))
			}
		}
	}
	return findings
}

// seek fails the test for each secret in the text.
func (s *secrets) seek(t *testing.T, place string, text []byte) {
	t.Helper()
	for _, finding := range s.find(place, text) {
		t.Error(finding)
	}
}

// seekFiles looks at every byte of every file below the folder.
func (s *secrets) seekFiles(t *testing.T, when, folder string) {
	t.Helper()
	for _, finding := range s.findInFiles(t, when, folder) {
		t.Error(finding)
	}
}

func (s *secrets) findInFiles(t *testing.T, when, folder string) (findings []string) {
	t.Helper()
	err := filepath.WalkDir(folder, func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		raw, err := os.ReadFile(name)
		findings = append(findings, s.find(fmt.Sprintf("%s, the file %s", when, entry.Name()), raw)...)
		return err
	})
	if err != nil {
		t.Error(err)
	}
	return findings
}

// forms are a word as it is, in hex, and in base64 at each of the three places where it can begin within a group of
// bytes, without what depends on neighbours.
func forms(word string) map[string][]byte {
	forms := map[string][]byte{
		"plain": []byte(word),
		"hex":   []byte(hex.EncodeToString([]byte(word))),
		"HEX":   []byte(strings.ToUpper(hex.EncodeToString([]byte(word)))),
	}
	for shift := range 3 {
		padded := append(make([]byte, shift), word...)
		usable := len(padded) / 3 * 3
		encoded := base64.StdEncoding.EncodeToString(padded[:usable])
		forms[fmt.Sprintf("base64, shifted by %d", shift)] = []byte(encoded[(shift+2)/3*4:])
	}
	return forms
}

func TestSecretsAreFoundInDisguise(t *testing.T) {
	t.Parallel()
	for before := range 4 {
		text := strings.Repeat("-", before) + "a secret word of some length" + "!"
		encoded := base64.StdEncoding.EncodeToString([]byte(text))
		found := false
		for _, form := range forms("a secret word of some length") {
			found = found || strings.Contains(encoded, string(form))
		}
		if !found {
			t.Errorf("not found in base64 after %d bytes", before)
		}
	}
}
