package api

import (
	"context"
	"net/http/httptest"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ferry-broker/ferry/internal/broker"
)

// flood is a bench on which binds wait for Cloud Foundry and creates are slow without.
type flood struct {
	*bench
	t       *testing.T
	release chan struct{}
	begun   chan struct{}
	refused chan *httptest.ResponseRecorder
	served  chan *httptest.ResponseRecorder
}

func newFlood(t *testing.T, change ...func(*Options)) *flood {
	t.Helper()
	f := &flood{
		bench: newBench(t, change...), t: t, release: make(chan struct{}),
		begun: make(chan struct{}), refused: make(chan *httptest.ResponseRecorder), served: make(chan *httptest.ResponseRecorder),
	}
	f.broker.bind = func(ctx context.Context, r broker.BindRequest) (broker.Result, error) {
		for range 2 { // whoever may wait may ask again
			if err := broker.BeginWaiting(ctx); err != nil {
				return broker.Result{}, err
			}
		}
		return f.stay(r.BindingID)
	}
	f.broker.provision = func(_ context.Context, r broker.ProvisionRequest) (broker.Result, error) {
		return f.stay(r.InstanceID)
	}
	return f
}

// stay keeps a request until the flood ends, unless it only tries whether there is room.
func (f *flood) stay(id string) (broker.Result, error) {
	if id != "try" {
		f.begun <- struct{}{}
		<-f.release
	}
	return accepted("o"), nil
}

// send300 sends that many requests at once, and returns how many of them were begun once each is begun or refused.
func (f *flood) send300(target, body string, options ...option) (begun int) {
	f.t.Helper()
	for range 300 {
		go func() {
			w := f.send("PUT", target, body, options...)
			if w.Code == 503 {
				f.refused <- w
				return
			}
			f.served <- w
		}()
	}
	for range 300 {
		select {
		case <-f.begun:
			begun++
		case w := <-f.refused:
			described(f.t, w, 503, "nothing of this one was carried out", "Send it again")
			if w.Header().Get("Retry-After") == "" {
				f.t.Error("no Retry-After")
			}
		}
	}
	return begun
}

// end lets the begun requests go.
func (f *flood) end(begun int) {
	f.t.Helper()
	close(f.release)
	for range begun {
		if w := <-f.served; w.Code != 202 {
			f.t.Errorf("a request in flight got %d", w.Code)
		}
	}
}

// Law 10, and 503 only for those whom it concerns: what waits for Cloud Foundry has half of the places, and no client
// has all of any half.
func TestAFloodLeavesPlacesToTheOthers(t *testing.T) {
	t.Parallel()
	beta := as("b", "pb")
	limited := func(o *Options) { o.Clients[0].ConcurrentRequests = 10 }
	alone := func(o *Options) { o.Clients = o.Clients[:1] }
	for name, test := range map[string]struct {
		target, body string
		change       func(*Options)
		begun        int
		// still are the statuses of alpha's poll and bind, and of beta's, meanwhile.
		still [4]int
	}{
		"held binds of one client":             {bindingURL, goodBinding, func(*Options) {}, 96, [4]int{200, 503, 200, 202}},
		"held binds of the only client":        {bindingURL, goodBinding, alone, 128, [4]int{200, 503, 401, 401}},
		"quick requests of one client":         {instanceURL, goodInstance, func(*Options) {}, 96, [4]int{503, 503, 200, 202}},
		"held binds within a limit of its own": {bindingURL, goodBinding, limited, 5, [4]int{200, 503, 200, 202}},
		"quick ones within a limit of its own": {instanceURL, goodInstance, limited, 5, [4]int{503, 503, 200, 202}},
		"a limit of one":                       {bindingURL, goodBinding, func(o *Options) { o.ConcurrentRequests = 1 }, 1, [4]int{200, 503, 200, 202}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFlood(t, test.change)
			begun := f.send300(test.target, test.body)
			if begun != test.begun {
				t.Errorf("%d of 300 were begun, want %d", begun, test.begun)
			}
			poll := func(o ...option) int { return f.send("GET", instanceURL+"/last_operation", "", o...).Code }
			bind := func(o ...option) int {
				return f.send("PUT", "/v2/service_instances/i1/service_bindings/try", goodBinding, o...).Code
			}
			if diff := cmp.Diff(test.still, [4]int{poll(), bind(), poll(beta), bind(beta)}); diff != "" {
				t.Errorf("poll and bind of the client, and of the other (-want +got):\n%s", diff)
			}
			if w := f.send("GET", "/v2/catalog", "", beta); test.still[2] == 200 && w.Code != 200 {
				t.Errorf("the other's catalog is %d", w.Code)
			}
			f.end(begun)
			if got := [2]int{poll(), poll(beta)}; got != [2]int{200, test.still[2]} {
				t.Errorf("polls are %v afterwards", got)
			}
		})
	}
}

// Every place is given back, whichever kind it was of.
func TestPlacesAreGivenBack(t *testing.T) {
	t.Parallel()
	s := newShares(16, []Client{{Name: "a"}, {Name: "b"}})
	for round := range 3 {
		var places []*place
		for p, err := s.enter("a"); err == nil; p, err = s.enter("a") {
			places = append(places, &p)
			if len(places)%2 == 1 {
				_ = p.BeginWaiting()
			}
		}
		if len(places) != 12 { // six of either kind: two reserved, four of those for all
			t.Errorf("round %d: %d places, want 12", round, len(places))
		}
		for _, p := range places {
			p.leave()
		}
	}
}
