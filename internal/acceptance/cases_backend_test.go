package acceptance

import (
	"strings"
)

// exotic are credentials with everything that a wrong decoder spoils.
const exotic = `{"a.b":1,"ünï":"ö","n":null,"big":12345678901234567890,"nest":{"x":[1,{}]},"html":"<&>","quoted":"\"\\\n%","f":1.50}`

func backendCases() []clause {
	return []clause{
		{"CRD-01 CRD-02 credentials arrive as they are", func(c tenant) {
			id, binding := c.one(), "exotic"
			c.bind(id, binding, "postgres/small", "", plain).want(c.t, 201)
			guid := c.row(id).Keys[0].GUID
			c.disturb(fault{Method: "GET", Route: key + "/details", Match: guid, When: "before", Action: "respond", Status: 200, Body: `{"credentials":` + exotic + `}`})
			for _, a := range []answer{c.bind(id, binding, "postgres/small", "", plain), c.send("GET", bindingAt(id, binding), "")} {
				if a.want(c.t, 200); a.credentials() != exotic {
					c.t.Errorf("%s: %s, want %s", a.request, a.credentials(), exotic)
				}
			}
		}},
		{"CFC-01 tokens that end do not matter", func(c tenant) {
			c.control("POST", "/tokens/expire", "")
			ids := make([]string, 10)
			for i := range ids {
				ids[i] = c.id()
			}
			for i, a := range together(len(ids), func(i int) answer { return c.put(ids[i], "postgres/small", "", async) }) {
				c.succeeds(at(ids[i]), a.want(c.t, 202).operation())
			}
		}},
		{"CFC-03 CFC-09 CFC-14 credentials of a key that takes its time", func(c tenant) {
			const plan = "postgres/async-bindings"
			id := c.ready(plan, "")
			if a := c.bind(id, c.id(), plan, "", plain).want(c.t, 201); !strings.Contains(a.credentials(), "postgres://") {
				c.t.Errorf("%s: %s", a.request, a.body)
			}
			for request := range c.cf().Requests {
				if strings.Contains(request, " /v2") {
					c.t.Errorf("the old API was asked: %s", request)
				}
			}
		}},
		{"CFC-05 LOP-12 jobs that cannot be read for a moment are read later", func(c tenant) {
			c.disturb(fault{Method: "GET", Route: "/v3/jobs/:guid", Times: 2, When: "before", Action: "respond", Status: 502, Body: "<html>bad gateway</html>"})
			c.ready("postgres/async", "")
		}},
		{"CFC-06 a 202 without Location", func(c tenant) {
			const id = "no-location"
			c.disturb(fault{Method: "POST", Route: instances, Match: id, Times: 1, When: "after", Action: "respond", Status: 202})
			c.succeeds(at(id), c.put(id, "postgres/async", "", async).want(c.t, 202).operation())
			c.askedFor(1, "provision", id, "")
		}},
		{"CFC-07 a rate limit is waited out", func(c tenant) {
			const id = "limited"
			c.disturb(fault{Method: "POST", Route: instances, Match: id, Times: 2, When: "before", Action: "respond", Status: 429, Headers: map[string]string{"Retry-After": "1"},
				Body: `{"errors":[{"code":10013,"title":"CF-RateLimitExceeded","detail":"Rate Limit Exceeded"}]}`})
			c.succeeds(at(id), c.put(id, "postgres/small", "", async).want(c.t, 202).operation())
			c.askedFor(1, "provision", id, "")
		}},
		{"CFC-10 long ids are names, uncut", func(c tenant) {
			id := strings.Repeat("n", 200)
			c.succeeds(at(id), c.put(id, "postgres/small", "", async).want(c.t, 202).operation())
			c.row(id)
			c.gone(id, "postgres/small")
		}},
		{"CFC-12 two platforms with one id", twoPlatforms},
		{"CFC-13 what is retried and what is final", func(c tenant) {
			for status, id := range map[int]string{502: "retried-502", 503: "retried-503", 500: "retried-500"} {
				c.disturb(fault{Method: "POST", Route: instances, Match: id, Times: 1, When: "before", Action: "respond", Status: status, Body: "<html>"})
				c.succeeds(at(id), c.put(id, "postgres/small", "", async).want(c.t, 202).operation())
			}
			c.disturb(refusedBy("final-422", 422, "CF-UnprocessableEntity", "no such luck"))
			c.fails(at("final-422"), c.put("final-422", "postgres/small", "", async).want(c.t, 202).operation(), "no such luck")
		}},
		{"SEC-01 what is secret gets nowhere but to the backing broker", func(c tenant) {
			id := c.ready("postgres/small", `{"password":"`+secret+`"}`)
			c.bind(id, c.id(), "postgres/small", `{"password":"`+secret+`"}`, plain).want(c.t, 201)
			c.put(id, "postgres/small", `{"password":"`+secret+`2"}`, async).want(c.t, 409)
			if a := c.send("PUT", at(id), `{"parameters":{"password":"`+secret); strings.Contains(a.body, secret) {
				c.t.Errorf("%s: %s", a.request, a.body)
			} // that the log has none of it is checked when the broker stops
		}},
	}
}
