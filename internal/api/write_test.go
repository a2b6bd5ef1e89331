package api

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/ferry-broker/ferry/internal/broker"
	"github.com/ferry-broker/ferry/internal/osb"
)

func TestSuccessesOfInstances(t *testing.T) {
	t.Parallel()
	full := func(o broker.Outcome) broker.Result {
		return broker.Result{Outcome: o, Operation: "op-1", RetryAfter: 3, DashboardURL: "https://d/?a=1&b=2",
			Metadata: &osb.InstanceMetadata{Labels: map[string]string{"l": "v"}}}
	}
	const extras = `"dashboard_url":"https://d/?a=1&b=2"`
	const metadata = `"metadata":{"labels":{"l":"v"}}`
	for _, test := range []struct {
		name, method, target string
		result               broker.Result
		status               int
		want, retryAfter     string
	}{
		{"a new create", "PUT", instanceURL, full(broker.OutcomeAccepted), 202, `{` + extras + `,"operation":"op-1",` + metadata + `}`, "3"},
		{"a duplicate create", "PUT", instanceURL, full(broker.OutcomeRunning), 202, `{` + extras + `,"operation":"op-1",` + metadata + `}`, "3"},
		{"what exists", "PUT", instanceURL, full(broker.OutcomeExists), 200, `{` + extras + `,` + metadata + `}`, ""},
		{"what exists and has nothing to tell", "PUT", instanceURL, broker.Result{Outcome: broker.OutcomeExists}, 200, `{}`, ""},
		{"a new update", "PATCH", instanceURL, full(broker.OutcomeAccepted), 202, `{` + extras + `,"operation":"op-1",` + metadata + `}`, "3"},
		{"an update without effect", "PATCH", instanceURL, broker.Result{Outcome: broker.OutcomeExists}, 200, `{}`, ""},
		{"a new delete", "DELETE", instanceURL + hints, full(broker.OutcomeAccepted), 202, `{"operation":"op-1"}`, "3"},
		{"a duplicate delete", "DELETE", instanceURL + hints, full(broker.OutcomeRunning), 202, `{"operation":"op-1"}`, "3"},
		{"a new unbind", "DELETE", bindingURL + hints, full(broker.OutcomeAccepted), 202, `{"operation":"op-1"}`, "3"},
		{"a held unbind", "DELETE", bindingURL, broker.Result{Outcome: broker.OutcomeDeleted}, 200, `{}`, ""},
		{"a hurried poller", "PUT", instanceURL, broker.Result{Outcome: broker.OutcomeAccepted, Operation: "o"}, 202, `{"operation":"o"}`, "1"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			b.broker.provision = func(context.Context, broker.ProvisionRequest) (broker.Result, error) { return test.result, nil }
			b.broker.update = func(context.Context, broker.UpdateRequest) (broker.Result, error) { return test.result, nil }
			b.broker.deprovision = func(context.Context, broker.DeleteRequest) (broker.Result, error) { return test.result, nil }
			b.broker.unbind = b.broker.deprovision
			w := b.send(test.method, test.target, goodInstance)
			object(t, w)
			if got := strings.TrimSpace(w.Body.String()); w.Code != test.status || got != test.want {
				t.Errorf("%d %s, want %d %s", w.Code, got, test.status, test.want)
			}
			if got := w.Header().Get("Retry-After"); got != test.retryAfter {
				t.Errorf("Retry-After = %q, want %q", got, test.retryAfter)
			}
			if got := w.Header().Get("Cache-Control"); got != "no-store" {
				t.Errorf("Cache-Control = %q, want no-store", got)
			}
		})
	}
}

