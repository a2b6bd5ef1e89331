package cf

import (
	"encoding/base64"
	"errors"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/ferry-broker/ferry/internal/broker"
	"github.com/ferry-broker/ferry/internal/lifecycle"
)

const emptyList = `{"pagination":{"next":null},"resources":[]}`

// blindness is what a login is shown after it lost sight of something.
type blindness struct {
	org, spaces, roles string // bodies; empty: as ever
	orgStatus          int
	scope              string
}

// blindable returns a backend that knows its org and its space, and a Cloud Foundry
// that shows no instance and no key.
func blindable(t *testing.T, sees blindness) (*stub, *Backend) {
	t.Helper()
	token := "e30." + base64.RawURLEncoding.EncodeToString([]byte(`{"client_id":"ferry","scope":["`+sees.scope+`"]}`)) + ".c2ln"
	lists := []string{"/v3/service_instances", "/v3/service_credential_bindings", "/v3/service_offerings", "/v3/service_plans"}
	g := newGate(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet && !slices.Contains(lists, r.URL.Path) {
			reply(w, 404, cfError(10010, "CF-ResourceNotFound", "not found"))
			return
		}
		if r.Method == http.MethodPatch {
			reply(w, 404, cfError(10010, "CF-ResourceNotFound", "Service instance not found"))
			return
		}
		reply(w, 200, emptyList)
	}, func(_ int64, w http.ResponseWriter, _ *http.Request) bool {
		reply(w, 200, `{"access_token":"`+token+`","token_type":"bearer","expires_in":599}`)
		return true
	})
	b := g.backend(t, nil)
	if _, err := b.space(t.Context(), "postgres"); err != nil {
		t.Fatal(err)
	}
	before := g.Config.Handler
	g.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body := map[string]string{
			"/v3/organizations/org-guid": sees.org, "/v3/spaces": sees.spaces, "/v3/roles": sees.roles,
		}[r.URL.Path]
		switch {
		case body == "":
			before.ServeHTTP(w, r)
		case r.URL.Path == "/v3/organizations/org-guid":
			reply(w, sees.orgStatus, body)
		default:
			reply(w, 200, body)
		}
	})
	return g.stub, b
}

// TestEmptyLooksOfABlindLogin: what the login may not see is not absent.
func TestEmptyLooksOfABlindLogin(t *testing.T) {
	t.Parallel()
	gone := cfError(10010, "CF-ResourceNotFound", "Organization not found")
	for name, test := range map[string]struct {
		sees   blindness
		absent bool
		fault  bool
	}{
		"it sees all":                               {blindness{}, true, false},
		"the org is out of sight":                   {blindness{spaces: emptyList, org: gone, orgStatus: 404}, false, true},
		"the org cannot be asked for":               {blindness{spaces: emptyList, org: "<html>", orgStatus: 502}, false, false},
		"a space is out of sight":                   {blindness{spaces: emptyList, roles: emptyList}, false, true},
		"a space was deleted, an admin looks":       {blindness{spaces: emptyList, scope: "cloud_controller.admin"}, true, false},
		"a space was deleted, an org manager looks": {blindness{spaces: emptyList, roles: `{"pagination":{"next":null},"resources":[{"guid":"r","type":"organization_manager"}]}`}, true, false},
		"roles cannot be asked for":                 {blindness{spaces: emptyList, roles: "<html>"}, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for what, find := range map[string]func(*Backend) (broker.Look, error){
				"FindInstances": func(b *Backend) (broker.Look, error) { return b.FindInstances(t.Context(), "one") },
				"FindInstance":  func(b *Backend) (broker.Look, error) { return b.FindInstance(t.Context(), "g") },
				"FindKeys":      func(b *Backend) (broker.Look, error) { return b.FindKeys(t.Context(), "g", "k") },
			} {
				_, b := blindable(t, test.sees)
				look, err := find(b)
				if (err == nil) != test.absent || len(look.Rows) != 0 || CredentialsRefused(err) != test.fault {
					t.Errorf("%s: %+v, %v; want absent %v, the login at fault %v", what, look, err, test.absent, test.fault)
				}
				if isAbsent(err) || Unreachable(err) && test.fault {
					t.Errorf("%s: %v says the wrong thing", what, err)
				}
			}
			_, b := blindable(t, test.sees)
			answer, err := b.UpdateInstance(t.Context(), "g", broker.InstanceCall{PlanGUID: "p"})
			if (answer.Reply == lifecycle.ReplyAbsent) != test.absent || err == nil {
				t.Errorf("update: %+v, %v; want absent %v", answer, err, test.absent)
			}
			if market, err := b.Marketplace(t.Context()); (err == nil) != test.absent {
				t.Errorf("marketplace: %+v, %v; want an empty one %v", market, err, test.absent)
			}
			if _, err := b.KeyDetails(t.Context(), "k"); errors.Is(err, broker.ErrNotFound) != test.absent {
				t.Errorf("details: %v; want absent %v", err, test.absent)
			}
		})
	}
}

