package cf

import (
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/ferry-broker/ferry/internal/broker"
	"github.com/ferry-broker/ferry/internal/ccapi"
	"github.com/ferry-broker/ferry/internal/lifecycle"
)

// otherOffering is a call of an offering that the stub has no space for.
func otherOffering() broker.InstanceCall {
	c := testCall()
	c.Offering = "mysql"
	return c
}

func TestSpaceScenarios(t *testing.T) {
	t.Parallel()
	t.Run("scenario_15_the_space_is_made", spaceIsMadeOnceAndRemembered)
	t.Run("scenario_15_somebody_else_was_quicker", spaceThatSomebodyElseMadeIsFound) // race R16
	t.Run("scenario_16_the_space_vanished", spaceThatIsGoneIsForgotten)
}

func spaceIsMadeOnceAndRemembered(t *testing.T) {
	t.Parallel()
	s := newStub(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/v3/spaces" {
			reply(w, 201, `{"guid":"new-space","name":"mysql"}`)
			return
		}
		accept(w, r)
	})
	b := s.backend(t, nil)
	for range 2 {
		if answer, err := b.CreateInstance(t.Context(), otherOffering()); answer.Reply != lifecycle.ReplyAccepted {
			t.Fatalf("answer %+v, %v", answer, err)
		}
	}
	if n := s.count("POST /v3/spaces"); n != 1 {
		t.Errorf("%d spaces made", n)
	}
	wantBody(t, s.lastBody("POST /v3/spaces"), `{"name":"mysql","relationships":{"organization":{"data":{"guid":"org-guid"}}}}`)
	if !strings.Contains(s.lastBody("POST /v3/service_instances"), "new-space") {
		t.Error("the instance is not in the new space")
	}
}

func spaceThatSomebodyElseMadeIsFound(t *testing.T) {
	t.Parallel()
	var made atomic.Bool
	s := newStub(t, accept)
	s.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == "/v3/spaces" && r.Method == http.MethodPost:
			made.Store(true)
			reply(w, 422, unprocessable("Name must be unique per organization"))
		case r.URL.Path == "/v3/spaces" && made.Load():
			reply(w, 200, list(`{"guid":"their-space","name":"mysql"}`))
		default:
			s.ServeHTTP(w, r)
		}
	})
	if answer, err := s.backend(t, nil).CreateInstance(t.Context(), otherOffering()); answer.Reply != lifecycle.ReplyAccepted {
		t.Fatalf("answer %+v, %v", answer, err)
	}
	if !strings.Contains(s.lastBody("POST /v3/service_instances"), "their-space") {
		t.Error("the instance is not in the space that was found")
	}
}

func TestWithoutASpaceNothingIsSent(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		status int
		body   string
		want   lifecycle.Reply
	}{
		"not authorized":          {403, cfError(10003, "CF-NotAuthorized", "You are not authorized to perform the requested action"), lifecycle.ReplyBusy},
		"a fault":                 {500, cfError(10001, "UnknownError", "An unknown error occurred."), lifecycle.ReplyBusy},
		"a gateway":               {502, "<html>", lifecycle.ReplyBusy},
		"no space in the answer":  {201, `{}`, lifecycle.ReplyBusy},
		"the org was made anew":   {422, unprocessable("Invalid organization. Ensure the organization exists and you have access to it."), lifecycle.ReplyBusy},
		"taken, but not found":    {422, unprocessable("Name must be unique per organization"), lifecycle.ReplyBusy},
		"another refusal":         {422, unprocessable("Name is too long (maximum is 255 characters)"), lifecycle.ReplyRefused},
		"an operation of another": {404, notFound("x"), lifecycle.ReplyBusy},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStub(t, func(w http.ResponseWriter, _ *http.Request) { reply(w, test.status, test.body) })
			answer, err := s.backend(t, nil).CreateInstance(t.Context(), otherOffering())
			if answer.Reply != test.want || err == nil {
				t.Errorf("answer %+v, %v; want %s", answer, err, test.want)
			}
			if s.count("POST /v3/service_instances") != 0 {
				t.Error("a POST was sent all the same")
			}
		})
	}
}

func TestUnknownOrgIsTriedAgain(t *testing.T) {
	t.Parallel()
	s := newStub(t, accept)
	b := s.backend(t, func(c *Config) { c.Org = "no-such-org" })
	if answer, err := b.CreateInstance(t.Context(), testCall()); answer.Reply != lifecycle.ReplyBusy || err == nil || ccapi.Unreachable(err) {
		t.Errorf("answer %+v, %v; want busy with an error", answer, err)
	}
	if _, err := b.FindInstances(t.Context(), broker.Lookup{Name: "one"}); err == nil {
		t.Error("without an org FindInstances found absence")
	}
	if n := s.count("GET /v3/organizations"); n != 4 { // by name, and among all
		t.Errorf("asked %d times for the org, want 4", n)
	}
}

