package acceptance

import (
	"log/slog"
	"net/http"
	"strings"
	"time"
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
	id := c.one()
	for _, f := range []fault{dropped().after(), html(502).after()} {
		binding := c.id()
		before := c.sent("POST " + keys)
		c.disturb(f.on("POST", keys, 1))
		first := c.bind(id, binding, plan, "", plain).want(c.t, 201)
		if again := c.bind(id, binding, plan, "", plain).want(c.t, 200); again.credentials() != first.credentials() {
			c.t.Errorf("%s: other credentials than at first", again.request)
		}
		c.askedForKey(1, "bind", id, binding)
		c.sentTimes(before+1, "POST "+keys)
	}
	// By a key that is being deleted: it is waited for.
	binding := c.id()
	c.disturb(unprocessable(prefix+"the name '"+binding+"' that is getting deleted or its deletion failed.").on("POST", keys, 2))
	c.bind(id, binding, plan, "", plain).want(c.t, 201)
	c.struck()
	c.askedForKey(1, "bind", id, binding)
	// By somebody else: it is not touched.
	c.stranger(id, "theirs")
	before := c.row(id)
	op := c.bind(id, "theirs", plan, "", async).want(c.t, 202).operation()
	c.fails(bindingAt(id, "theirs"), op, "name")
	c.succeeds(bindingAt(id, "theirs"), c.unbind(id, "theirs", plan, async).want(c.t, 202).operation())
	if after := c.row(id); len(after.Keys) != len(before.Keys) {
		c.t.Errorf("Cloud Foundry has the keys %+v, before %+v", after.Keys, before.Keys)
	}
	c.askedFor(0, "unbind", id, "theirs")
}

func keyUnread(c tenant) {
	const plan = "postgres/small"
	id := c.one()
	details := key + "/details"
	passing := []fault{
		said(404, 10010, "CF-ResourceNotFound", "Creation of service key in progress"),
		said(503, 10015, "CF-ServiceUnavailable", "Fetching credentials from CredHub failed; reason: connection refused"),
		html(502),
		noRoute(),
	}
	for _, f := range passing {
		binding := c.id()
		c.disturb(f.on("GET", details, 2))
		c.bind(id, binding, plan, "", plain).want(c.t, 201)
		c.struck()
		c.askedForKey(1, "bind", id, binding)
		if strings.Contains(f.Body, "10010") {
			continue // a key that is ready and has no details is another matter
		}
		c.disturb(f.on("GET", details, 0))
		a := c.send("GET", bindingAt(id, binding), "")
		if a.status < 500 || a.header.Get("Retry-After") == "" {
			c.t.Errorf("%s: %d %s, want a 5xx that asks for another try", a.request, a.status, a.body)
		}
		c.heal()
		c.send("GET", bindingAt(id, binding), "").want(c.t, 200)
	}
	// What failed asynchronously says why in the key alone.
	id = c.ready("faults/bind-fails", "")
	op := c.bind(id, "b", "faults/bind-fails", "", async).want(c.t, 202).operation()
	if c.isKorifi() {
		c.fails(bindingAt(id, "b"), op)
	} else {
		c.fails(bindingAt(id, "b"), op, "The bind fails with this plan")
	}
	c.askedForKey(1, "bind", id, "b")
	c.send("GET", bindingAt(id, "b"), "").says(c.t, 404, "NotFound")
}

