package acceptance

import (
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/ferry-broker/ferry/internal/osbtest"
)

// bindScenarios are 37 to 39.
func bindScenarios() []scenario {
	return []scenario{
		{name: "37 the name of the key is taken", tune: []func(*settings){budget(10 * time.Second)}, classic: "its keys are named after the operation", run: keyTaken},
		{name: "38 credentials that cannot be read yet", tune: []func(*settings){budget(3 * time.Second), warnings}, run: keyUnread},
		{name: "39 unbinds", run: unbinds},
	}
}

func keyTaken(c tenant) {
	const plan, prefix = "postgres/small", "The binding name is invalid. Key binding names must be unique. The service instance already has a key binding with "
	// By the POST whose answer was lost: the key is ours.
	id := c.Ready("postgres/small", `{"a":1}`)
	for _, f := range []fault{dropped().After(), html(502).After()} {
		binding := c.NewID()
		before := c.sent("POST " + keys)
		c.Disturb(f.On("POST", keys, 1))
		first := c.Bind(id, binding, plan, "").Want(201)
		if again := c.Bind(id, binding, plan, "").Want(200); again.Credentials() != first.Credentials() {
			c.t.Errorf("%s: other credentials than at first", again.Request)
		}
		c.AskedFor(1, "bind", id, binding)
		c.sentTimes(before+1, "POST "+keys)
	}
	// By a key that is being deleted: it is waited for.
	binding := c.NewID()
	c.Disturb(unprocessable(prefix+"the name '"+binding+"' that is getting deleted or its deletion failed.").On("POST", keys, 2))
	c.Bind(id, binding, plan, "").Want(201)
	c.struck()
	c.AskedFor(1, "bind", id, binding)
	// By somebody else: it is not touched.
	c.Stranger(id, "theirs")
	before := c.Row(id)
	op := c.Bind(id, "theirs", plan, "", osbtest.Async).Want(202).Operation()
	c.Fails(bindingAt(id, "theirs"), op, "name")
	c.Succeeds(bindingAt(id, "theirs"), c.Unbind(id, "theirs", plan, osbtest.Async).Want(202).Operation())
	if after := c.Row(id); len(after.Keys) != len(before.Keys) {
		c.t.Errorf("Cloud Foundry has the keys %+v, before %+v", after.Keys, before.Keys)
	}
	c.AskedFor(0, "unbind", id, "theirs")
}

func keyUnread(c tenant) {
	const plan = "postgres/small"
	id := c.Ready("postgres/small", `{"a":1}`)
	details := key + "/details"
	passing := []fault{
		said(404, 10010, "CF-ResourceNotFound", "Creation of service key in progress"),
		said(503, 10015, "CF-ServiceUnavailable", "Fetching credentials from CredHub failed; reason: connection refused"),
		html(502),
		noRoute(),
	}
	for _, f := range passing {
		binding := c.NewID()
		c.Disturb(f.On("GET", details, 2))
		c.Bind(id, binding, plan, "").Want(201)
		c.struck()
		c.AskedFor(1, "bind", id, binding)
		if strings.Contains(f.Body, "10010") {
			continue // a key that is ready and has no details is another matter
		}
		c.Disturb(f.On("GET", details, 0))
		a := c.Send("GET", bindingAt(id, binding), "")
		if a.Status < 500 || a.Header.Get("Retry-After") == "" {
			c.t.Errorf("%s: %d %s, want a 5xx that asks for another try", a.Request, a.Status, a.Body)
		}
		c.heal()
		c.Send("GET", bindingAt(id, binding), "").Want(200)
	}
	// What failed asynchronously says why in the key alone.
	id = c.Ready("faults/bind-fails", "")
	op := c.Bind(id, "b", "faults/bind-fails", "", osbtest.Async).Want(202).Operation()
	if c.isKorifi() {
		c.Fails(bindingAt(id, "b"), op)
	} else {
		c.Fails(bindingAt(id, "b"), op, "The bind fails with this plan")
	}
	c.AskedFor(1, "bind", id, "b")
	c.Send("GET", bindingAt(id, "b"), "").Says(404, "NotFound")
}