func TestSuccessesOfBindings(t *testing.T) {
	t.Parallel()
	body := broker.BindingBody{
		KeyDetails: broker.KeyDetails{
			Credentials:    json.RawMessage(`{"uri":"p://u:<&>@h","big":9007199254740993,"e":1.0}`),
			SyslogDrainURL: "syslog://d", VolumeMounts: json.RawMessage(`[{"mode":"r"}]`),
		},
		Parameters: json.RawMessage(`{"name":"n"}`),
	}
	const data = `{"credentials":{"uri":"p://u:<&>@h","big":9007199254740993,"e":1.0},"syslog_drain_url":"syslog://d","volume_mounts":[{"mode":"r"}]`
	for _, test := range []struct {
		name   string
		result broker.Result
		status int
		want   string
	}{
		{"a held bind", broker.Result{Outcome: broker.OutcomeCreated, Operation: "o", Binding: &body}, 201, data + "}"},
		{"a duplicate bind", broker.Result{Outcome: broker.OutcomeExists, Operation: "o", Binding: &body}, 200, data + "}"},
		{"a binding without credentials", broker.Result{Outcome: broker.OutcomeCreated, Binding: &broker.BindingBody{KeyDetails: broker.KeyDetails{Credentials: json.RawMessage("null")}}}, 201, "{}"},
		{"an accepted bind, whose data must wait", broker.Result{Outcome: broker.OutcomeAccepted, Operation: "o", Binding: &body, RetryAfter: 1}, 202, `{"operation":"o"}`},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			b.broker.bind = func(context.Context, broker.BindRequest) (broker.Result, error) { return test.result, nil }
			w := b.send("PUT", bindingURL, goodBinding)
			if got := strings.TrimSpace(w.Body.String()); w.Code != test.status || got != test.want {
				t.Errorf("%d %s, want %d %s", w.Code, got, test.status, test.want)
			}
		})
	}
	t.Run("a fetched binding has its parameters", func(t *testing.T) {
		t.Parallel()
		b := newBench(t)
		b.broker.binding = func(context.Context, broker.FetchRequest) (broker.BindingBody, error) { return body, nil }
		w := b.send("GET", bindingURL, "")
		if got, want := strings.TrimSpace(w.Body.String()), data+`,"parameters":{"name":"n"}}`; w.Code != 200 || got != want {
			t.Errorf("%d %s, want 200 %s", w.Code, got, want)
		}
	})
}

func TestAFetchedInstance(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.broker.instance = func(context.Context, broker.FetchRequest) (broker.InstanceBody, error) {
		return broker.InstanceBody{ServiceID: "s", PlanID: "p", DashboardURL: "https://d", Parameters: json.RawMessage(`{"n":1}`), MaintenanceVersion: "2.1.0"}, nil
	}
	const want = `{"service_id":"s","plan_id":"p","dashboard_url":"https://d","parameters":{"n":1},"maintenance_info":{"version":"2.1.0"}}`
	if w := b.send("GET", instanceURL, ""); w.Code != 200 || strings.TrimSpace(w.Body.String()) != want {
		t.Errorf("%d %s, want 200 %s", w.Code, w.Body, want)
	}
}

func TestAnswersThatWouldDeceiveThePlatformAreFaults(t *testing.T) {
	t.Parallel()
	for name, result := range map[string]broker.Result{
		"a bind that is done but has no body":  {Outcome: broker.OutcomeExists},
		"an outcome that nobody knows":         {Outcome: "perhaps"},
		"no outcome":                           {},
		"credentials that are not JSON at all": {Outcome: broker.OutcomeCreated, Binding: &broker.BindingBody{KeyDetails: broker.KeyDetails{Credentials: json.RawMessage(`S3CRET`)}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			b.broker.bind = func(context.Context, broker.BindRequest) (broker.Result, error) { return result, nil }
			w := b.send("PUT", bindingURL, goodBinding)
			described(t, w, 500, "operator")
			if line := b.lines(t)[0]; line["level"] != "ERROR" || line["error"] == nil {
				t.Errorf("log line %v, want an ERROR with its cause", line)
			}
			if strings.Contains(w.Body.String()+b.log.String(), "S3CRET") {
				t.Error("credentials show")
			}
		})
	}
}