func spaceThatIsGoneIsForgotten(t *testing.T) {
	t.Parallel()
	for _, body := range []string{
		unprocessable("Invalid space. Ensure that the space exists and you have access to it."),
		cfError(10020, "CF-ResourceBeingDeleted", "The space is being deleted"),
	} {
		var posts atomic.Int64
		s := newStub(t, func(w http.ResponseWriter, r *http.Request) {
			if posts.Add(1) == 1 {
				reply(w, 422, body)
				return
			}
			accept(w, r)
		})
		b := s.backend(t, nil)
		if answer, err := b.CreateInstance(t.Context(), testCall()); answer.Reply != lifecycle.ReplyBusy || err == nil {
			t.Errorf("answer %+v, %v; want busy", answer, err)
		}
		if answer, err := b.CreateInstance(t.Context(), testCall()); answer.Reply != lifecycle.ReplyAccepted {
			t.Errorf("answer %+v, %v; want accepted", answer, err)
		}
		if n := s.count("GET /v3/spaces"); n != 2 {
			t.Errorf("asked %d times for the space, want 2", n)
		}
	}
}

// TestMissingRoleIsTaken: an org manager makes a space but may not use it yet.
func TestMissingRoleIsTaken(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		token  string
		role   int
		want   lifecycle.Reply
		asked  int
		inBody string
	}{
		"a user gets it":            {tokenWith(`{"user_id":"u-1","client_id":"cf"}`), 201, lifecycle.ReplyBusy, 1, "u-1"},
		"a client gets it":          {tokenWith(`{"client_id":"ferry"}`), 201, lifecycle.ReplyBusy, 1, "ferry"},
		"it is there already":       {tokenWith(`{"client_id":"ferry"}`), 422, lifecycle.ReplyBusy, 1, "ferry"},
		"a token that is no JWT":    {"opaque", 201, lifecycle.ReplyBusy, 0, ""},
		"a token that names nobody": {tokenWith(`{}`), 201, lifecycle.ReplyBusy, 0, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := newStub(t, func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/v3/roles" {
					reply(w, test.role, unprocessable("User 'x' already has 'space_developer' role in space 'Y'."))
					return
				}
				reply(w, 403, cfError(10003, "CF-NotAuthorized", "You are not authorized to perform the requested action"))
			})
			g.token = test.token
			answer, err := g.backend(t, nil).CreateInstance(t.Context(), testCall())
			if answer.Reply != test.want || err == nil {
				t.Errorf("answer %+v, %v; want %s", answer, err, test.want)
			}
			if n := g.count("POST /v3/roles"); n != test.asked || !strings.Contains(g.lastBody("POST /v3/roles"), test.inBody) {
				t.Errorf("%d roles asked for: %s", n, g.lastBody("POST /v3/roles"))
			}
			if n := g.count("POST /v3/service_instances"); n != 1 {
				t.Errorf("%d POSTs, want 1", n)
			}
		})
	}
}

// TestNamesAreComparedAsCloudFoundryDoes: without case, for orgs and for spaces; what has that very name comes first.
func TestNamesAreComparedAsCloudFoundryDoes(t *testing.T) {
	t.Parallel()
	orgs := func(names ...string) string { return strings.ReplaceAll(spacesOf(names...), "guid-of-", "org-") }
	for name, test := range map[string]struct {
		org, orgs, spaces string
		filters           bool // whether the filter of names ignores case, too
		want              string
	}{
		"the very names": {"ferry", orgs("ferry"), spacesOf("mysql"), true, "org-ferry guid-of-mysql"},
		"another case":   {"FERRY", orgs("Ferry"), spacesOf("MySQL"), true, "org-Ferry guid-of-MySQL"},
		"another case, and a filter that minds it": {"FERRY", orgs("other", "Ferry"), spacesOf("x", "MySQL"), false, "org-Ferry guid-of-MySQL"},
		"both":                 {"ferry", orgs("FERRY", "ferry", "Ferry"), spacesOf("MySQL", "mysql", "MYSQL"), true, "org-ferry guid-of-mysql"},
		"letters beyond ASCII": {"fähre", orgs("FÄHRE"), spacesOf("MYSQL"), true, "org-FÄHRE guid-of-MYSQL"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStub(t, accept)
			ordinary := s.Config.Handler
			s.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				lists := map[string]string{"/v3/organizations": test.orgs, "/v3/spaces": test.spaces}
				switch known := lists[r.URL.Path]; {
				case known == "":
					ordinary.ServeHTTP(w, r)
				case r.Method == http.MethodPost:
					reply(w, 422, unprocessable("Name must be unique per organization"))
				case r.URL.Query().Has("names") && !test.filters:
					reply(w, 200, list())
				default:
					reply(w, 200, known)
				}
			})
			b := s.backend(t, func(c *Config) { c.Org = test.org })
			answer, err := b.CreateInstance(t.Context(), otherOffering())
			if answer.Reply != lifecycle.ReplyAccepted {
				t.Fatalf("%+v, %v; want accepted", answer, err)
			}
			if got := b.places.memory.orgGUID() + " " + b.places.memory.space("mysql"); got != test.want {
				t.Errorf("made in %s, want %s", got, test.want)
			}
		})
	}
}

