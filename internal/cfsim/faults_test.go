package cfsim

import (
	"context"
	"net/http"
	"net/url"
	"testing"
	"time"
)

// fault adds one.
func (c *cloud) fault(json string) { c.t.Helper(); c.must(200, "POST", "/__sim/faults", json) }

const onCreate = `"method":"POST","route":"/v3/service_instances"`

func TestFaultLosesCalls(t *testing.T) {
	t.Parallel()
	for when, rows := range map[string]int{"before": 0, "after": 1} {
		t.Run("a dropped call has an effect only "+when, func(t *testing.T) {
			t.Parallel()
			c := start(t, quick())
			body := c.instanceBody("it", "postgres/small", "")
			c.fault(`{` + onCreate + `,"times":1,"when":"` + when + `","action":"drop"}`)
			if r, err := c.try(c.request("POST", "/v3/service_instances", body)); err == nil {
				t.Errorf("got an answer: %d %s", r.status, r.body)
			}
			if n := len(c.state().Instances); n != rows {
				t.Errorf("%d rows, want %d", n, rows)
			}
			if n := c.state().Requests["POST /v3/service_instances"]; n != 1 {
				t.Errorf("counted %d times, want once", n)
			}
		})
		t.Run("an answer is replaced "+when, func(t *testing.T) {
			t.Parallel()
			c := start(t, quick())
			body := c.instanceBody("it", "postgres/small", "")
			c.fault(`{` + onCreate + `,"times":1,"when":"` + when + `","action":"respond","status":502,"headers":{"X-Cf-Routererror":"endpoint_failure"},"body":"<html>"}`)
			r := c.do("POST", "/v3/service_instances", body)
			if r.status != 502 || string(r.body) != "<html>" || r.header.Get("X-Cf-Routererror") != "endpoint_failure" || r.header.Get("Location") != "" {
				t.Errorf("got %d %v %s", r.status, r.header, r.body)
			}
			if n := len(c.state().Instances); n != rows {
				t.Errorf("%d rows, want %d", n, rows)
			}
		})
	}
}

// TestFaultDelaysEffect gives up on a call that is held up; it takes effect
// all the same.
func TestFaultDelaysEffect(t *testing.T) {
	t.Parallel()
	c := start(t, quick())
	body := c.instanceBody("it", "postgres/small", "")
	c.fault(`{` + onCreate + `,"times":1,"when":"before","action":"delay","delay_ms":1000}`)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := c.try(c.request("POST", "/v3/service_instances", body).WithContext(ctx)); err == nil {
		t.Fatal("the call came back at once")
	}
	if n := len(c.state().Instances); n != 0 {
		t.Errorf("%d rows before the delay is over", n)
	}
	eventually(t, "late row", func() bool { return len(c.state().Instances) == 1 })
}

func TestFaultDelaysAnswer(t *testing.T) {
	t.Parallel()
	c := start(t, quick())
	body := c.instanceBody("it", "postgres/small", "")
	c.fault(`{` + onCreate + `,"times":1,"when":"after","action":"delay","delay_ms":100}`)
	answered := make(chan result, 1)
	request := c.request("POST", "/v3/service_instances", body)
	begin := time.Now()
	go func() {
		r, err := c.try(request)
		if err != nil {
			t.Error(err)
		}
		answered <- r
	}()
	eventually(t, "row before the answer", func() bool { return len(c.state().Instances) == 1 })
	if r := <-answered; r.status != 202 || time.Since(begin) < 100*time.Millisecond {
		t.Errorf("answer %d after %v", r.status, time.Since(begin))
	}
}

func TestFaultMatches(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		fault string
		hit   bool
	}{
		"any method and route":          {`{"method":"*","route":"*","action":"respond","status":599}`, true},
		"route with a GUID":             {`{"route":"/v3/service_instances/:guid","action":"respond","status":599}`, true},
		"route as it is in the request": {`{"route":"/v3/service_instances/abc","action":"respond","status":599}`, true},
		"another route":                 {`{"route":"/v3/service_instances","action":"respond","status":599}`, false},
		"another method":                {`{"method":"DELETE","route":"*","action":"respond","status":599}`, false},
		"part of the body":              {`{"match":"needle","action":"respond","status":599}`, true},
		"part of the URL":               {`{"match":"fields[space]=gu","action":"respond","status":599}`, true},
		"neither":                       {`{"match":"elsewhere","action":"respond","status":599}`, false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := start(t, quick())
			c.fault(test.fault)
			r := c.do("PATCH", "/v3/service_instances/abc?fields%5Bspace%5D=guid", `{"name":"needle"}`)
			if hit := r.status == 599; hit != test.hit {
				t.Errorf("hit %v, want %v", hit, test.hit)
			}
			c.must(200, "DELETE", "/__sim/faults", "")
			if r := c.do("PATCH", "/v3/service_instances/abc", `{}`); r.status != 404 {
				t.Errorf("a cleared fault still strikes: %d", r.status)
			}
		})
	}
}

func TestFaultIsUsedUp(t *testing.T) {
	t.Parallel()
	c := start(t, quick())
	c.fault(`{"method":"GET","route":"/v3/spaces","times":2,"action":"respond"}`)
	c.fault(`{"method":"GET","route":"/v3/info","times":0,"action":"respond","status":429}`)
	c.must(503, "GET", "/v3/spaces", "")
	c.must(429, "GET", "/v3/info", "")
	list := c.must(200, "GET", "/__sim/faults", "")
	if list.at(0, "hits") == nil || list.str(0, "route") != "/v3/spaces" || list.at(1) == nil || list.at(2) != nil {
		t.Errorf("faults: %s", list.body)
	}
	c.must(503, "GET", "/v3/spaces", "")
	c.must(200, "GET", "/v3/spaces", "")
	if list := c.must(200, "GET", "/__sim/faults", ""); list.str(0, "route") != "/v3/info" || list.at(1) != nil {
		t.Errorf("faults: %s", list.body)
	}
}

func TestFaultOnTokens(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"/uaa/oauth/token", "/oauth/token"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := start(t, quick())
			c.fault(`{"method":"POST","route":"` + name + `","times":1,"action":"respond","status":503}`)
			form := url.Values{"grant_type": {"client_credentials"}}
			if r := c.login(form, "ferry", "ferry"); r.status != 503 {
				t.Errorf("got %d, want 503", r.status)
			}
			if r := c.login(form, "ferry", "ferry"); r.status != http.StatusOK {
				t.Errorf("got %d, want 200", r.status)
			}
		})
	}
}

// TestCloseEndsDelays keeps a held-up call from taking effect later.
func TestCloseEndsDelays(t *testing.T) {
	t.Parallel()
	c := start(t, quick())
	c.fault(`{"method":"GET","route":"/v3/info","action":"delay","delay_ms":3600000}`)
	failed := make(chan error, 1)
	request := c.request("GET", "/v3/info", "")
	go func() {
		_, err := c.try(request)
		failed <- err
	}()
	eventually(t, "hit", func() bool { return c.state().Requests["GET /v3/info"] == 1 })
	c.sim.Close()
	if err := <-failed; err == nil {
		t.Error("the call was answered")
	}
}
