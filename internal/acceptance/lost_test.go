package acceptance

import (
	"fmt"
	"net/http"
	"testing"
	"time"
)

// TestLostAnswers cancels a create whose POST has an unknown fate: the DELETE may end
// only when that POST can take effect no more (law 7, protocol.md 6).
func TestLostAnswers(t *testing.T) {
	t.Parallel()
	// The first look after the POST comes later than the DELETE.
	c := start(t, func(s *settings) { s.config.Polling.First, s.config.Polling.Max = time.Second, time.Second })
	var all []lost
	for name, f := range fates() {
		for _, plan := range []string{"postgres/small", "postgres/async", "faults/create-stalls"} {
			s := subject{id: c.id(), plan: plan}
			// A name in JSON, so that id-1 is not found in id-11.
			f.Method, f.Route, f.Times, f.Match = "POST", instances, 1, fmt.Sprintf("%q", s.id)
			c.disturb(f)
			s.operation = c.put(s.id, plan, "", async).want(t, http.StatusAccepted).operation()
			c.struck()
			deletion := c.delete(s.id, plan, async).want(t, http.StatusAccepted).operation()
			all = append(all, lost{name + " on " + plan, s, deletion})
		}
	}
	for _, l := range all {
		t.Run(l.name, func(t *testing.T) { l.check(c.in(t)) })
	}
}

// lost is a create whose POST had an unknown fate, and its delete.
type lost struct {
	name string
	subject
	deletion string
}

// fates are what may become of a POST whose answer tells nothing.
func fates() map[string]fault {
	return map[string]fault{
		"it took effect and the answer was lost":  {When: "after", Action: "drop"},
		"it got lost":                             {When: "before", Action: "drop"},
		"it takes effect after the DELETE":        {When: "before", Action: "delay", DelayMS: 1500},
		"its answer comes late":                   {When: "after", Action: "delay", DelayMS: 1500},
		"a router answered 502 after it":          {When: "after", Action: "respond", Status: 502, Body: "<html>bad gateway</html>"},
		"Cloud Foundry answered 500 after it":     {When: "after", Action: "respond", Status: 500, Body: `{"errors":[{"code":10001,"title":"UnknownError","detail":"x"}]}`},
		"a proxy answered 202 without a Location": {When: "after", Action: "respond", Status: 202, Body: ""},
	}
}

func (l lost) check(c tenant) {
	c.succeeds(at(l.id), l.deletion)
	c.fails(at(l.id), l.operation, "cancelled")
	c.nothingLeft(l.id)
	if made, removed := c.asked("provision", l.id, ""), c.asked("deprovision", l.id, ""); made != removed {
		c.t.Errorf("the backing broker made %d and removed %d", made, removed)
	}
	c.put(l.id, "postgres/small", "", async).want(c.t, http.StatusAccepted) // free again
}

// TestLostCreates are not cancelled: they end well, with one instance.
func TestLostCreates(t *testing.T) {
	t.Parallel()
	for name, f := range map[string]fault{
		"the answer was lost":        {When: "after", Action: "drop"},
		"the call was lost":          {When: "before", Action: "drop"},
		"the call takes effect late": {When: "before", Action: "delay", DelayMS: 700},
		"a router answered 502":      {When: "after", Action: "respond", Status: 502, Body: "<html>bad gateway</html>"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := start(t)
			f.Method, f.Route, f.Times = "POST", instances, 1
			c.disturb(f)
			s := created(c, "postgres/small")
			c.succeeds(at(s.id), s.operation)
			c.askedFor(1, "provision", s.id, "")
			f.Route = keys
			c.disturb(f)
			binding := c.id()
			c.bind(s.id, binding, s.plan, "", plain).want(t, http.StatusCreated)
			oneKey(c, s.id, binding)
			f.Method, f.Route = "PATCH", instance
			c.disturb(f)
			op := c.patch(s.id, s.plan, `"parameters":{"a":2}`, async).want(t, http.StatusAccepted).operation()
			c.succeeds(at(s.id), op)
			if got := string(c.row(s.id).Parameters); got != `{"a":2}` {
				t.Errorf("the backing broker has %s", got)
			}
		})
	}
}

func unbindLostPost(c tenant) {
	const plan = "faults/bind-stalls"
	faults := []fault{{When: "after", Action: "drop"}, {When: "before", Action: "drop"}, {When: "before", Action: "delay", DelayMS: 1000}}
	unbinds := make([]subject, len(faults))
	for i, f := range faults {
		s := subject{id: c.ready(plan, ""), binding: c.id()}
		f.Method, f.Route, f.Times = "POST", keys, 1
		c.disturb(f)
		s.operation = c.bind(s.id, s.binding, plan, "", async).want(c.t, http.StatusAccepted).operation()
		c.struck()
		s.target = c.unbind(s.id, s.binding, plan, async).want(c.t, http.StatusAccepted).operation()
		unbinds[i] = s
	}
	for i, s := range unbinds {
		c.succeeds(bindingAt(s.id, s.binding), s.target)
		c.fails(bindingAt(s.id, s.binding), s.operation, "cancelled")
		if row := c.row(s.id); len(row.Keys) != 0 {
			c.t.Errorf("%+v: left in Cloud Foundry: %+v", faults[i], row.Keys)
		}
		if made, removed := c.asked("bind", s.id, s.binding), c.asked("unbind", s.id, s.binding); made != removed {
			c.t.Errorf("%+v: the backing broker made %d and removed %d", faults[i], made, removed)
		}
	}
}

