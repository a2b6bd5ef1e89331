package cf_test

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/ferry-broker/ferry/internal/broker"
	"github.com/ferry-broker/ferry/internal/ccapi"
	"github.com/ferry-broker/ferry/internal/cfsim"
	"github.com/ferry-broker/ferry/internal/lifecycle"
)

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
			if look, err := f.b.FindInstances(t.Context(), "two"); err != nil || len(look.Rows) != 0 {
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
			row := f.row(f.b.FindInstances(t.Context(), "one"))
			if answer, err := f.bind(row.GUID); answer.Reply == lifecycle.ReplyBusy {
				f.end(f.bind(row.GUID))
			} else {
				f.end(answer, err)
			}
			key := f.row(f.b.FindKeys(t.Context(), row.GUID, "k"))
			f.condition(`{"permissions":{"ferry":"none"}}`)
			for what, find := range map[string]func() (broker.Look, error){
				"FindInstances": func() (broker.Look, error) { return f.b.FindInstances(t.Context(), "one") },
				"FindInstance":  func() (broker.Look, error) { return f.b.FindInstance(t.Context(), row.GUID) },
				"FindKeys":      func() (broker.Look, error) { return f.b.FindKeys(t.Context(), row.GUID, "k") },
			} {
				look, err := find()
				if e, ok := errors.AsType[*ccapi.Error](err); !ok || e.Advice == "" {
					t.Errorf("%s: %+v, %v; want an error of the login's", what, look, err)
				}
			}
			if _, err := f.b.KeyDetails(t.Context(), key.GUID); err == nil || errors.Is(err, broker.ErrNotFound) {
				t.Errorf("details: %v; want an error that is no absence", err)
			}
			f.control(http.MethodDelete, "/conditions", "")
			f.row(f.b.FindInstances(t.Context(), "one"))
			f.row(f.b.FindKeys(t.Context(), row.GUID, "k"))
		})
	}
}

// TestRoleIsTakenForKeys: an org manager's login that lost its role in the space.
func TestRoleIsTakenForKeys(t *testing.T) {
	t.Parallel()
	f := newFoundry(t, cfsim.Options{})
	f.end(f.create())
	row := f.row(f.b.FindInstances(t.Context(), "one"))
	f.condition(`{"permissions":{"ferry":"org_manager"}}`)
	if answer, err := f.bind(row.GUID); answer.Reply != lifecycle.ReplyBusy || err == nil {
		t.Fatalf("first %+v, %v; want busy while the role is taken", answer, err)
	}
	f.end(f.bind(row.GUID))
}

// fresh is a client whose connections nobody else closes: a test server that stops closes the idle ones of
// http.DefaultTransport, whoever is about to use them.
func fresh() *http.Client {
	return &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
}
