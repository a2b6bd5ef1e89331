package cf_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/oauth2/clientcredentials"

	"github.com/ferry-broker/ferry/internal/broker"
	"github.com/ferry-broker/ferry/internal/brokertest"
	"github.com/ferry-broker/ferry/internal/ccapi"
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
			status, row := f.follow(verb)
			if status.State != lifecycle.JobFailed || !status.FromBackingBroker {
				t.Errorf("job %+v, want it failed on the broker's word", status)
			}
			if status.Description == "" && row.Last.Description == "" {
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
	find := func() broker.Row { return f.row(f.b.FindInstances(ctx, broker.Lookup{Name: f.name})) }
	status := f.end(f.b.CreateInstance(ctx, broker.InstanceCall{Name: f.name, Offering: "faults", PlanGUID: f.plan, Marks: marks}))
	row := find()
	key := func() broker.Row { return f.row(f.b.FindKeys(ctx, broker.Lookup{Instance: row.GUID, Name: "k"})) }
	switch verb {
	case "update":
		status = f.end(f.b.UpdateInstance(ctx, row.GUID, broker.InstanceCall{Parameters: []byte(`{}`), Marks: marks}))
	case "delete":
		status = f.end(f.b.DeleteInstance(ctx, row.GUID))
	case "bind", "unbind":
		status = f.end(f.b.CreateKey(ctx, broker.KeyCall{Name: "k", InstanceGUID: row.GUID, Marks: marks}))
		if verb == "unbind" {
			status = f.end(f.b.DeleteKey(ctx, key().GUID))
		}
		return status, key()
	}
	return status, find()
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
		status, err := f.b.Job(f.t.Context(), answer.Job)
		if err != nil || status.State.Ended() {
			return status
		}
		select {
		case <-deadline:
			f.t.Fatalf("job %+v does not end", status)
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
	row := f.row(b.FindInstances(t.Context(), broker.Lookup{Name: "one"}))
	f.end(b.CreateKey(t.Context(), broker.KeyCall{Name: "k", InstanceGUID: row.GUID, Marks: broker.Marks{Operation: "bind-1", Seq: 1}}))
	details, err := b.KeyDetails(t.Context(), f.row(b.FindKeys(t.Context(), broker.Lookup{Instance: row.GUID, Name: "k"})).GUID, "")
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
		got, err := b.InstanceParameters(t.Context(), f.row(b.FindInstances(t.Context(), broker.Lookup{Name: plan})).GUID)
		if string(got) != want || errors.Is(err, broker.ErrNotRetrievable) != (want == "") {
			t.Errorf("%s: %s, %v; want %s", plan, got, err, want)
		}
	}
}

// foundry is a simulated Cloud Foundry with a backend that is warm.
type foundry struct {
	fate
	api string
}

func newFoundry(t *testing.T, options cfsim.Options) foundry {
	t.Helper()
	api := simulatedWith(t, options)
	b := open(t, ferryConfig(api))
	return foundry{fate{t: t, b: b, name: "one", plan: plans(t, b)["postgres/small"]}, api}
}

// condition changes what Cloud Foundry's operators decided.
func (f foundry) condition(body string) {
	f.t.Helper()
	f.control(http.MethodPost, "/conditions", body)
}

func (f foundry) control(method, path, body string) {
	f.t.Helper()
	r, err := http.NewRequestWithContext(f.t.Context(), method, f.api+"/__sim"+path, strings.NewReader(body))
	if err != nil {
		f.t.Fatal(err)
	}
	answer, err := fresh().Do(r)
	if err != nil {
		f.t.Fatal(err)
	}
	defer func() { _ = answer.Body.Close() }()
	if said, _ := io.ReadAll(answer.Body); answer.StatusCode > 299 {
		f.t.Fatalf("%s %s: %d %s", method, path, answer.StatusCode, said)
	}
}

func (f foundry) create() (broker.Answer, error) {
	return f.b.CreateInstance(f.t.Context(), broker.InstanceCall{
		Name: f.name, Offering: "postgres", PlanGUID: f.plan, Marks: broker.Marks{Client: "suite", Operation: "create-1", Seq: 1},
	})
}

func (f foundry) bind(instance string) (broker.Answer, error) {
	return f.b.CreateKey(f.t.Context(), broker.KeyCall{
		Name: "k", InstanceGUID: instance, Marks: broker.Marks{Client: "suite", Operation: "bind-1", Seq: 2},
	})
}

