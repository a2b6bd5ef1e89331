package cf

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ferry-broker/ferry/internal/broker"
	"github.com/ferry-broker/ferry/internal/ccapi"
	"github.com/ferry-broker/ferry/internal/lifecycle"
)

// permissions are what a login may see: the spaces, its roles, and the org. It sees no instance and no key.
type permissions struct {
	spaces, roles string           // lists; empty: one space that is called postgres, and no role
	org           http.HandlerFunc // nil: it sees the org
	scope         string
}

// backend returns one that knows its org and its space already, or nothing yet, as after a start.
func (p permissions) backend(t *testing.T, known bool) (*stub, *Backend) {
	t.Helper()
	s := newStub(t, func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == "/v3/roles" && p.roles != "":
			reply(w, 200, p.roles)
		case r.Method == http.MethodGet && strings.Count(r.URL.Path, "/") == 2:
			reply(w, 200, list())
		default:
			reply(w, 404, notFound("not found"))
		}
	})
	s.token = tokenWith(`{"client_id":"ferry","scope":["` + p.scope + `"]}`)
	s.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if p.org != nil && r.URL.Path == "/v3/organizations/org-guid" {
			p.org(w, r)
			return
		}
		s.ServeHTTP(w, r)
	})
	b := s.backend(t, nil)
	if known {
		if _, err := b.places.space(t.Context(), "postgres"); err != nil {
			t.Fatal(err)
		}
	}
	if p.spaces != "" {
		s.shows(p.spaces)
	}
	return s, b
}

// spacesOf is a list of spaces of these names.
func spacesOf(names ...string) string {
	rows := make([]string, len(names))
	for i, name := range names {
		rows[i] = `{"guid":"guid-of-` + name + `","name":"` + name + `"}`
	}
	return list(rows...)
}

// TestWhatTheLoginMayNotSeeIsNotAbsent (docs/protocol.md 3.2): neither to a process that knows its spaces nor to one
// that has just started, which has to find out what it may see before it says that nothing is there.
func TestWhatTheLoginMayNotSeeIsNotAbsent(t *testing.T) {
	t.Parallel()
	const started, known, admin = false, true, "cloud_controller.admin"
	manager := list(`{"guid":"r","type":"organization_manager"}`)
	gone := func(w http.ResponseWriter, _ *http.Request) { reply(w, 404, notFound("Organization not found")) }
	gateway := func(w http.ResponseWriter, _ *http.Request) { reply(w, 502, "<html>") }
	for name, test := range map[string]struct {
		known    bool
		offering string
		sees     permissions
		absent   bool
		fault    bool
	}{
		"it sees all":                               {known, "", permissions{}, true, false},
		"the org cannot be seen":                    {known, "", permissions{spaces: list(), org: gone}, false, true},
		"the org cannot be asked for":               {known, "", permissions{spaces: list(), org: gateway}, false, false},
		"a space cannot be seen":                    {known, "", permissions{spaces: list()}, false, true},
		"a space was deleted, an admin looks":       {known, "", permissions{spaces: list(), scope: admin}, true, false},
		"a space was deleted, an org manager looks": {known, "", permissions{spaces: list(), roles: manager}, true, false},
		"roles cannot be asked for":                 {known, "", permissions{spaces: list(), roles: "<html>"}, false, false},

		"a developer who sees the space":                {started, "postgres", permissions{}, true, false},
		"but for the case of its name":                  {started, "postgres", permissions{spaces: spacesOf("PostgreS")}, true, false},
		"a developer who lost the role in it":           {started, "postgres", permissions{spaces: spacesOf("queue")}, false, true},
		"a login that is only an org's auditor":         {started, "postgres", permissions{spaces: list()}, false, true},
		"a developer who is not told which space it is": {started, "", permissions{}, false, true},
		"a manager of the org, and no space yet":        {started, "postgres", permissions{spaces: list(), roles: manager}, true, false},
		"a manager who is not told":                     {started, "", permissions{spaces: list(), roles: manager}, true, false},
		"an administrator":                              {started, "postgres", permissions{spaces: list(), scope: admin}, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx := t.Context()
			for what := range looks(ctx, nil, "") {
				_, b := test.sees.backend(t, test.known)
				look, err := looks(ctx, b, test.offering)[what]()
				if (err == nil) != test.absent || len(look.Rows) != 0 || loginAtFault(err) != test.fault {
					t.Errorf("%s: %+v, %v; want absent %v, the login at fault %v", what, look, err, test.absent, test.fault)
				}
				if ccapi.IsAbsent(err) || ccapi.Unreachable(err) && test.fault {
					t.Errorf("%s: %v says the wrong thing", what, err)
				}
			}
			_, b := test.sees.backend(t, test.known)
			answer, err := b.UpdateInstance(ctx, "g", broker.InstanceCall{PlanGUID: "p", Offering: test.offering})
			if (answer.Reply == lifecycle.ReplyAbsent) != test.absent || err == nil {
				t.Errorf("update: %+v, %v; want absent %v", answer, err, test.absent)
			}
			if market, err := b.Marketplace(ctx); test.known && (err == nil) != test.absent {
				t.Errorf("marketplace: %+v, %v; want an empty one %v", market, err, test.absent)
			}
			if _, err := b.KeyDetails(ctx, "k", test.offering); errors.Is(err, broker.ErrNotFound) != test.absent {
				t.Errorf("details: %v; want absent %v", err, test.absent)
			}
		})
	}
}

