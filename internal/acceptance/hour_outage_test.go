package acceptance

import (
	"log/slog"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"
)

// TestHour takes Cloud Foundry away for an hour: everything is answered, what is asked
// for is done afterwards, nothing fails, and the log stays readable (law 10).
func TestHour(t *testing.T) {
	t.Parallel()
	for name, trouble := range troubles() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			underClock(t, nil, func(h hours) { h.outage(trouble) })
		})
	}
}

// troubles are ways in which a Cloud Foundry is not there.
func troubles() map[string]http.HandlerFunc {
	page := func(status int, router, body string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/html")
			if router != "" {
				w.Header().Set("X-Cf-RouterError", router)
			}
			w.WriteHeader(status)
			_, _ = w.Write([]byte(body)) // whoever went does not miss it
		}
	}
	return map[string]http.HandlerFunc{
		"connections are cut":        func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
		"a router knows no API":      page(404, "unknown_route", "404 Not Found: Requested route ('api.x') does not exist."),
		"a load balancer gives up":   page(504, "", "<html>504 Gateway Time-out</html>"),
		"it is down for maintenance": page(503, "", "API down for maintenance"),
	}
}

// errand is something that a platform wants, and asks for again and again.
type errand struct {
	path, operation string
	again           func() answer
}

func (h hours) outage(trouble http.HandlerFunc) {
	const plan = "postgres/small"
	updated, doomed, bound, other := h.prepared(plan), h.prepared(plan), h.prepared(plan), h.prepared(plan)
	h.bind(bound, "old", plan, "", plain).want(h.t, 201)
	underway, op := h.starts("postgres/async")
	h.trouble.Store(&trouble)
	began := h.now()
	errands := []errand{{at(underway), op, func() answer { return h.put(underway, "postgres/async", `{"a":1}`, async) }}}
	for _, again := range []struct {
		path string
		send func() answer
	}{
		{at("fresh"), func() answer { return h.put("fresh", plan, `{"a":1}`, async) }},
		{at(updated), func() answer { return h.patch(updated, plan, `"parameters":{"a":2}`, async) }},
		{at(doomed), func() answer { return h.delete(doomed, plan, async) }},
		{bindingAt(bound, "new"), func() answer { return h.bind(bound, "new", plan, "", async) }},
		{bindingAt(bound, "old"), func() answer { return h.unbind(bound, "old", plan, async) }},
	} {
		errands = append(errands, errand{again.path, again.send().want(h.t, 202).operation(), again.send})
	}
	for h.now().Sub(began) < time.Hour {
		h.pass(time.Minute)
		h.business(errands, other)
	}
	h.trouble.Store(nil)
	for _, e := range errands {
		h.succeeds(e.path, e.operation)
	}
	h.settled(underway, updated, doomed, bound)
	h.quiet(began)
}

// business is what platforms do once a minute.
func (h hours) business(errands []errand, ready string) {
	h.t.Helper()
	h.send("GET", "/v2/catalog", "").want(h.t, 200)
	h.put(ready, "postgres/small", `{"a":1}`, async).bare(h.t, 200)
	for _, e := range errands {
		if a := e.again().want(h.t, 202); a.operation() != e.operation {
			h.t.Errorf("%s: the operation %s, want %s", a.request, a.operation(), e.operation)
		}
		if a := h.poll(e.path, e.operation).want(h.t, 200); a.state() != "in progress" {
			h.t.Errorf("%s: %s, want in progress", a.request, a.body)
		}
	}
}

// settled checks what became of the errands.
func (h hours) settled(underway, updated, doomed, bound string) {
	h.t.Helper()
	for _, id := range []string{underway, "fresh", updated, bound} {
		h.row(id)
		h.askedFor(1, "provision", id, "")
	}
	h.hasParameters(updated, `{"a":2}`)
	h.askedFor(1, "update", updated, "")
	h.nothingLeft(doomed)
	h.askedFor(1, "deprovision", doomed, "")
	h.askedFor(1, "unbind", bound, "old")
	h.askedFor(1, "bind", bound, "new")
	h.send("GET", bindingAt(bound, "new"), "").want(h.t, 200)
}

var stamp = regexp.MustCompile(`time=(\S+)`)

// quiet checks the log of an outage: no line above WARN, and at most one WARN a minute,
// all of one client here.
func (h hours) quiet(began time.Time) {
	h.t.Helper()
	h.journal.check(h.t, slog.LevelWarn)
	lines := h.journal.find(slog.LevelWarn)
	if len(lines) == 0 || len(lines) > 62 {
		h.t.Errorf("%d warnings in an hour, want some and at most one a minute:\n%s", len(lines), strings.Join(lines, ""))
	}
	last := time.Time{}
	for _, l := range lines {
		when, err := time.Parse(time.RFC3339, stamp.FindStringSubmatch(l)[1])
		if err != nil {
			h.t.Fatal(err)
		}
		if when.Sub(last) < time.Minute-time.Millisecond {
			h.t.Errorf("a warning %s after the one before: %s", when.Sub(last), l)
		}
		if last = when; when.Before(began.Truncate(time.Second)) {
			h.t.Errorf("a warning before the outage: %s", l)
		}
	}
}

// TestHourOfPolling has a job that is POLLING for hours: it goes on, and Cloud Foundry
// is asked at the pace that the configuration has (scenario 21).
func TestHourOfPolling(t *testing.T) {
	t.Parallel()
	underClock(t, nil, func(h hours) {
		id, op := h.starts("faults/create-stalls")
		h.pass(10 * time.Second)
		before, ticks := h.sent("GET "+instances), h.ticks.Load()
		for range 5 {
			h.pass(time.Hour)
			a := h.poll(at(id), op).want(t, 200)
			if a.state() != "in progress" || a.header.Get("Retry-After") == "" {
				t.Errorf("%s: %s, Retry-After %q", a.request, a.body, a.header.Get("Retry-After"))
			}
		}
		asked, steps := h.sent("GET "+instances)-before, int(h.ticks.Load()-ticks)
		if asked != steps || steps < 60 || steps > 5*60+20 {
			t.Errorf("%d look-ups in %d steps in five hours", asked, steps)
		}
		h.force(h.row(id).GUID, "create", "succeeded", "COMPLETE")
		h.succeeds(at(id), op)
		h.askedFor(1, "provision", id, "")
		h.sentTimes(1, "POST "+instances)
	})
}
