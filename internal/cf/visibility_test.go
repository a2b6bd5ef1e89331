package cf

import (
	"context"
	"errors"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ferry-broker/ferry/internal/broker"
	"github.com/ferry-broker/ferry/internal/ccapi"
	"github.com/ferry-broker/ferry/internal/lifecycle"
)

const emptyList = `{"pagination":{"next":null},"resources":[]}`

// blindness is what a login is shown after it lost sight of something.
type blindness struct {
	org, spaces, roles string // bodies; empty: as ever
	orgStatus          int
	scope              string
}

// blindable returns a backend that knows its org and its space, and a Cloud Foundry that shows no instance and no key.
func blindable(t *testing.T, sees blindness) (*stub, *Backend) {
	t.Helper()
	token := tokenWith(`{"client_id":"ferry","scope":["` + sees.scope + `"]}`)
	lists := []string{"/v3/service_instances", "/v3/service_credential_bindings", "/v3/service_offerings", "/v3/service_plans"}
	g := newStub(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet && !slices.Contains(lists, r.URL.Path) {
			reply(w, 404, cfError(10010, "CF-ResourceNotFound", "not found"))
			return
		}
		if r.Method == http.MethodPatch {
			reply(w, 404, cfError(10010, "CF-ResourceNotFound", "Service instance not found"))
			return
		}
		reply(w, 200, emptyList)
	})
	g.token = token
	b := g.backend(t, nil)
	if _, err := b.places.space(t.Context(), "postgres"); err != nil {
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
	return g, b
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
				if (err == nil) != test.absent || len(look.Rows) != 0 || loginAtFault(err) != test.fault {
					t.Errorf("%s: %+v, %v; want absent %v, the login at fault %v", what, look, err, test.absent, test.fault)
				}
				if ccapi.IsAbsent(err) || ccapi.Unreachable(err) && test.fault {
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

// TestEmptyLookCosts counts what it takes to be sure of absence: the look, one more by GUID when the record has any,
// and one confirmation.
func TestEmptyLookCosts(t *testing.T) {
	t.Parallel()
	const instances, keys, spaces = "GET /v3/service_instances", "GET /v3/service_credential_bindings", "GET /v3/spaces"
	s, b := blindable(t, blindness{})
	b.instances.flavors.learn(cloudController)
	ctx := broker.WithOffering(t.Context(), "postgres")
	for _, test := range []struct {
		name string
		find func() (broker.Look, error)
		want []string
	}{
		{"by name", func() (broker.Look, error) { return b.FindInstances(ctx, "one") }, []string{instances, spaces}},
		{"by name and GUID", func() (broker.Look, error) { return b.FindInstances(ctx, "one", "g") }, []string{instances, instances, spaces}},
		{"by GUID", func() (broker.Look, error) { return b.FindInstance(ctx, "g") }, []string{instances + "/g", spaces}},
		{"a key", func() (broker.Look, error) { return b.FindKeys(ctx, "g", "k") }, []string{keys, spaces}},
		{"a key by GUID", func() (broker.Look, error) { return b.FindKeys(ctx, "g", "k", "k1") }, []string{keys, keys, spaces}},
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
	_, b := blindable(t, blindness{spaces: emptyList, scope: "cloud_controller.admin"})
	if _, err := b.FindInstances(t.Context(), "one"); err != nil {
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
		reply(w, 404, cfError(10010, "CF-ResourceNotFound", "Service credential binding not found"))
	})
	_, err := s.backend(t, nil).KeyDetails(t.Context(), "k")
	if err == nil || errors.Is(err, broker.ErrNotFound) || !loginAtFault(err) {
		t.Errorf("%v; want that the login may not read them", err)
	}
}

// cold is a Cloud Foundry that a process has just met: what its login may see of the spaces, and as whom it came.
type cold struct {
	spaces, roles, payload string
}

// spacesOf is a list of spaces of these names.
func spacesOf(names ...string) string {
	rows := make([]string, len(names))
	for i, name := range names {
		rows[i] = `{"guid":"guid-of-` + name + `","name":"` + name + `"}`
	}
	return `{"pagination":{"next":null},"resources":[` + strings.Join(rows, ",") + `]}`
}

// meets returns a backend that knows nothing yet, and a Cloud Foundry that shows it no instance and no key.
func (c cold) meets(t *testing.T) (*stub, *Backend) {
	t.Helper()
	g := newStub(t, func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == "/v3/roles":
			reply(w, 200, c.roles)
		case r.Method == http.MethodGet && strings.Count(r.URL.Path, "/") == 2:
			reply(w, 200, emptyList)
		default:
			reply(w, 404, cfError(10010, "CF-ResourceNotFound", "not found"))
		}
	})
	g.token = tokenWith(c.payload)
	g.spaces = c.spaces
	return g, g.backend(t, nil)
}