func unbinds(c tenant) {
	const plan = "postgres/small"
	id := c.Ready("postgres/small", `{"a":1}`)
	c.Unbind(id, "never", plan).Bare(http.StatusGone)
	// Somebody removed the key.
	c.Bind(id, "one", plan, "").Want(201)
	c.Operator("DELETE", keys+"/"+c.Row(id).Keys[0].GUID, "").Want(202)
	c.Eventually("the key is gone", func() bool { return len(c.Row(id).Keys) == 0 })
	c.Unbind(id, "one", plan).Bare(200)
	c.Unbind(id, "one", plan).Bare(http.StatusGone)
	// The instance is busy.
	c.Bind(id, "two", plan, "").Want(201)
	before := c.sent("DELETE " + key)
	c.Disturb(unprocessable("There is an operation in progress for the service instance.").On("DELETE", key, 3))
	op := c.Unbind(id, "two", plan, osbtest.Async).Want(202).Operation()
	c.struck()
	c.Succeeds(bindingAt(id, "two"), op)
	c.sentTimes(before+4, "DELETE "+key)
	c.AskedFor(1, "unbind", id, "two")
	if c.isKorifi() {
		return // an unbind that fails is tried by itself there
	}
	for _, plan := range []string{"faults/unbind-rejected", "faults/unbind-fails"} {
		id, binding := c.Bound(plan)
		op := c.Unbind(id, binding, plan, osbtest.Async).Want(202).Operation()
		words := map[string]string{"faults/unbind-rejected": "The unbind is refused by this plan", "faults/unbind-fails": "The unbind fails with this plan"}
		c.Fails(bindingAt(id, binding), op, words[plan])
		c.KeyComes(id, binding, "delete", "failed")
		c.Send("GET", bindingAt(id, binding), "").Says(404, "NotFound")
		c.AskedFor(1, "unbind", id, binding)
		again := c.Unbind(id, binding, plan, osbtest.Async).Want(202).Operation()
		c.Fails(bindingAt(id, binding), again, words[plan])
		c.AskedFor(2, "unbind", id, binding)
	}
}

// loginScenarios are number 40: logins, limits and maintenance.
func loginScenarios() []scenario {
	tune := []func(*settings){warnings}
	return []scenario{
		{name: "40 a token ends while it is used", run: tokenEnds},
		{name: "40 the login is refused", tune: tune, run: loginRefused},
		{name: "40 limits and maintenance", tune: tune, run: limitsAndMaintenance},
	}
}

func tokenEnds(c tenant) {
	c.other.Fetch("/v2/catalog").Want(200) // its first login is over as well
	before := c.askedLogin()
	c.Control("POST", "/tokens/expire", "")
	id, op := c.starts("postgres/small")
	c.made(id, op)
	if n := c.askedLogin() - before; n != 1 {
		c.t.Errorf("%d logins after the token had ended, want one", n)
	}
	c.Control("POST", "/tokens/expire", "")
	c.Bind(id, "b", "postgres/small", "").Want(201)
	c.AskedFor(1, "bind", id, "b")
	c.Control("POST", "/tokens/expire", "")
	c.Deleted(id, "postgres/small")
	c.AskedFor(1, "deprovision", id, "")
}

// askedLogin is how often clients of the broker logged in; an operator of this test may have as well, so that only
// tests without one look.
func (c tenant) askedLogin() int {
	c.t.Helper()
	sum := 0
	for call, times := range c.State().Requests {
		if strings.HasSuffix(call, "/oauth/token") {
			sum += times
		}
	}
	return sum
}

func loginRefused(c tenant) {
	ready := c.Ready("postgres/small", `{"a":1}`)
	c.Disturb(fault{Method: "POST", Route: "/oauth/token", When: "before", Action: "respond", Status: 401,
		Headers: map[string]string{"Content-Type": "application/json"}, Body: `{"error":"invalid_client","error_description":"Bad credentials"}`})
	c.Control("POST", "/tokens/expire", "")
	id, op := c.starts("postgres/small")
	c.Eventually("the operator is told", func() bool { return len(c.journal.find(slog.LevelWarn, "invalid_client")) > 0 })
	for range 3 {
		if a := c.Poll(at(id), op); a.Want(200).State() != "in progress" {
			c.t.Errorf("%s: %s, want in progress", a.Request, a.Body)
		}
		c.Provision(ready, "postgres/small", `{"a":1}`).Bare(200)
		c.Send("GET", "/v2/catalog", "").Want(200)
	}
	before := c.askedLogin()
	if a := c.Bind(ready, "b", "postgres/small", "", osbtest.Async); a.Status == http.StatusUnauthorized {
		c.t.Errorf("%s: the platform is told that its own credentials are wrong", a.Request)
	}
	// However many operations there are: a UAA locks accounts that go on trying.
	if tried := c.askedLogin() - before; tried > 1 {
		c.t.Errorf("%d logins at once, want that all wait for one", tried)
	}
	c.heal()
	c.made(id, op)
}

