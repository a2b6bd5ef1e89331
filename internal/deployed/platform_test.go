package deployed

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// plan is what a request says to mean a plan.
type plan struct{ service, plan string }

// platform is one client of the configuration in one test. It knows the broker by its
// URL only.
type platform struct {
	t                      *testing.T
	url, name, user, token string
	org                    string
	plans                  map[string]plan
	newID                  func() string
	http                   *http.Client
	// heard is told every answer; patience is how long an operation may take.
	heard    func(answer)
	patience time.Duration
}

// platform returns the client of that name: demo, calm or stormy.
func (s *stack) platform(t *testing.T, name string) platform {
	t.Helper()
	who, ok := map[string]platform{
		"demo":   {user: "demo", token: "demo-password-7f31", org: "demo"},
		"calm":   {user: "calm", token: "calm-password-90c2", org: "ferry"},
		"stormy": {user: "stormy", token: "stormy-password-b5d8", org: "ferry-b"},
	}[name]
	if !ok {
		t.Fatalf("the configuration has no client %s", name)
	}
	who.t, who.url, who.name, who.plans, who.newID, who.http = t, s.BrokerURL(), name, s.plans, s.id, s.http
	who.heard, who.patience = s.ledger.hear, patience
	return who
}

func newHTTP() *http.Client {
	return &http.Client{
		Timeout:       patience,
		Transport:     &http.Transport{MaxIdleConnsPerHost: 40, IdleConnTimeout: 5 * time.Second},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// mode is what accepts_incomplete says.
type mode bool

const (
	async mode = true
	plain mode = false
)

func (m mode) query(rest ...string) string {
	if m {
		rest = append([]string{"accepts_incomplete=true"}, rest...)
	}
	if len(rest) == 0 {
		return ""
	}
	return "?" + strings.Join(rest, "&")
}

func at(id string) string { return "/v2/service_instances/" + url.PathEscape(id) }

func bindingAt(id, binding string) string {
	return at(id) + "/service_bindings/" + url.PathEscape(binding)
}

// send makes an OSB request. The fault that it has, if any, is reported on the test.
// It may be called from any goroutine.
func (p platform) send(method, path, body string, adjust ...func(*http.Request)) answer {
	p.t.Helper()
	req, err := http.NewRequest(method, p.url+path, strings.NewReader(body))
	if err != nil {
		p.t.Errorf("%s %s: %v", method, path, err)
		return answer{}
	}
	req.SetBasicAuth(p.user, p.token)
	req.Header.Set("X-Broker-API-Version", "2.17")
	req.Header.Set("X-Broker-API-Originating-Identity", originator())
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	for _, f := range adjust {
		f(req)
	}
	a := answer{request: method + " " + path}
	resp, err := p.http.Do(req)
	if err != nil {
		p.t.Errorf("%s: no answer: %v", a.request, err)
		return a
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		p.t.Errorf("%s: half an answer: %v", a.request, err)
	}
	a.status, a.header, a.body = resp.StatusCode, resp.Header, string(text)
	_ = json.Unmarshal(text, &a.fields) // fit complains where it matters
	a.fit(p.t)
	p.heard(a)
	return a
}

// originator is a user whose name is nobody's business.
func originator() string {
	return "kubernetes " + base64.StdEncoding.EncodeToString([]byte(`{"uid":"u-1","username":"`+identityMark+`"}`))
}

// plan returns the ids of offering/plan.
func (p platform) plan(name string) plan {
	p.t.Helper()
	found, ok := p.plans[name]
	if !ok {
		p.t.Fatalf("the catalog has no plan %s", name)
	}
	return found
}

// member is one more member of a JSON object; "" when it has no value.
func member(name, value string) string {
	if value == "" {
		return ""
	}
	return fmt.Sprintf(`,%q:%s`, name, value)
}

// create is the body of a PUT of an instance, parameters as they are to be sent.
func (p platform) create(plan, parameters string) string {
	p.t.Helper()
	ids := p.plan(plan)
	return fmt.Sprintf(`{"service_id":%q,"plan_id":%q,"organization_guid":"org","space_guid":"space"%s}`,
		ids.service, ids.plan, member("parameters", parameters))
}

func (p platform) put(id, plan, parameters string) answer {
	p.t.Helper()
	return p.send(http.MethodPut, at(id)+async.query(), p.create(plan, parameters))
}

// patch changes an instance to the plan, with parameters if they are not "".
func (p platform) patch(id, plan, parameters string) answer {
	p.t.Helper()
	ids := p.plan(plan)
	body := fmt.Sprintf(`{"service_id":%q,"plan_id":%q%s}`, ids.service, ids.plan, member("parameters", parameters))
	return p.send(http.MethodPatch, at(id)+async.query(), body)
}

func (p platform) hints(plan string) []string {
	p.t.Helper()
	ids := p.plan(plan)
	return []string{"service_id=" + ids.service, "plan_id=" + ids.plan}
}

func (p platform) delete(id, plan string) answer {
	p.t.Helper()
	return p.send(http.MethodDelete, at(id)+async.query(p.hints(plan)...), "")
}

func (p platform) bind(id, binding, plan, parameters string, m mode) answer {
	p.t.Helper()
	ids := p.plan(plan)
	body := fmt.Sprintf(`{"service_id":%q,"plan_id":%q%s}`, ids.service, ids.plan, member("parameters", parameters))
	return p.send(http.MethodPut, bindingAt(id, binding)+m.query(), body)
}

func (p platform) unbind(id, binding, plan string, m mode) answer {
	p.t.Helper()
	return p.send(http.MethodDelete, bindingAt(id, binding)+m.query(p.hints(plan)...), "")
}

func (p platform) poll(path, operation string) answer {
	p.t.Helper()
	return p.send(http.MethodGet, path+"/last_operation?operation="+url.QueryEscape(operation), "")
}

// ends polls as a platform does and returns the last answer.
func (p platform) ends(path, operation string) answer {
	p.t.Helper()
	var a answer
	within(p.t, p.patience, operation+" ends", func() bool {
		a = p.poll(path, operation)
		return a.status == http.StatusOK && a.text("state") != "in progress"
	})
	return a
}

// succeeds waits for the end of an operation.
func (p platform) succeeds(path, operation string) {
	p.t.Helper()
	if a := p.ends(path, operation); a.text("state") != "succeeded" {
		p.t.Fatalf("%s of %s: %s, want succeeded", operation, path, a.body)
	}
}

// ready makes an instance and returns its id.
func (p platform) ready(plan, parameters string) string {
	p.t.Helper()
	id := p.newID()
	p.succeeds(at(id), p.put(id, plan, parameters).want(p.t, http.StatusAccepted).operation())
	return id
}

// removed deletes an instance and waits for the end, then for 410 (DPR-11).
func (p platform) removed(id, plan string) {
	p.t.Helper()
	p.succeeds(at(id), p.delete(id, plan).want(p.t, http.StatusAccepted).operation())
	p.delete(id, plan).want(p.t, http.StatusGone)
}

// together calls f n times at once and returns the answers.
func together(n int, f func(i int) answer) []answer {
	answers := make([]answer, n)
	start := make(chan struct{})
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() {
			<-start
			answers[i] = f(i)
		})
	}
	close(start)
	all.Wait()
	return answers
}

// numbered returns ids that nobody has used, as long as nobody else has the prefix.
func numbered(prefix string) func() string {
	var last atomic.Int64
	return func() string { return fmt.Sprintf("%s-%d", prefix, last.Add(1)) }
}
