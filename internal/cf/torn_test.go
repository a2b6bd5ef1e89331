package cf

import (
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"
)

// TestTornMarketplace: plans are listed before offerings. A broker that is registered again in between gets new GUIDs
// for both, so that nothing fits together.
func TestTornMarketplace(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ tears, offerings, lists int64 }{
		"registered again once":              {tears: 1, offerings: 1, lists: 2},
		"for ever: what is read second goes": {tears: 9, offerings: 0, lists: 2},
		"whole at once":                      {tears: 0, offerings: 1, lists: 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var lists atomic.Int64
			s := newStub(t, func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/v3/service_plans" {
					reply(w, 200, `{"pagination":{"next":null},"resources":[{"guid":"p","name":"small","available":true,
						"relationships":{"service_offering":{"data":{"guid":"o`+fmt.Sprint(lists.Add(1))+`"}}}}]}`)
					return
				}
				registered := lists.Load()
				if registered <= test.tears {
					registered++
				}
				reply(w, 200, `{"pagination":{"next":null},"resources":[{"guid":"o`+fmt.Sprint(registered)+`","name":"db","available":true}]}`)
			})
			market, err := s.backend(t, nil).Marketplace(t.Context())
			if err != nil || int64(len(market.Offerings)) != test.offerings {
				t.Errorf("%+v, %v; want %d offerings", market, err, test.offerings)
			}
			if got := lists.Load(); got != test.lists {
				t.Errorf("the plans were listed %d times, want %d", got, test.lists)
			}
		})
	}
}

// TestAMarketplaceOfHalves: an offering whose plans the org does not see, and plans of nothing, are no sign of a
// marketplace that moved while it was read.
func TestAMarketplaceOfHalves(t *testing.T) {
	t.Parallel()
	const (
		none     = `{"pagination":{"next":null},"resources":[]}`
		plan     = `{"pagination":{"next":null},"resources":[{"guid":"p","name":"small","available":true,"relationships":{"service_offering":{"data":{"guid":"o"}}}}]}`
		offering = `{"pagination":{"next":null},"resources":[{"guid":"o","name":"db","available":true}]}`
	)
	for name, lists := range map[string]struct{ plans, offerings string }{
		"offerings without plans": {none, offering},
		"plans without offerings": {plan, none},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var read atomic.Int64
			s := newStub(t, func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/v3/service_plans" {
					read.Add(1)
					reply(w, 200, lists.plans)
					return
				}
				reply(w, 200, lists.offerings)
			})
			market, err := s.backend(t, nil).Marketplace(t.Context())
			if err != nil || len(market.Offerings) != 0 || read.Load() != 1 {
				t.Errorf("%+v, %v after %d reads; want an empty one after one", market, err, read.Load())
			}
		})
	}
}