// TestAbsenceIsNotBelievedByAProcessThatHasJustStarted (docs/protocol.md 3.2): it has to find out what it may see
// before it says that nothing is there.
func TestAbsenceIsNotBelievedByAProcessThatHasJustStarted(t *testing.T) {
	t.Parallel()
	const developer, admin = `{"client_id":"ferry","scope":["cloud_controller.read"]}`, `{"client_id":"ferry","scope":["cloud_controller.admin"]}`
	manager := `{"pagination":{"next":null},"resources":[{"guid":"r","type":"organization_manager"}]}`
	for name, test := range map[string]struct {
		sees     cold
		offering string
		absent   bool
	}{
		"a developer who sees the space":                {cold{spacesOf("postgres"), emptyList, developer}, "postgres", true},
		"but for the case of its name":                  {cold{spacesOf("PostgreS"), emptyList, developer}, "postgres", true},
		"a developer who lost the role in it":           {cold{spacesOf("queue"), emptyList, developer}, "postgres", false},
		"a login that is only an org's auditor":         {cold{emptyList, emptyList, developer}, "postgres", false},
		"a developer who is not told which space it is": {cold{spacesOf("postgres"), emptyList, developer}, "", false},
		"a manager of the org, and no space yet":        {cold{emptyList, manager, developer}, "postgres", true},
		"a manager who is not told":                     {cold{emptyList, manager, developer}, "", true},
		"an administrator":                              {cold{emptyList, emptyList, admin}, "postgres", true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx := broker.WithOffering(t.Context(), test.offering)
			for what, find := range map[string]func(*Backend) (broker.Look, error){
				"FindInstances": func(b *Backend) (broker.Look, error) { return b.FindInstances(ctx, "one", "g") },
				"FindInstance":  func(b *Backend) (broker.Look, error) { return b.FindInstance(ctx, "g") },
				"FindKeys":      func(b *Backend) (broker.Look, error) { return b.FindKeys(ctx, "g", "k", "k1") },
			} {
				_, b := test.sees.meets(t)
				look, err := find(b)
				if (err == nil) != test.absent || len(look.Rows) != 0 || loginAtFault(err) == test.absent {
					t.Errorf("%s: %+v, %v; want absent %v", what, look, err, test.absent)
				}
			}
		})
	}
}

// TestAbsenceIsNotBelievedOnOldSight (docs/protocol.md 3.2): what was in sight a moment ago proves nothing.
func TestAbsenceIsNotBelievedOnOldSight(t *testing.T) {
	t.Parallel()
	s, b := cold{spacesOf("postgres"), emptyList, `{"client_id":"ferry"}`}.meets(t)
	b.instances.visibility.now = stopped
	ctx := broker.WithOffering(t.Context(), "postgres")
	if look, err := b.FindInstances(ctx, "one"); err != nil || len(look.Rows) != 0 {
		t.Fatalf("%+v, %v; want nothing there", look, err)
	}
	s.spaces = emptyList // the login loses its role
	if look, err := b.FindInstances(ctx, "two"); err == nil {
		t.Errorf("%+v; want that the login is blind", look)
	}
}

// TestAStrangersRowProvesNoSight (docs/protocol.md 3.2): our own may be in a space that is out of sight.
func TestAStrangersRowProvesNoSight(t *testing.T) {
	t.Parallel()
	g := newStub(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/v3/service_instances" && r.URL.Query().Has("names") {
			reply(w, 200, `{"pagination":{"next":null},"resources":[{"guid":"theirs","name":"one"}]}`)
			return
		}
		reply(w, 200, emptyList)
	})
	g.token = tokenWith(`{"client_id":"ferry"}`)
	g.spaces = spacesOf("queue")
	look, err := g.backend(t, nil).FindInstances(broker.WithOffering(t.Context(), "postgres"), "one", "ours")
	if err == nil {
		t.Errorf("%+v; want that the login is blind", look)
	}
}

// TestAConfirmationBeginsAfterTheLook (docs/protocol.md 3.2): looks that end while one confirmation runs share the next
// one.
func TestAConfirmationBeginsAfterTheLook(t *testing.T) {
	t.Parallel()
	const looks = 8
	var calls atomic.Int64
	release := make(chan struct{})
	var s shared[int64]
	call := func(context.Context) (int64, error) {
		n := calls.Add(1)
		<-release
		return n, nil
	}
	results := make(chan int64, looks+1)
	ask := func() { n, _ := s.get(t.Context(), call); results <- n }
	go ask()
	until(t, "the first round began", func() bool { return calls.Load() > 0 })
	for range looks {
		go ask()
	}
	until(t, "the others wait for the next round", func() bool { return joined(&s) })
	close(release)
	counts := map[int64]int{}
	for range looks + 1 {
		counts[<-results]++
	}
	if counts[1] != 1 || counts[0] != 0 {
		t.Errorf("rounds %v; want the first for its one caller alone", counts)
	}
}

// joined reports whether a round waits for the one that runs.
func joined(s *shared[int64]) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.next != nil
}

// until yields until something holds, and gives up in the end.
func until(t *testing.T, what string, holds func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	for !holds() {
		if ctx.Err() != nil {
			t.Fatalf("gave up waiting until %s", what)
		}
		runtime.Gosched()
	}
}

// TestAConfirmationThatItsCallerLeftIsMadeAgain: the others still want it.
func TestAConfirmationThatItsCallerLeftIsMadeAgain(t *testing.T) {
	t.Parallel()
	var s shared[int64]
	began, release := make(chan struct{}), make(chan struct{})
	first := make(chan error, 1)
	go func() {
		_, err := s.get(t.Context(), func(context.Context) (int64, error) { close(began); <-release; return 1, nil })
		first <- err
	}()
	<-began
	left, leave := context.WithCancel(t.Context())
	second := make(chan error, 1)
	go func() { _, err := s.get(left, func(context.Context) (int64, error) { return 2, nil }); second <- err }()
	until(t, "it waits for its turn", func() bool { return joined(&s) })
	third := make(chan int64, 1)
	go func() { n, _ := s.get(t.Context(), func(context.Context) (int64, error) { return 3, nil }); third <- n }()
	leave()
	if err := <-second; err == nil {
		t.Error("who left was answered")
	}
	close(release)
	if n := <-third; n != 3 {
		t.Errorf("the third was handed %d, want its own", n)
	}
	if err := <-first; err != nil {
		t.Error(err)
	}
}