func limitsAndMaintenance(c tenant) {
	pages := map[string]fault{
		"10013":       limited(said(429, 10013, "CF-RateLimitExceeded", "Rate Limit Exceeded")),
		"10014":       limited(said(429, 10014, "CF-IPBasedRateLimitExceeded", "Rate Limit Exceeded: Unauthenticated requests from this IP address have exceeded the limit. Please log in.")),
		"10016":       limited(said(429, 10016, "CF-ServiceBrokerRateLimitExceeded", "Service broker concurrent request limit exceeded")),
		"20008":       limited(said(429, 20008, "CF-UaaRateLimited", "The UAA is currently rate limited. Please try again later")),
		"nginx-429":   html(429),
		"20004":       said(502, 20004, "CF-UaaUnavailable", "The UAA service is currently unavailable"),
		"10015":       said(503, 10015, "CF-ServiceUnavailable", "Database connection failure"),
		"10011":       said(500, 10011, "CF-DatabaseError", "Database error"),
		"maintenance": {Action: "respond", Status: 503, Headers: map[string]string{"Content-Type": "text/plain"}, Body: "API down for maintenance"},
		"half-a-body": {Action: "respond", Status: 200, Headers: map[string]string{"Content-Type": "application/json"}, Body: `{"resources":[{"gu`},
		"a-sign-in":   {Action: "respond", Status: 200, Headers: map[string]string{"Content-Type": "text/html"}, Body: "<html>Sign in</html>"},
		"empty":       {Action: "respond", Status: 200, Headers: map[string]string{"Content-Type": "application/json"}},
	}
	started := map[string]string{}
	for name, f := range pages {
		id := "in-" + name
		f.Match = osbtest.Quoted(id)
		c.Disturb(f.On("POST", instances, 2))
		f.Match = id
		c.Disturb(f.On("GET", instances, 2))
		started[id] = c.Provision(id, "postgres/async", "").Want(202).Operation()
		if a := c.Poll(at(id), started[id]); a.Want(200).State() != "in progress" {
			c.t.Errorf("%s: %s, want in progress", a.Request, a.Body)
		}
	}
	c.struck()
	for id, op := range started {
		c.made(id, op)
	}
	// The UAA is in limited mode while the token is no good any more.
	for _, f := range []fault{
		{Action: "respond", Status: 503, Headers: map[string]string{"Content-Type": "application/json"}, Body: `{"error":"uaa_unavailable","error_description":"UAA intentionally in limited mode, operation not permitted. Please try later."}`},
		{Action: "respond", Status: 429, Headers: map[string]string{"Content-Type": "text/html"}, Body: "429 - Too Many Request - Request limited by Rate Limiter configuration"},
	} {
		c.Disturb(f.On("POST", "/oauth/token", 2))
		c.Control("POST", "/tokens/expire", "")
		id, op := c.starts("postgres/small")
		c.struck()
		c.made(id, op)
	}
}

// limited is an answer of a limiter, which says when it lets calls through again.
func limited(f fault) fault {
	f.Headers["Retry-After"] = "1"
	return f
}

// korifiScenarios are what only that implementation does.
func korifiScenarios() []scenario {
	return []scenario{
		{name: "a failed create whose job polls for ever", tune: []func(*settings){settle(time.Second)}, run: korifiFailedCreate},
		{name: "an update that would be ignored fails unsent", run: korifiUpdate},
		{name: "a delete with keys", run: korifiCascade},
		{name: "a bind while the instance is created", run: korifiEarlyBind},
	}
}

func korifiFailedCreate(c tenant) {
	id, op := c.starts("faults/create-fails")
	c.Fails(at(id), op, "The create fails with this plan")
	c.AskedFor(1, "provision", id, "")
	c.Deleted(id, "faults/create-fails")
	c.NothingLeft(id)
}

func korifiUpdate(c tenant) {
	id := c.Ready("postgres/small", `{"a":1}`)
	for _, change := range []string{`"parameters":{"a":2}`, `"plan_id":` + osbtest.Quoted(c.Plan("postgres/large").PlanID)} {
		op := c.Update(id, "postgres/small", change).Want(202).Operation()
		c.Fails(at(id), op)
		c.Poll(at(id), op).Lacks("instance_usable")
	}
	c.AskedFor(0, "update", id, "")
	c.Provision(id, "postgres/small", `{"a":1}`).Bare(200)
	if row := c.Row(id); row.Plan != "small" || row.Annotations["ferry-update"] != "" {
		c.t.Errorf("Cloud Foundry has %+v", row)
	}
}

func korifiCascade(c tenant) {
	const plan = "postgres/async-bindings"
	id := c.Ready(plan, "")
	a := c.Bind(id, "one", plan, "").Want(201)
	if again := c.Bind(id, "one", plan, "").Want(200); again.Credentials() != a.Credentials() {
		c.t.Errorf("%s: other credentials than at first", again.Request)
	}
	if n := len(c.Row(id).Keys); n != 1 {
		c.t.Errorf("Cloud Foundry has %d keys, want one", n)
	}
	c.Deleted(id, plan)
	c.NothingLeft(id)
}

func korifiEarlyBind(c tenant) {
	id, create := c.starts("postgres/async")
	op := c.Bind(id, "early", "postgres/async", "", osbtest.Async).Want(202).Operation()
	c.Succeeds(at(id), create)
	c.Succeeds(bindingAt(id, "early"), op)
	c.Send("GET", bindingAt(id, "early"), "").Want(200)
}