// TestEmptyLookCosts counts what it takes to be sure of absence: the look, one more by GUID when the record has any,
// and one confirmation.
func TestEmptyLookCosts(t *testing.T) {
	t.Parallel()
	const instances, keys, spaces = "GET /v3/service_instances", "GET /v3/service_credential_bindings", "GET /v3/spaces"
	s, b := permissions{}.backend(t, true)
	b.instances.flavors.learn(cloudController)
	ctx := t.Context()
	one := broker.Lookup{Name: "one", Offering: "postgres"}
	key := broker.Lookup{Instance: "g", Name: "k", Offering: "postgres"}
	known := func(q broker.Lookup, guid string) broker.Lookup { q.GUIDs = []string{guid}; return q }
	for _, test := range []struct {
		name string
		find func() (broker.Look, error)
		want []string
	}{
		{"by name", func() (broker.Look, error) { return b.FindInstances(ctx, one) }, []string{instances, spaces}},
		{"by name and GUID", func() (broker.Look, error) { return b.FindInstances(ctx, known(one, "g")) }, []string{instances, instances, spaces}},
		{"by GUID", func() (broker.Look, error) { return b.FindInstance(ctx, "g", "postgres") }, []string{instances + "/g", spaces}},
		{"a key", func() (broker.Look, error) { return b.FindKeys(ctx, key) }, []string{keys, spaces}},
		{"a key by GUID", func() (broker.Look, error) { return b.FindKeys(ctx, known(key, "k1")) }, []string{keys, keys, spaces}},
	} {
		before := len(s.requests)
		if look, err := test.find(); err != nil || len(look.Rows) != 0 {
			t.Errorf("%s: %+v, %v", test.name, look, err)
		}
		if diff := cmp.Diff(test.want, s.requests[before:]); diff != "" {
			t.Errorf("%s (-want +got):\n%s", test.name, diff)
		}
	}
}

// TestDeletedSpaceIsForgotten: once who sees all there is misses it, nothing waits for it.
func TestDeletedSpaceIsForgotten(t *testing.T) {
	t.Parallel()
	_, b := permissions{spaces: list(), scope: "cloud_controller.admin"}.backend(t, true)
	if _, err := b.FindInstances(t.Context(), broker.Lookup{Name: "one"}); err != nil {
		t.Fatal(err)
	}
	if known := b.places.memory.known(); len(known) != 0 || b.places.memory.space("postgres") != "" {
		t.Errorf("spaces %v are still known, postgres as %q", known, b.places.memory.space("postgres"))
	}
}

func TestDetailsThatTheLoginMayNotRead(t *testing.T) {
	t.Parallel()
	s := newStub(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/v3/service_credential_bindings/k" {
			reply(w, 200, `{"guid":"k","name":"n"}`)
			return
		}
		reply(w, 404, notFound("Service credential binding not found"))
	})
	_, err := s.backend(t, nil).KeyDetails(t.Context(), "k", "")
	if err == nil || errors.Is(err, broker.ErrNotFound) || !loginAtFault(err) {
		t.Errorf("%v; want that the login may not read them", err)
	}
}

// TestAbsenceIsNotBelievedByAnOldConfirmation (docs/protocol.md 3.2): what could be seen a moment ago proves nothing.
func TestAbsenceIsNotBelievedByAnOldConfirmation(t *testing.T) {
	t.Parallel()
	s, b := permissions{}.backend(t, false)
	b.instances.visibility.now = stopped
	if look, err := b.FindInstances(t.Context(), broker.Lookup{Name: "one", Offering: "postgres"}); err != nil || len(look.Rows) != 0 {
		t.Fatalf("%+v, %v; want nothing there", look, err)
	}
	s.shows(list()) // the login loses its role
	if look, err := b.FindInstances(t.Context(), broker.Lookup{Name: "two", Offering: "postgres"}); err == nil {
		t.Errorf("%+v; want that the login does not see the space", look)
	}
}

// TestAStrangersRowConfirmsNothing (docs/protocol.md 3.2): our own may be in a space that cannot be seen.
func TestAStrangersRowConfirmsNothing(t *testing.T) {
	t.Parallel()
	s := newStub(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/v3/service_instances" && r.URL.Query().Has("names") {
			reply(w, 200, list(`{"guid":"theirs","name":"one"}`))
			return
		}
		reply(w, 200, list())
	})
	s.token, s.spaces = tokenWith(`{"client_id":"ferry"}`), spacesOf("queue")
	look, err := s.backend(t, nil).FindInstances(t.Context(), broker.Lookup{Name: "one", GUIDs: []string{"ours"}, Offering: "postgres"})
	if err == nil {
		t.Errorf("%+v; want that the login does not see the space", look)
	}
}
