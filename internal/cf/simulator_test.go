package cf_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"golang.org/x/oauth2/clientcredentials"

	"github.com/ferry-broker/ferry/internal/broker"
	"github.com/ferry-broker/ferry/internal/brokertest"
	"github.com/ferry-broker/ferry/internal/cf"
	"github.com/ferry-broker/ferry/internal/cfsim"
	"github.com/ferry-broker/ferry/internal/lifecycle"
)

// simulated starts a Cloud Foundry of the test's own and returns its address.
func simulated(t *testing.T, brokerDelay time.Duration) string {
	t.Helper()
	return simulatedWith(t, cfsim.Options{BrokerDelay: brokerDelay})
}

// simulatedWith starts one with these options and short delays.
func simulatedWith(t *testing.T, o cfsim.Options) string {
	t.Helper()
	o.JobDelay, o.PollInterval, o.BrokerTimeout = time.Millisecond, 5*time.Millisecond, time.Second
	sim := cfsim.New(o)
	server := httptest.NewServer(sim.Handler())
	t.Cleanup(func() {
		server.Close()
		sim.Close()
	})
	return server.URL
}

func open(t *testing.T, c cf.Config) *cf.Backend {
	t.Helper()
	b, err := cf.New(c)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func ferryConfig(api string) cf.Config {
	return cf.Config{Client: "suite", API: api, Org: "ferry", ClientID: "ferry", ClientSecret: "ferry", Now: time.Now}
}

// plans returns the GUIDs of all plans, by "offering/plan".
func plans(t *testing.T, b broker.Backend) map[string]string {
	t.Helper()
	market, err := b.Marketplace(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	guids := map[string]string{}
	for _, o := range market.Offerings {
		for _, p := range o.Plans {
			guids[o.Name+"/"+p.Name] = p.GUID
		}
	}
	return guids
}

func TestContract(t *testing.T) {
	t.Parallel()
	for name, options := range map[string]cfsim.Options{
		"cloud controller": {BrokerDelay: 200 * time.Millisecond},
		"korifi":           {BrokerDelay: 200 * time.Millisecond, Korifi: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			brokertest.TestBackend(t, func(t *testing.T) brokertest.BackendHarness { return harness(t, options) })
		})
	}
}

func harness(t *testing.T, options cfsim.Options) brokertest.BackendHarness {
	t.Helper()
	api := simulatedWith(t, options)
	guids := plans(t, open(t, ferryConfig(api)))
	return brokertest.BackendHarness{
		Backend:  open(t, ferryConfig(api)), // knows nothing yet, as after a start
		Offering: "postgres",
		Plan:     guids["postgres/small"], Other: guids["postgres/large"],
		Slow: guids["postgres/async"], AppOnly: guids["postgres/app-only"],
		RejectingOffering: "faults", Rejecting: guids["faults/create-rejected"],
		BigNumber: "9007199254740993", Patience: 10 * time.Second, Korifi: options.Korifi,
		Rename: func(t *testing.T, guid, name string) { renameInstance(t, api, guid, name) },
	}
}

// renameInstance gives an instance another name, as an operator does by hand.
func renameInstance(t *testing.T, api, guid, name string) {
	t.Helper()
	login := clientcredentials.Config{ClientID: "ferry", ClientSecret: "ferry", TokenURL: api + "/uaa/oauth/token"}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPatch, api+"/v3/service_instances/"+guid, strings.NewReader(`{"name":"`+name+`"}`))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	answer, err := login.Client(t.Context()).Do(r)
	if err != nil || answer.StatusCode > 299 {
		t.Fatalf("rename: %+v, %v", answer, err)
	}
	_ = answer.Body.Close()
	if _, job, waits := strings.Cut(answer.Header.Get("Location"), "/v3/jobs/"); waits {
		fate{t: t, b: open(t, ferryConfig(api))}.end(broker.Answer{Reply: lifecycle.ReplyAccepted, Job: job}, nil)
	}
}

// TestBackingBrokersFailures follows each fate of the simulator's plans to the end and wants the broker's word and a
// reason, in the job or in the row.
func TestBackingBrokersFailures(t *testing.T) {
	t.Parallel()
	b := open(t, ferryConfig(simulated(t, 10*time.Millisecond)))
	guids := plans(t, b)
	for _, plan := range []string{
		"create-rejected", "create-fails", "update-rejected", "update-fails", "delete-rejected", "delete-fails",
		"bind-rejected", "bind-fails", "unbind-rejected", "unbind-fails",
	} {
		t.Run(plan, func(t *testing.T) {
			t.Parallel()
			f := fate{t: t, b: b, name: plan, plan: guids["faults/"+plan]}
			verb, _, _ := strings.Cut(plan, "-")
			sight, row := f.follow(verb)
			if sight.State != lifecycle.JobFailed || !sight.FromBackingBroker {
				t.Errorf("job %+v, want it failed on the broker's word", sight)
			}
			if sight.Description == "" && row.Last.Description == "" {
				t.Errorf("no reason in the job nor in row %+v", row)
			}
			if row.Last.State != lifecycle.LastFailed {
				t.Errorf("row %+v, want it failed", row)
			}
		})
	}
}