// TestPolicyScenarios has Cloud Foundry refuse a create for reasons of its operators'. Nothing may be left behind.
func TestPolicyScenarios(t *testing.T) {
	t.Parallel()
	for scenario, test := range map[string]struct {
		condition string
		want      lifecycle.Reply
		says      string
	}{
		"09_quota_of_the_org":          {`{"quota":{"ferry":{"instances":0}}}`, lifecycle.ReplyRefused, "organization's services limit"},
		"09_quota_of_the_space":        {`{"quota":{"ferry/postgres":{"instances":0}}}`, lifecycle.ReplyRefused, "space's services limit"},
		"12_the_broker_is_being_read":  {`{"broker_busy":true}`, lifecycle.ReplyBusy, ""},
		"13_the_feature_is_off":        {`{"features_off":{"service_instance_creation":""}}`, lifecycle.ReplyBusy, "Feature Disabled"},
		"13_the_org_is_suspended":      {`{"suspended":{"ferry":true}}`, lifecycle.ReplyBusy, "organization is suspended"},
		"13_the_space_is_suspended":    {`{"suspended":{"ferry/postgres":true}}`, lifecycle.ReplyBusy, "space is suspended"},
		"13_the_space_is_deleted":      {`{"deleting":{"ferry/postgres":true}}`, lifecycle.ReplyBusy, ""},
		"13_the_org_is_deleted":        {`{"deleting":{"ferry":true}}`, lifecycle.ReplyRefused, "organization is being deleted"},
		"13_the_login_has_no_role":     {`{"permissions":{"ferry":"space_auditor"}}`, lifecycle.ReplyBusy, "operator has to look"},
		"13_an_org_manager_takes_role": {`{"permissions":{"ferry":"org_manager"}}`, lifecycle.ReplyBusy, ""},
	} {
		t.Run("scenario_"+scenario, func(t *testing.T) {
			t.Parallel()
			f := newFoundry(t, cfsim.Options{})
			f.end(f.create()) // makes the space
			f.name = "two"
			f.condition(test.condition)
			answer, err := f.create()
			if answer.Reply != test.want || !strings.Contains(answer.Description, test.says) || answer.StalePlan || err == nil {
				t.Errorf("answer %+v, %v; want %s that says %q", answer, err, test.want, test.says)
			}
			if look, err := f.b.FindInstances(t.Context(), broker.Lookup{Name: "two"}); err != nil || len(look.Rows) != 0 {
				t.Errorf("look %+v, %v; want nothing", look.Rows, err)
			}
			if strings.Contains(scenario, "takes_role") {
				f.end(f.create())
			}
		})
	}
}

// TestBlindLoginSeesNoAbsence takes every right from the login and gives it back.
func TestBlindLoginSeesNoAbsence(t *testing.T) {
	t.Parallel()
	for name, options := range map[string]cfsim.Options{"cloud controller": {}, "korifi": {Korifi: true}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFoundry(t, options)
			f.end(f.create())
			row := f.row(f.b.FindInstances(t.Context(), broker.Lookup{Name: "one"}))
			if answer, err := f.bind(row.GUID); answer.Reply == lifecycle.ReplyBusy {
				f.end(f.bind(row.GUID))
			} else {
				f.end(answer, err)
			}
			key := f.row(f.b.FindKeys(t.Context(), broker.Lookup{Instance: row.GUID, Name: "k"}))
			f.condition(`{"permissions":{"ferry":"none"}}`)
			for what, find := range map[string]func() (broker.Look, error){
				"FindInstances": func() (broker.Look, error) { return f.b.FindInstances(t.Context(), broker.Lookup{Name: "one"}) },
				"FindInstance":  func() (broker.Look, error) { return f.b.FindInstance(t.Context(), row.GUID, "") },
				"FindKeys": func() (broker.Look, error) {
					return f.b.FindKeys(t.Context(), broker.Lookup{Instance: row.GUID, Name: "k"})
				},
			} {
				look, err := find()
				if e, ok := errors.AsType[*ccapi.Error](err); !ok || e.Advice == "" {
					t.Errorf("%s: %+v, %v; want an error of the login's", what, look, err)
				}
			}
			if _, err := f.b.KeyDetails(t.Context(), key.GUID, ""); err == nil || errors.Is(err, broker.ErrNotFound) {
				t.Errorf("details: %v; want an error that is no absence", err)
			}
			f.control(http.MethodDelete, "/conditions", "")
			f.row(f.b.FindInstances(t.Context(), broker.Lookup{Name: "one"}))
			f.row(f.b.FindKeys(t.Context(), broker.Lookup{Instance: row.GUID, Name: "k"}))
		})
	}
}

// fresh is a client whose connections nobody else closes: a test server that stops closes the idle ones of
// http.DefaultTransport, whoever is about to use them.
func fresh() *http.Client {
	return &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
}

// TestTokensExpireUnderLoad withdraws all tokens after each success while several callers work. A call may be told
// "busy" when its second token was withdrawn too; it never becomes unknown, and none makes two instances.
func TestTokensExpireUnderLoad(t *testing.T) {
	t.Parallel()
	const callers, each = 8, 12
	api := simulated(t, 0)
	b := open(t, ferryConfig(api))
	plan := plans(t, b)["postgres/small"]
	name := func(caller, i int) string { return fmt.Sprintf("i-%d-%d", caller, i) }
	var group sync.WaitGroup
	for caller := range callers {
		group.Go(func() {
			for i := range each {
				createUnderFire(t, b, plan, name(caller, i), callers*each)
				expireTokens(t, api)
			}
		})
	}
	group.Wait()
	for n := range callers * each {
		id := name(n/each, n%each)
		if look, err := b.FindInstances(t.Context(), broker.Lookup{Name: id}); err != nil || len(look.Rows) != 1 {
			t.Errorf("%s: %d rows, %v", id, len(look.Rows), err)
		}
	}
}

func expireTokens(t *testing.T, api string) {
	answer, err := fresh().Post(api+"/__sim/tokens/expire", "application/json", http.NoBody)
	if err != nil {
		t.Error(err)
		return
	}
	_ = answer.Body.Close()
}

// createUnderFire creates until the create is accepted. Each withdrawal can make one of its calls busy at most.
func createUnderFire(t *testing.T, b broker.Backend, plan, name string, withdrawals int) {
	for range withdrawals + 1 {
		answer, err := b.CreateInstance(t.Context(), broker.InstanceCall{
			Name: name, Offering: "postgres", PlanGUID: plan,
			Marks: broker.Marks{Client: "suite", Operation: "create-" + name, Seq: 1},
		})
		switch answer.Reply {
		case lifecycle.ReplyAccepted:
			return
		case lifecycle.ReplyBusy:
		default:
			t.Errorf("%s: %+v, %v", name, answer, err)
			return
		}
	}
	t.Errorf("%s was never accepted", name)
}
