package cf

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/ferry-broker/ferry/internal/broker"
	"github.com/ferry-broker/ferry/internal/cfsim"
	"github.com/ferry-broker/ferry/internal/lifecycle"
)

// TestACrowdCostsTwoLists of a simulated Cloud Foundry, as its operators would count them. An instance that is made
// when the first list has been read is seen by all who look after that.
func TestACrowdCostsTwoLists(t *testing.T) {
	t.Parallel()
	sim := cfsim.New(cfsim.Options{})
	defer sim.Close()
	var first sync.Once
	read, release := make(chan struct{}), make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		sim.Handler().ServeHTTP(w, r)
		if r.URL.Query().Get("names") == "early" {
			first.Do(func() { close(read); <-release }) // answered, but not told yet
		}
	}))
	defer server.Close()
	var mu sync.Mutex
	calls := map[string]int{}
	b, err := New(Config{
		Client: "suite", API: server.URL, Org: "ferry", ClientID: "ferry", ClientSecret: "ferry", Now: time.Now,
		Observe: func(call, _ string, _ time.Duration) { mu.Lock(); defer mu.Unlock(); calls[call]++ },
	})
	if err != nil {
		t.Fatal(err)
	}
	b.patient()
	market, err := b.Marketplace(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	create := func(name string) {
		answer, err := b.CreateInstance(t.Context(), broker.InstanceCall{
			Name: name, Offering: "postgres", PlanGUID: market.Offerings[0].Plans[0].GUID, Marks: broker.Marks{Operation: name, Seq: 1},
		})
		if answer.Reply != lifecycle.ReplyAccepted {
			t.Fatalf("%s: %+v, %v", name, answer, err)
		}
	}
	var all sync.WaitGroup
	find := func(name string) {
		all.Go(func() {
			look, err := b.FindInstances(t.Context(), broker.Lookup{Name: name, Offering: "postgres"})
			if err != nil || len(look.Rows) != 1 || look.Rows[0].Operation != name {
				t.Errorf("%s: %+v, %v; want its row alone", name, look.Rows, err)
			}
		})
	}
	create("early")
	find("early")
	<-read
	const crowd = 50
	for i := range crowd {
		create(fmt.Sprint("late-", i))
		find(fmt.Sprint("late-", i))
	}
	until(t, "all wait", func() bool { return b.waiting() == crowd })
	close(release)
	all.Wait()
	if n := calls["GET /v3/service_instances"]; n != 2 || calls["GET /v3/spaces"] != 1 {
		t.Errorf("calls %v; want two lists of instances, and that of the spaces for the first create", calls)
	}
}