// TestEmptyLookCosts counts what it takes to be sure of absence.
func TestEmptyLookCosts(t *testing.T) {
	t.Parallel()
	s, b := blindable(t, blindness{})
	before := len(s.requests)
	if _, err := b.FindInstances(t.Context(), "one"); err != nil {
		t.Fatal(err)
	}
	if n := len(s.requests) - before; n != 2 {
		t.Errorf("an empty look took %d calls, want 2: %v", n, s.requests[before:])
	}
}

// TestOneConfirmationServesManyLooks: those that look at once do not each ask.
func TestOneConfirmationServesManyLooks(t *testing.T) {
	t.Parallel()
	s, b := blindable(t, blindness{})
	now := time.Unix(1_700_000_000, 0)
	b.config.Now = func() time.Time { return now }
	calls := func() int {
		before := len(s.requests)
		if look, err := b.FindInstances(t.Context(), "one"); err != nil || len(look.Rows) != 0 {
			t.Fatalf("%+v, %v", look, err)
		}
		return len(s.requests) - before
	}
	first := calls()
	if second := calls(); second != first-1 {
		t.Errorf("the first look took %d calls, the next %d; want one less", first, second)
	}
	now = now.Add(sightLasts)
	if later := calls(); later != first {
		t.Errorf("a second later a look took %d calls, want %d again", later, first)
	}
}

// TestDeletedSpaceIsForgotten: absence costs no more than before once that is known.
func TestDeletedSpaceIsForgotten(t *testing.T) {
	t.Parallel()
	s, b := blindable(t, blindness{spaces: emptyList, scope: "cloud_controller.admin"})
	for i, want := range []int{3, 2} { // the second time no space is known, only the org
		b.sight.at = time.Time{} // as if the last look were long ago
		before := s.count("GET /v3/organizations/org-guid") + s.count("GET /v3/service_instances")
		if _, err := b.FindInstances(t.Context(), "one"); err != nil {
			t.Fatal(err)
		}
		calls := s.count("GET /v3/organizations/org-guid") + s.count("GET /v3/service_instances") - before
		if i == 0 {
			calls++ // the list of spaces is answered before the stub counts
		}
		if calls != want {
			t.Errorf("look %d took %d calls, want %d", i+1, calls, want)
		}
	}
}

func TestDetailsThatTheLoginMayNotRead(t *testing.T) {
	t.Parallel()
	s := newStub(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/v3/service_credential_bindings/k" {
			reply(w, 200, `{"guid":"k","name":"n"}`)
			return
		}
		reply(w, 404, cfError(10010, "CF-ResourceNotFound", "Service credential binding not found"))
	})
	_, err := s.backend(t, nil).KeyDetails(t.Context(), "k")
	if err == nil || errors.Is(err, broker.ErrNotFound) || !CredentialsRefused(err) {
		t.Errorf("%v; want that the login may not read them", err)
	}
}
