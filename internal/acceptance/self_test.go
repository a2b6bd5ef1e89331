package acceptance

import (
	"encoding/json"
	"log/slog"
	"net/http"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestFaultsAreSeen shows that the checks made of every answer can fail.
func TestFaultsAreSeen(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		status              int
		body, method, query string
		wait, kind          string
		want                []string
	}{
		"a good refusal":          {status: 409, body: `{"error":"Conflict","description":"d"}`},
		"a good 202":              {status: 202, body: `{"operation":"o"}`, query: "accepts_incomplete=true", wait: "2"},
		"410 has an empty body":   {status: 410, body: `{}`},
		"an HTML page":            {status: 200, body: "<html>", kind: "text/html", want: []string{"not said to be JSON", "no JSON object"}},
		"202 unasked":             {status: 202, body: `{"operation":"o"}`, wait: "1", want: []string{"202 without accepts_incomplete"}},
		"202 without operation":   {status: 202, body: `{}`, query: "accepts_incomplete=true", wait: "1", want: []string{"202 without operation or Retry-After"}},
		"a date to retry after":   {status: 200, body: `{}`, wait: "Mon, 30 Nov 2026 10:00:00 GMT", want: []string{"Retry-After Mon, 30 Nov 2026 10:00:00 GMT"}},
		"an hour to retry after":  {status: 200, body: `{}`, wait: "3600", want: []string{"Retry-After 3600"}},
		"an empty description":    {status: 200, body: `{"description":""}`, want: []string{"an empty description"}},
		"an error without a word": {status: 400, body: `{"description":"d"}`, want: []string{"no OSB error body"}},
		"an error of two words":   {status: 400, body: `{"error":"bad request","description":"d"}`, want: []string{"no OSB error body"}},
		"update_repeatable of PUT": {status: 400, method: "PUT", body: `{"error":"Bad","description":"d","update_repeatable":false}`,
			want: []string{"update_repeatable"}},
		"instance_usable of PUT": {status: 400, method: "PUT", body: `{"error":"Bad","description":"d","instance_usable":false}`, want: []string{"instance_usable"}},
		"both of PATCH":          {status: 422, method: "PATCH", body: `{"error":"Bad","description":"d","instance_usable":true,"update_repeatable":false}`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := answer{status: test.status, body: test.body, header: http.Header{"Content-Type": {or(test.kind, "application/json")}}}
			if test.wait != "" {
				a.header.Set("Retry-After", test.wait)
			}
			if err := json.Unmarshal([]byte(test.body), &a.fields); err != nil && test.kind == "" {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, a.faults(test.method, test.query)); diff != "" {
				t.Errorf("faults (-want +got):\n%s", diff)
			}
		})
	}
}

// TestLogsAreRead shows that a loud line and a secret are found, and that attributes
// of derived loggers are read too.
func TestLogsAreRead(t *testing.T) {
	t.Parallel()
	j := &journal{pages: &pages{}}
	logger := slog.New(j)
	logger.Info("healthy")
	if found := j.complaints(slog.LevelInfo); len(found) != 0 {
		t.Errorf("complaints about a healthy log: %v", found)
	}
	logger.Warn("loud")
	logger.With("parameters", secret).Info("telling")
	if found := j.complaints(slog.LevelInfo); len(found) != 2 {
		t.Errorf("complaints %v, want two", found)
	}
	if found := j.complaints(slog.LevelWarn); len(found) != 1 {
		t.Errorf("complaints %v, want one", found)
	}
}

// TestTracesAreSeen shows that print, by which a refusal is found to have left no
// trace, changes with everything that it should see.
func TestTracesAreSeen(t *testing.T) {
	t.Parallel()
	c := start(t)
	const plan = "postgres/small"
	id, binding := c.id(), c.id()
	prints := []string{c.print(id, binding)}
	note := func(what string) {
		t.Helper()
		if p := c.print(id, binding); slices.Contains(prints, p) {
			t.Errorf("%s is not seen:\n%s", what, p)
		} else {
			prints = append(prints, p)
		}
	}
	c.succeeds(at(id), c.put(id, plan, "", async).want(t, http.StatusAccepted).operation())
	note("a create")
	c.succeeds(at(id), c.patch(id, plan, `"parameters":{"a":1}`, async).want(t, http.StatusAccepted).operation())
	note("an update")
	c.bind(id, binding, plan, "", plain).want(t, http.StatusCreated)
	note("a bind")
	c.unbind(id, binding, plan, plain).want(t, http.StatusOK)
	note("an unbind")
	c.gone(id, plan)
	note("a delete")
}