// TestBadDays lets Cloud Foundry answer badly for a while: operations still end well
// (law 8), each having been carried out once.
func TestBadDays(t *testing.T) {
	t.Parallel()
	for name, f := range map[string]fault{
		"502 HTML":             html(http.StatusBadGateway),
		"500":                  {Status: 500, Body: `{"errors":[{"code":10001,"title":"UnknownError","detail":"An unknown error occurred."}]}`},
		"429 with Retry-After": {Status: 429, Headers: map[string]string{"Retry-After": "1"}, Body: `{"errors":[{"code":10013,"title":"CF-RateLimitExceeded","detail":"Rate Limit Exceeded"}]}`},
		"401":                  {Status: 401, Body: `{"errors":[{"code":1000,"title":"CF-InvalidAuthToken","detail":"Invalid Auth Token"}]}`},
		"404 of a router":      {Status: 404, Headers: map[string]string{"X-Cf-Routererror": "unknown_route"}, Body: "404 Not Found: Requested route does not exist."},
		"connections dropped":  {Action: "drop"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := start(t, warnings)
			f.Times, f.When = 6, "before"
			if f.Action == "" {
				f.Action = "respond"
			}
			const plan = "postgres/async"
			c.disturb(f)
			s := created(c, plan)
			c.succeeds(at(s.id), s.operation)
			c.struck()
			f.Times = 3
			c.disturb(f)
			op := c.patch(s.id, plan, `"parameters":{"a":2}`, async).want(t, http.StatusAccepted).operation()
			c.succeeds(at(s.id), op)
			c.struck()
			c.disturb(f)
			binding := c.id()
			c.bind(s.id, binding, plan, "", plain).want(t, http.StatusCreated)
			c.struck()
			c.control("POST", "/tokens/expire", "")
			c.disturb(f)
			c.gone(s.id, plan)
			c.struck()
			c.nothingLeft(s.id)
			for _, word := range []string{"provision", "update", "deprovision"} {
				c.askedFor(1, word, s.id, "")
			}
			c.askedFor(1, "bind", s.id, binding)
			c.askedFor(1, "unbind", s.id, binding)
		})
	}
}

// TestOutage shows law 10: while nothing useful comes from Cloud Foundry, platforms
// work on, and everything gets done afterwards.
func TestOutage(t *testing.T) {
	t.Parallel()
	for name, f := range map[string]fault{"HTML": html(503), "nothing": {Action: "drop", When: "before"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := start(t, warnings, budget(time.Second))
			outage(c, f)
		})
	}
}

func outage(c tenant, f fault) {
	const plan = "postgres/small"
	s, doomed := readyInstance(c), readyInstance(c)
	bound, binding := c.bound(plan)
	running := created(c, "postgres/async")
	c.disturb(f)
	fresh := created(c, plan)
	update := c.patch(s.id, plan, `"parameters":{"a":2}`, async).want(c.t, http.StatusAccepted).operation()
	deletion := c.delete(doomed.id, plan, async).want(c.t, http.StatusAccepted).operation()
	bind := c.bind(bound, "later", plan, "", async).want(c.t, http.StatusAccepted).operation()
	unbind := c.unbind(bound, binding, plan, async).want(c.t, http.StatusAccepted).operation()
	ended := map[string]string{}
	for range 3 {
		c.send("GET", "/v2/catalog", "").want(c.t, http.StatusOK)
		for _, a := range []answer{
			c.put(fresh.id, plan, fresh.parameters, async), c.put(running.id, running.plan, running.parameters, async),
			c.patch(s.id, plan, `"parameters":{"a":2}`, async), c.delete(doomed.id, plan, async),
			c.bind(bound, "later", plan, "", async), c.unbind(bound, binding, plan, async),
		} {
			a.want(c.t, http.StatusAccepted)
			if first, found := ended[a.request]; found && first != a.operation() {
				c.t.Errorf("%s: operation %s, before it was %s", a.request, a.operation(), first)
			}
			ended[a.request] = a.operation()
		}
		c.put(fresh.id, plan, `{"a":3}`, async).says(c.t, http.StatusConflict, "Conflict")
		for path, op := range map[string]string{at(fresh.id): fresh.operation, at(s.id): update, at(doomed.id): deletion, bindingAt(bound, "later"): bind} {
			if a := c.poll(path, op); a.status != http.StatusOK || a.state() != "in progress" {
				c.t.Errorf("%s: %d %s, want in progress", a.request, a.status, a.body)
			}
		}
	}
	c.send("GET", "/readyz", "").want(c.t, http.StatusOK)
	c.heal()
	c.succeeds(at(fresh.id), fresh.operation)
	c.succeeds(at(running.id), running.operation)
	c.succeeds(at(s.id), update)
	c.succeeds(at(doomed.id), deletion)
	c.succeeds(bindingAt(bound, "later"), bind)
	c.succeeds(bindingAt(bound, binding), unbind)
	c.nothingLeft(doomed.id)
	for _, id := range []string{fresh.id, running.id, s.id} {
		c.askedFor(1, "provision", id, "")
	}
	oneKey(c, bound, "later")
}
