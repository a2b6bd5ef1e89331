// Package osbtest is a client of the Open Service Broker API for tests, and one suite of the specification's clauses
// that runs against whatever a Target names: a process, the deployed stack on the stand-in for AWS, a stack on AWS.
// Only tests import it.
package osbtest

import (
	"context"
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

// Client is a platform in one test: it sends OSB requests to one broker, and checks of every answer what holds for all
// (Answer.Faults). A copy is a client of its own. What ends the test may be called from the test's goroutine only,
// everything else from any.
type Client struct {
	T                       testing.TB
	URL, Username, Password string
	HTTP                    *http.Client
	// Originator is the user whom every request names; "" sends none.
	Originator string
	// Plans are the ids of the catalog by OFFERING/PLAN (Catalog reads them).
	Plans map[string]Plan
	// NewID returns an id that nobody has used.
	NewID func() string
	Clock Clock
	// OnAnswer is told of every answer; it may be nil.
	OnAnswer func(Answer)
}

// Plan is what a request says to mean a plan.
type Plan struct{ ServiceID, PlanID string }

// Clock says how long a test waits, and on what clock.
type Clock struct {
	Now func() time.Time
	// Pause waits between two looks at something. After is what the broker's last Retry-After asked for, 0 where it
	// asked for nothing.
	Pause func(after time.Duration)
	// Patience is how long a condition may take to come true.
	Patience time.Duration
}

// Change is made to a request before it is sent.
type Change func(*http.Request)

// Header sets one header of a request; the value "" removes it.
func Header(name, value string) Change {
	return func(r *http.Request) {
		if r.Header.Del(name); value != "" {
			r.Header.Set(name, value)
		}
	}
}

// Async adds accepts_incomplete=true to a request that has it not, such as a bind.
func Async(r *http.Request) {
	if q := r.URL.RawQuery; !strings.Contains(q, "accepts_incomplete") {
		r.URL.RawQuery = strings.TrimPrefix(q+"&"+incomplete, "&")
	}
}

// Sync takes accepts_incomplete=true away from a request that has it, such as a create.
func Sync(r *http.Request) {
	r.URL.RawQuery = strings.Trim(strings.Replace(r.URL.RawQuery, incomplete, "", 1), "&")
}

const incomplete = "accepts_incomplete=true"

// InstancePath is the path of an instance.
func InstancePath(id string) string { return "/v2/service_instances/" + url.PathEscape(id) }

// BindingPath is the path of a binding.
func BindingPath(id, binding string) string {
	return InstancePath(id) + "/service_bindings/" + url.PathEscape(binding)
}

// In is the same platform in a subtest.
func (c Client) In(t testing.TB) Client {
	c.T = t
	return c
}

// Send sends a request and returns its answer. What is wrong with the answer whatever was asked for, and that there is
// none, is reported on the test.
func (c Client) Send(method, path, body string, changes ...Change) Answer {
	c.T.Helper()
	a, err := c.Try(context.Background(), method, path, body, changes...)
	if err != nil {
		c.T.Errorf("%s %s: no answer: %v", method, path, err)
		return a
	}
	for _, fault := range a.Faults() {
		c.T.Errorf("%s: %s: %d %.500s", a.Request, fault, a.Status, a.Body)
	}
	if c.OnAnswer != nil {
		c.OnAnswer(a)
	}
	return a
}

// Try sends a request once and judges nothing. The error says that there is no answer, or half of one.
func (c Client) Try(ctx context.Context, method, path, body string, changes ...Change) (Answer, error) {
	req, err := http.NewRequestWithContext(ctx, method, c.URL+path, strings.NewReader(body))
	if err != nil {
		return Answer{T: c.T, Request: method + " " + path}, err
	}
	req.SetBasicAuth(c.Username, c.Password)
	req.Header.Set("X-Broker-API-Version", "2.17")
	// One for all requests: whoever took it for what makes requests the same would answer one for another (RID-05).
	req.Header.Set("X-Broker-API-Request-Identity", "osbtest")
	if c.Originator != "" {
		req.Header.Set("X-Broker-API-Originating-Identity", c.Originator)
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	for _, change := range changes {
		change(req)
	}
	a := Answer{T: c.T, Request: method + " " + strings.TrimPrefix(req.URL.RequestURI(), c.basePath()), sent: req}
	resp, err := c.HTTP.Do(req)
	if err != nil {
		return a, err
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	a.Status, a.Header, a.Body = resp.StatusCode, resp.Header, string(text)
	_ = json.Unmarshal(text, &a.Fields) // Faults complains
	return a, err
}

// basePath is what the broker's URL has before OSB's own paths.
func (c Client) basePath() string {
	u, err := url.Parse(c.URL)
	if err != nil {
		return ""
	}
	return u.EscapedPath()
}

// Plan returns the ids of OFFERING/PLAN.
func (c Client) Plan(name string) Plan {
	c.T.Helper()
	p, ok := c.Plans[name]
	if !ok {
		c.T.Fatalf("the catalog has no plan %s", name)
	}
	return p
}

// Catalog reads the ids of all plans by OFFERING/PLAN.
func (c Client) Catalog() map[string]Plan {
	c.T.Helper()
	plans := map[string]Plan{}
	for _, o := range c.offerings() {
		for _, p := range o.Plans {
			plans[o.Name+"/"+p.Name] = Plan{o.ID, p.ID}
		}
	}
	return plans
}

// InstanceBody is the body of a create; parameters are sent as they are, "" for none.
func (c Client) InstanceBody(plan, parameters string) string {
	c.T.Helper()
	p := c.Plan(plan)
	return fmt.Sprintf(`{"service_id":%q,"plan_id":%q,"organization_guid":"org","space_guid":"space"%s}`,
		p.ServiceID, p.PlanID, member("parameters", parameters))
}

// BindingBody is the body of a bind; parameters are sent as they are, "" for none.
func (c Client) BindingBody(plan, parameters string) string {
	c.T.Helper()
	p := c.Plan(plan)
	return fmt.Sprintf(`{"service_id":%q,"plan_id":%q%s}`, p.ServiceID, p.PlanID, member("parameters", parameters))
}

func member(name, value string) string {
	if value == "" {
		return ""
	}
	return fmt.Sprintf(`,%q:%s`, name, value)
}

// Provision sends a create that accepts to be told later.
func (c Client) Provision(id, plan, parameters string, changes ...Change) Answer {
	c.T.Helper()
	return c.Send(http.MethodPut, InstancePath(id)+"?"+incomplete, c.InstanceBody(plan, parameters), changes...)
}

// Update sends service_id and further members of the body, such as `"plan_id":"…"`.
func (c Client) Update(id, plan, members string, changes ...Change) Answer {
	c.T.Helper()
	if members != "" {
		members = "," + members
	}
	body := fmt.Sprintf(`{"service_id":%q%s}`, c.Plan(plan).ServiceID, members)
	return c.Send(http.MethodPatch, InstancePath(id)+"?"+incomplete, body, changes...)
}

// Deprovision sends a delete of an instance that accepts to be told later.
func (c Client) Deprovision(id, plan string, changes ...Change) Answer {
	c.T.Helper()
	return c.Send(http.MethodDelete, InstancePath(id)+"?"+incomplete+"&"+c.hints(plan), "", changes...)
}

// Bind sends a bind that waits for its end; with Async it accepts to be told later.
func (c Client) Bind(id, binding, plan, parameters string, changes ...Change) Answer {
	c.T.Helper()
	return c.Send(http.MethodPut, BindingPath(id, binding), c.BindingBody(plan, parameters), changes...)
}

// Unbind sends an unbind that waits for its end; with Async it accepts to be told later.
func (c Client) Unbind(id, binding, plan string, changes ...Change) Answer {
	c.T.Helper()
	return c.Send(http.MethodDelete, BindingPath(id, binding)+"?"+c.hints(plan), "", changes...)
}

func (c Client) hints(plan string) string {
	c.T.Helper()
	p := c.Plan(plan)
	return "service_id=" + url.QueryEscape(p.ServiceID) + "&plan_id=" + url.QueryEscape(p.PlanID)
}

// Fetch reads what is at a path.
func (c Client) Fetch(path string) Answer { c.T.Helper(); return c.Send(http.MethodGet, path, "") }

// Poll asks for the last operation of what is at a path; operation may be "".
func (c Client) Poll(path, operation string) Answer {
	c.T.Helper()
	if operation != "" {
		operation = "?operation=" + url.QueryEscape(operation)
	}
	return c.Send(http.MethodGet, path+"/last_operation"+operation, "")
}

// Ends polls as a platform does and returns the last answer. Polls never fail.
func (c Client) Ends(path, operation string) Answer {
	c.T.Helper()
	for began := c.Clock.Now(); ; {
		a := c.Poll(path, operation).Want(http.StatusOK)
		if a.State() != "in progress" {
			return a
		}
		if c.Clock.Now().Sub(began) > c.Clock.Patience {
			c.T.Fatalf("%s of %s did not end in %s: %s", operation, path, c.Clock.Patience, a.Body)
		}
		c.Clock.Pause(a.RetryAfter())
	}
}

// Succeeds waits for the end of an operation that ends well.
func (c Client) Succeeds(path, operation string) {
	c.T.Helper()
	if a := c.Ends(path, operation); a.State() != "succeeded" {
		c.T.Fatalf("%s of %s: %s, want succeeded", operation, path, a.Body)
	}
}

// Fails waits for the end of an operation that fails, with these parts in its description.
func (c Client) Fails(path, operation string, parts ...string) Answer {
	c.T.Helper()
	a := c.Ends(path, operation)
	if a.State() != "failed" {
		c.T.Fatalf("%s of %s: %s, want failed", operation, path, a.Body)
	}
	a.names(parts)
	return a
}

// Ready makes an instance and returns its id.
func (c Client) Ready(plan, parameters string) (id string) {
	c.T.Helper()
	id = c.NewID()
	c.Succeeds(InstancePath(id), c.Provision(id, plan, parameters).Want(http.StatusAccepted).Operation())
	return id
}

// Bound makes an instance and a binding of it.
func (c Client) Bound(plan string) (id, binding string) {
	c.T.Helper()
	id, binding = c.Ready(plan, ""), c.NewID()
	c.Bind(id, binding, plan, "").Want(http.StatusCreated)
	return id, binding
}

// Updated sends an update and waits until it is in force.
func (c Client) Updated(id, plan, members string) {
	c.T.Helper()
	c.Succeeds(InstancePath(id), c.Update(id, plan, members).Want(http.StatusAccepted).Operation())
}

// Deleted deletes an instance and waits until it is gone.
func (c Client) Deleted(id, plan string) {
	c.T.Helper()
	c.Succeeds(InstancePath(id), c.Deprovision(id, plan).Want(http.StatusAccepted).Operation())
}

// Eventually waits until a condition holds, and ends the test when it does not in time.
func (c Client) Eventually(what string, holds func() bool) {
	c.T.Helper()
	c.Clock.eventually(c.T, what, holds)
}

func (k Clock) eventually(t testing.TB, what string, holds func() bool) {
	t.Helper()
	for began := k.Now(); !holds(); k.Pause(0) {
		if k.Now().Sub(began) > k.Patience {
			t.Fatalf("it did not come true in %s: %s", k.Patience, what)
		}
	}
}

// Together calls send n times at once and returns the answers.
func Together(n int, send func(i int) Answer) []Answer {
	answers := make([]Answer, n)
	start := make(chan struct{})
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() {
			<-start
			answers[i] = send(i)
		})
	}
	close(start)
	all.Wait()
	return answers
}

// Later sends beside the test; the channel gives the answer.
func Later(send func() Answer) <-chan Answer {
	done := make(chan Answer, 1)
	go func() { done <- send() }()
	return done
}

// Numbered returns ids that nobody has used, as long as nobody else has the prefix.
func Numbered(prefix string) func() string {
	var last atomic.Int64
	return func() string { return fmt.Sprintf("%s-%d", prefix, last.Add(1)) }
}