// fate is an instance of a plan whose name says what will fail.
type fate struct {
	t          *testing.T
	b          *cf.Backend
	name, plan string
}

// follow goes on until the operation that is to fail has ended.
func (f fate) follow(verb string) (broker.JobStatus, broker.Row) {
	ctx, marks := f.t.Context(), broker.Marks{Operation: "op-" + f.name, Seq: 1}
	find := func() broker.Row { return f.row(f.b.FindInstances(ctx, f.name)) }
	sight := f.end(f.b.CreateInstance(ctx, broker.InstanceCall{Name: f.name, Offering: "faults", PlanGUID: f.plan, Marks: marks}))
	row := find()
	key := func() broker.Row { return f.row(f.b.FindKeys(ctx, row.GUID, "k")) }
	switch verb {
	case "update":
		sight = f.end(f.b.UpdateInstance(ctx, row.GUID, broker.InstanceCall{Parameters: []byte(`{}`), Marks: marks}))
	case "delete":
		sight = f.end(f.b.DeleteInstance(ctx, row.GUID))
	case "bind", "unbind":
		sight = f.end(f.b.CreateKey(ctx, broker.KeyCall{Name: "k", InstanceGUID: row.GUID, Marks: marks}))
		if verb == "unbind" {
			sight = f.end(f.b.DeleteKey(ctx, key().GUID))
		}
		return sight, key()
	}
	return sight, find()
}

// row returns the only row of a look-up.
func (f fate) row(look broker.Look, err error) broker.Row {
	f.t.Helper()
	if err != nil || len(look.Rows) != 1 {
		f.t.Fatalf("look-up %+v, %v; want one row", look.Rows, err)
	}
	return look.Rows[0]
}

// end waits for the end of an accepted call.
func (f fate) end(answer broker.Answer, err error) broker.JobStatus {
	f.t.Helper()
	if answer.Reply != lifecycle.ReplyAccepted {
		f.t.Fatalf("answer %+v, %v; want accepted", answer, err)
	}
	for deadline := time.After(10 * time.Second); ; {
		sight, err := f.b.Job(f.t.Context(), answer.Job)
		if err != nil || sight.State.Ended() {
			return sight
		}
		select {
		case <-deadline:
			f.t.Fatalf("job %+v does not end", sight)
		case <-time.After(2 * time.Millisecond):
		}
	}
}

// TestUserReadsDetails logs in as a user and reads what platforms are handed.
func TestUserReadsDetails(t *testing.T) {
	t.Parallel()
	b := open(t, cf.Config{API: simulated(t, 0), Org: "demo", Username: "admin", Password: "admin", Now: time.Now})
	f := fate{t: t, b: b, name: "one"}
	f.end(b.CreateInstance(t.Context(), broker.InstanceCall{
		Name: "one", Offering: "drain", PlanGUID: plans(t, b)["drain/standard"], Marks: broker.Marks{Operation: "create-1", Seq: 1},
	}))
	row := f.row(b.FindInstances(t.Context(), "one"))
	f.end(b.CreateKey(t.Context(), broker.KeyCall{Name: "k", InstanceGUID: row.GUID, Marks: broker.Marks{Operation: "bind-1", Seq: 1}}))
	details, err := b.KeyDetails(t.Context(), f.row(b.FindKeys(t.Context(), row.GUID, "k")).GUID)
	if err != nil || len(details.Credentials) == 0 || details.SyslogDrainURL == "" || len(details.VolumeMounts) == 0 {
		t.Errorf("details without a part: drain %q, %d bytes of mounts, %v", details.SyslogDrainURL, len(details.VolumeMounts), err)
	}
}

func TestParametersComeBackOrNever(t *testing.T) {
	t.Parallel()
	b := open(t, ferryConfig(simulated(t, 0)))
	guids := plans(t, b)
	for plan, want := range map[string]string{"postgres/small": `{"big":9007199254740993}`, "queue/standard": ""} {
		f := fate{t: t, b: b, name: plan}
		f.end(b.CreateInstance(t.Context(), broker.InstanceCall{
			Name: plan, Offering: strings.Split(plan, "/")[0], PlanGUID: guids[plan],
			Parameters: []byte(`{"big":9007199254740993}`), Marks: broker.Marks{Operation: "create-1", Seq: 1},
		}))
		got, err := b.InstanceParameters(t.Context(), f.row(b.FindInstances(t.Context(), plan)).GUID)
		if string(got) != want || errors.Is(err, broker.ErrNotRetrievable) != (want == "") {
			t.Errorf("%s: %s, %v; want %s", plan, got, err, want)
		}
	}
}