func unbinds(c tenant) {
	const plan = "postgres/small"
	id := c.one()
	c.unbind(id, "never", plan, plain).bare(c.t, http.StatusGone)
	// Somebody removed the key.
	c.bind(id, "one", plan, "", plain).want(c.t, 201)
	c.operator("DELETE", keys+"/"+c.row(id).Keys[0].GUID, "").want(c.t, 202)
	c.eventually("the key is gone", func() bool { return len(c.row(id).Keys) == 0 })
	c.unbind(id, "one", plan, plain).bare(c.t, 200)
	c.unbind(id, "one", plan, plain).bare(c.t, http.StatusGone)
	// The instance is busy.
	c.bind(id, "two", plan, "", plain).want(c.t, 201)
	before := c.sent("DELETE " + key)
	c.disturb(unprocessable("There is an operation in progress for the service instance.").on("DELETE", key, 3))
	op := c.unbind(id, "two", plan, async).want(c.t, 202).operation()
	c.struck()
	c.succeeds(bindingAt(id, "two"), op)
	c.sentTimes(before+4, "DELETE "+key)
	c.askedForKey(1, "unbind", id, "two")
	if c.isKorifi() {
		return // an unbind that fails is tried by itself there
	}
	for _, plan := range []string{"faults/unbind-rejected", "faults/unbind-fails"} {
		id, binding := c.bound(plan)
		op := c.unbind(id, binding, plan, async).want(c.t, 202).operation()
		words := map[string]string{"faults/unbind-rejected": "The unbind is refused by this plan", "faults/unbind-fails": "The unbind fails with this plan"}
		c.fails(bindingAt(id, binding), op, words[plan])
		c.keyComes(id, binding, "delete", "failed")
		c.send("GET", bindingAt(id, binding), "").says(c.t, 404, "NotFound")
		c.askedFor(1, "unbind", id, binding)
		again := c.unbind(id, binding, plan, async).want(c.t, 202).operation()
		c.fails(bindingAt(id, binding), again, words[plan])
		c.askedFor(2, "unbind", id, binding)
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
	c.other().send("GET", "/v2/catalog", "").want(c.t, 200) // its first login is over as well
	before := c.askedLogin()
	c.control("POST", "/tokens/expire", "")
	id, op := c.starts("postgres/small")
	c.made(id, op)
	if n := c.askedLogin() - before; n != 1 {
		c.t.Errorf("%d logins after the token had ended, want one", n)
	}
	c.control("POST", "/tokens/expire", "")
	c.bind(id, "b", "postgres/small", "", plain).want(c.t, 201)
	c.askedForKey(1, "bind", id, "b")
	c.control("POST", "/tokens/expire", "")
	c.gone(id, "postgres/small")
	c.askedFor(1, "deprovision", id, "")
}

// askedLogin is how often clients of the broker logged in; an operator of this test
// may have as well, so that only tests without one look.
func (c tenant) askedLogin() int {
	c.t.Helper()
	sum := 0
	for call, times := range c.cf().Requests {
		if strings.HasSuffix(call, "/oauth/token") {
			sum += times
		}
	}
	return sum
}

func loginRefused(c tenant) {
	ready := readyInstance(c)
	c.disturb(fault{Method: "POST", Route: "/oauth/token", When: "before", Action: "respond", Status: 401,
		Headers: map[string]string{"Content-Type": "application/json"}, Body: `{"error":"invalid_client","error_description":"Bad credentials"}`})
	c.control("POST", "/tokens/expire", "")
	id, op := c.starts("postgres/small")
	c.eventually("the operator is told", func() bool { return len(c.journal.find(slog.LevelWarn, "invalid_client")) > 0 })
	for range 3 {
		if a := c.poll(at(id), op); a.want(c.t, 200).state() != "in progress" {
			c.t.Errorf("%s: %s, want in progress", a.request, a.body)
		}
		c.put(ready.id, ready.plan, ready.parameters, async).bare(c.t, 200)
		c.send("GET", "/v2/catalog", "").want(c.t, 200)
	}
	before := c.askedLogin()
	if a := c.bind(ready.id, "b", ready.plan, "", async); a.status == http.StatusUnauthorized {
		c.t.Errorf("%s: the platform is told that its own credentials are wrong", a.request)
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
		"10013":       said(429, 10013, "CF-RateLimitExceeded", "Rate Limit Exceeded").later(),
		"10014":       said(429, 10014, "CF-IPBasedRateLimitExceeded", "Rate Limit Exceeded: Unauthenticated requests from this IP address have exceeded the limit. Please log in.").later(),
		"10016":       said(429, 10016, "CF-ServiceBrokerRateLimitExceeded", "Service broker concurrent request limit exceeded").later(),
		"20008":       said(429, 20008, "CF-UaaRateLimited", "The UAA is currently rate limited. Please try again later").later(),
		"nginx-429":   html(429),
		"20004":       said(502, 20004, "CF-UaaUnavailable", "The UAA service is currently unavailable"),
		"10015":       said(503, 10015, "CF-ServiceUnavailable", "Database connection failure"),
		"10011":       said(500, 10011, "CF-DatabaseError", "Database error"),
		"maintenance": {Action: "respond", Status: 503, Headers: map[string]string{"Content-Type": "text/plain"}, Body: "API down for maintenance"},
		"half-a-body": {Action: "respond", Status: 200, Headers: map[string]string{"Content-Type": "application/json"}, Body: `{"resources":[{"gu`},
		"a-sign-in":   {Action: "respond", Status: 200, Headers: map[string]string{"Content-Type": "text/html"}, Body: "<html>Sign in</html>"},
		"empty":       {Action: "respond", Status: 200, Headers: map[string]string{"Content-Type": "application/json"}},
	}
	var started []subject
	for name, f := range pages {
		s := subject{id: "in-" + name, plan: "postgres/async"}
		f.Match = quoted(s.id)
		c.disturb(f.on("POST", instances, 2))
		f.Match = s.id
		c.disturb(f.on("GET", instances, 2))
		s.operation = c.put(s.id, s.plan, "", async).want(c.t, 202).operation()
		if a := c.poll(at(s.id), s.operation); a.want(c.t, 200).state() != "in progress" {
			c.t.Errorf("%s: %s, want in progress", a.request, a.body)
		}
		started = append(started, s)
	}
	c.struck()
	for _, s := range started {
		c.made(s.id, s.operation)
	}
	// The UAA is in limited mode while the token is no good any more.
	for _, f := range []fault{
		{Action: "respond", Status: 503, Headers: map[string]string{"Content-Type": "application/json"}, Body: `{"error":"uaa_unavailable","error_description":"UAA intentionally in limited mode, operation not permitted. Please try later."}`},
		{Action: "respond", Status: 429, Headers: map[string]string{"Content-Type": "text/html"}, Body: "429 - Too Many Request - Request limited by Rate Limiter configuration"},
	} {
		c.disturb(f.on("POST", "/oauth/token", 2))
		c.control("POST", "/tokens/expire", "")
		id, op := c.starts("postgres/small")
		c.struck()
		c.made(id, op)
	}
}

// later adds what a limiter says of the time.
func (f fault) later() fault {
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

// settle is how long calls of unknown fate may take effect.
func settle(d time.Duration) func(*settings) {
	return func(s *settings) { s.config.Operations.SettleAfter = d }
}

func korifiFailedCreate(c tenant) {
	id, op := c.starts("faults/create-fails")
	c.fails(at(id), op, "The create fails with this plan")
	c.askedFor(1, "provision", id, "")
	c.gone(id, "faults/create-fails")
	c.nothingLeft(id)
}

func korifiUpdate(c tenant) {
	id := c.one()
	for _, change := range []string{`"parameters":{"a":2}`, `"plan_id":` + quoted(c.plan("postgres/large").plan)} {
		op := c.patch(id, "postgres/small", change, async).want(c.t, 202).operation()
		c.fails(at(id), op)
		c.poll(at(id), op).lacks(c.t, "instance_usable")
	}
	c.askedFor(0, "update", id, "")
	c.put(id, "postgres/small", `{"a":1}`, async).bare(c.t, 200)
	if row := c.row(id); row.Plan != "small" || row.Annotations["ferry-update"] != "" {
		c.t.Errorf("Cloud Foundry has %+v", row)
	}
}

func korifiCascade(c tenant) {
	const plan = "postgres/async-bindings"
	id := c.ready(plan, "")
	a := c.bind(id, "one", plan, "", plain).want(c.t, 201)
	if again := c.bind(id, "one", plan, "", plain).want(c.t, 200); again.credentials() != a.credentials() {
		c.t.Errorf("%s: other credentials than at first", again.request)
	}
	if n := len(c.row(id).Keys); n != 1 {
		c.t.Errorf("Cloud Foundry has %d keys, want one", n)
	}
	c.gone(id, plan)
	c.nothingLeft(id)
}

func korifiEarlyBind(c tenant) {
	id, create := c.starts("postgres/async")
	op := c.bind(id, "early", "postgres/async", "", async).want(c.t, 202).operation()
	c.succeeds(at(id), create)
	c.succeeds(bindingAt(id, "early"), op)
	c.send("GET", bindingAt(id, "early"), "").want(c.t, 200)
}
