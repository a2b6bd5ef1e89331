package acceptance

import (
	"fmt"
	"net/http"
	"testing"
)

// call is one route, as a platform uses it.
type call struct {
	name, method, path, body string
	// absent is what the route answers for ids that nobody has.
	absent int
}

// everyRoute is each route with an instance id and a binding id.
func everyRoute(c tenant, id, binding string) []call {
	hints := "?accepts_incomplete=true&" + fmt.Sprintf("service_id=%s&plan_id=%s", c.plan("postgres/small").service, c.plan("postgres/small").plan)
	service := fmt.Sprintf(`{"service_id":%q,"parameters":{"a":9}}`, c.plan("postgres/small").service)
	return []call{
		{"fetch instance", "GET", at(id), "", 404},
		{"poll instance", "GET", at(id) + "/last_operation", "", 404},
		{"update", "PATCH", at(id) + "?accepts_incomplete=true", service, 404},
		{"bind", "PUT", bindingAt(id, binding), c.bindBody("postgres/small", ""), 404},
		{"bind another", "PUT", bindingAt(id, "another") + "?accepts_incomplete=true", c.bindBody("postgres/small", ""), 404},
		{"fetch binding", "GET", bindingAt(id, binding), "", 404},
		{"poll binding", "GET", bindingAt(id, binding) + "/last_operation", "", 404},
		{"unbind", "DELETE", bindingAt(id, binding) + hints, "", 410},
		{"deprovision", "DELETE", at(id) + hints, "", 410},
	}
}

// TestClients shows two platforms of one broker: neither sees the other's ids.
func TestClients(t *testing.T) {
	t.Parallel()
	c := start(t)
	t.Run("ids of the other are absent", func(t *testing.T) {
		one := c.parallel(t)
		id, binding := one.bound("postgres/small")
		two := one.other()
		before := one.print(id, binding)
		for _, q := range everyRoute(two, id, binding) {
			if a := two.send(q.method, q.path, q.body); a.status != q.absent {
				t.Errorf("%s: %d %s, want %d as for an absent id", q.name, a.status, a.body, q.absent)
			}
		}
		if after := one.print(id, binding); after != before {
			t.Errorf("the owner's things changed\nbefore %s\nafter %s", before, after)
		}
		// The other direction: each of these routes knows the ids of its own client.
		for _, q := range everyRoute(one, id, binding) {
			if a := one.send(q.method, q.path, q.body); a.status == 404 || a.status == 410 {
				t.Errorf("%s by the owner: %d %s", q.name, a.status, a.body)
			}
		}
	})
	t.Run("the same ids are two things in two orgs", func(t *testing.T) { sameIDs(c.parallel(t)) })
	t.Run("credentials of one do not fit the other", func(t *testing.T) { mixedCredentials(c.parallel(t)) })
}

func sameIDs(one tenant) {
	two := one.other()
	id, binding := one.bound("postgres/small")
	op := two.put(id, "postgres/large", `{"mine":2}`, async).want(two.t, http.StatusAccepted).operation()
	two.succeeds(at(id), op)
	one.put(id, "postgres/small", "", async).want(one.t, http.StatusOK)
	theirs := two.bind(id, binding, "postgres/large", "", plain).want(two.t, http.StatusCreated)
	ours := one.bind(id, binding, "postgres/small", "", plain).want(one.t, http.StatusOK)
	if theirs.credentials() == ours.credentials() {
		one.t.Error("two platforms share credentials")
	}
	if a, b := one.row(id), two.row(id); a.GUID == b.GUID || a.Plan != "small" || b.Plan != "large" {
		one.t.Errorf("in Cloud Foundry: %+v and %+v", a, b)
	}
	two.gone(id, "postgres/large")
	two.nothingLeft(id)
	again := one.bind(id, binding, "postgres/small", "", plain).want(one.t, http.StatusOK)
	if again.credentials() != ours.credentials() {
		one.t.Error("the credentials changed when the other platform deleted its instance")
	}
	one.askedFor(0, "deprovision", id, "")
	two.askedFor(1, "deprovision", id, "")
}

// mixedCredentials: AUTH-01, AUTH-02, AUTH-07.
func mixedCredentials(c tenant) {
	id, binding := c.bound("postgres/small")
	before := c.print(id, binding)
	routes := append(everyRoute(c, id, binding), call{name: "catalog", method: "GET", path: "/v2/catalog"},
		call{name: "provision", method: "PUT", path: at(id) + async.query(), body: c.createBody("postgres/small", "")})
	for _, pair := range [][2]string{{"demo", "second's"}, {"second", "demo"}, {"demo", ""}, {"", "demo"}, {"", ""}, {"demo", "demo "}, {"Demo", "demo"}} {
		stranger := c
		stranger.user, stranger.secret = pair[0], pair[1]
		for _, q := range routes {
			a := stranger.send(q.method, q.path, q.body)
			a.says(c.t, http.StatusUnauthorized, "Unauthorized")
			if a.header.Get("Www-Authenticate") == "" {
				c.t.Errorf("%s: 401 without WWW-Authenticate", q.name)
			}
		}
	}
	for _, scheme := range []string{"", "Bearer demo", "Basic", "Basic !!!", "basic ZGVtbw=="} {
		for _, q := range routes {
			set := func(r *http.Request) { r.Header.Set("Authorization", scheme) }
			c.send(q.method, q.path, q.body, set).says(c.t, http.StatusUnauthorized, "Unauthorized")
		}
	}
	if after := c.print(id, binding); after != before {
		c.t.Errorf("something changed\nbefore %s\nafter %s", before, after)
	}
}