// TestPlaceIsTheSameHoweverItIsWritten (docs/protocol.md 3.2): absence counts only in the place that was recorded,
// which is one org of one Cloud Foundry, not the letters of an address.
func TestPlaceIsTheSameHoweverItIsWritten(t *testing.T) {
	t.Parallel()
	s := newStub(t, busyCloud)
	b := s.backend(t, func(c *Config) {
		c.API = s.URL + "/"
		c.FormerAPIs = []string{"https://API.old.example.org:443/"}
	})
	place := broker.Place{API: s.URL, OrgGUID: "org-guid"}
	if b.Same(place) {
		t.Error("a place is the same while the org is not known")
	}
	if got, err := b.Place(t.Context()); err != nil || got != place {
		t.Fatalf("place %+v, %v; want %+v", got, err, place)
	}
	for recorded, want := range map[broker.Place]bool{
		place: true,
		{API: "https://api.old.example.org", OrgGUID: "org-guid"}:   true,
		{API: "HTTPS://api.old.example.org/", OrgGUID: "org-guid"}:  true,
		{API: "http://api.old.example.org", OrgGUID: "org-guid"}:    false,
		{API: "https://api.other.example.org", OrgGUID: "org-guid"}: false,
		{API: s.URL, OrgGUID: "another"}:                            false,
		{API: s.URL}:                                                false,
		{}:                                                          false,
	} {
		if got := b.Same(recorded); got != want {
			t.Errorf("%+v is the same: %v, want %v", recorded, got, want)
		}
	}
	for written, want := range map[string]string{
		"https://Api.CF.example.org:443/": "https://api.cf.example.org",
		"HTTP://api.example.org:80":       "http://api.example.org",
		"https://api.example.org:80/v/":   "https://api.example.org:80/v",
		"https://[2001:DB8::1]:443":       "https://[2001:db8::1]",
		"https://[2001:DB8::1]:8443":      "https://[2001:db8::1]:8443",
	} {
		if got := canonicalAPI(written); got != want {
			t.Errorf("%s is written %s, want %s", written, got, want)
		}
	}
}

// TestMissingRoleIsTakenForEverything: what exists already tells its space.
func TestMissingRoleIsTakenForEverything(t *testing.T) {
	t.Parallel()
	for _, request := range []string{
		"PATCH /v3/service_instances/g", "DELETE /v3/service_instances/g",
		"POST /v3/service_credential_bindings", "DELETE /v3/service_credential_bindings/k1",
	} {
		g := newStub(t, func(w http.ResponseWriter, r *http.Request) {
			switch r.Method + " " + r.URL.Path {
			case "GET /v3/service_instances/g":
				reply(w, 200, `{"guid":"g","relationships":{"space":{"data":{"guid":"s9"}}}}`)
			case "GET /v3/service_credential_bindings/k1":
				reply(w, 200, `{"guid":"k1","relationships":{"service_instance":{"data":{"guid":"g"}}}}`)
			case "POST /v3/roles":
				reply(w, 201, `{"guid":"r"}`)
			default:
				reply(w, 403, cfError(10003, "CF-NotAuthorized", "You are not authorized to perform the requested action"))
			}
		})
		g.token = tokenWith(`{"client_id":"ferry"}`)
		answer, err := everyCall(t.Context(), g.backend(t, nil))[request]()
		if answer.Reply != lifecycle.ReplyBusy || err == nil {
			t.Errorf("%s: %+v, %v; want busy", request, answer, err)
		}
		if !strings.Contains(g.lastBody("POST /v3/roles"), "s9") || g.count(request) != 1 {
			t.Errorf("%s: role asked for: %s", request, g.lastBody("POST /v3/roles"))
		}
	}
}
