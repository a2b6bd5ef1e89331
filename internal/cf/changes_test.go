package cf

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ferry-broker/ferry/internal/broker"
	"github.com/ferry-broker/ferry/internal/lifecycle"
)

func TestBodies(t *testing.T) {
	t.Parallel()
	s := newStub(t, accept)
	b := s.backend(t, nil)
	raw := `{"a": 1.0e0, "big":9007199254740993, "t":"<&> "}`
	_, _ = b.CreateInstance(t.Context(), testCall())
	body := s.lastBody("POST /v3/service_instances")
	wantBody(t, body, `{"type":"managed","name":"one","parameters":`+raw+`,
		"metadata":{"labels":{"ferry-client":"suite"},"annotations":{"ferry-operation":"create-1","ferry-seq":"12","ferry-id":"one"}},
		"relationships":{"space":{"data":{"guid":"space-guid"}},"service_plan":{"data":{"guid":"plan-guid"}}}}`)
	if !strings.Contains(body, raw) {
		t.Errorf("parameters were changed on the way: %s", body)
	}

	_, _ = b.CreateKey(t.Context(), broker.KeyCall{
		Name: "k", InstanceGUID: "g", Parameters: json.RawMessage(raw), Marks: broker.Marks{Client: "-x-", Operation: "bind-1", Seq: 13},
	})
	body = s.lastBody("POST /v3/service_credential_bindings")
	wantBody(t, body, `{"type":"key","name":"k","parameters":`+raw+`,
		"metadata":{"labels":{"ferry-client":"x"},"annotations":{"ferry-operation":"bind-1","ferry-seq":"13","ferry-id":"k"}},
		"relationships":{"service_instance":{"data":{"guid":"g"}}}}`)
	if !strings.Contains(body, raw) {
		t.Errorf("parameters were changed on the way: %s", body)
	}
}

func TestPatchNamesOnlyWhatChanges(t *testing.T) {
	t.Parallel()
	mark := `"metadata":{"labels":null,"annotations":{"ferry-update":"update-1"}}`
	marks := broker.Marks{Operation: "update-1", Seq: 14}
	for name, test := range map[string]struct {
		call broker.InstanceCall
		want string
	}{
		"of an old row": {broker.InstanceCall{Marks: marks, Name: "a b"}, `{"metadata":{"labels":null,"annotations":{"ferry-update":"update-1","ferry-id":"a+b"}}}`},
		"nothing":       {broker.InstanceCall{Marks: marks}, `{` + mark + `}`},
		"a plan":        {broker.InstanceCall{Marks: marks, PlanGUID: "p"}, `{` + mark + `,"relationships":{"service_plan":{"data":{"guid":"p"}}}}`},
		"a version":     {broker.InstanceCall{Marks: marks, MaintenanceVersion: "2.0.0"}, `{` + mark + `,"maintenance_info":{"version":"2.0.0"}}`},
		"no parameters": {broker.InstanceCall{Marks: marks, Parameters: json.RawMessage(`{}`)}, `{` + mark + `,"parameters":{}}`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStub(t, accept)
			if answer, err := s.backend(t, nil).UpdateInstance(t.Context(), "g", test.call); answer.Reply != lifecycle.ReplyAccepted {
				t.Fatalf("answer %+v, %v", answer, err)
			}
			wantBody(t, s.lastBody("PATCH /v3/service_instances/g"), test.want)
		})
	}
}

func TestParametersThatAreNotJSONAreNotSent(t *testing.T) {
	t.Parallel()
	for _, parameters := range []string{`{"a":1`, `{"a":1},"name":"other"`, `{} {}`, `` + "\x00"} {
		s := newStub(t, accept)
		call := testCall()
		call.Parameters = json.RawMessage(parameters)
		answer, err := s.backend(t, nil).CreateInstance(t.Context(), call)
		if answer.Reply != lifecycle.ReplyRefused || err == nil || answer.Description == "" {
			t.Errorf("%q: answer %+v, %v; want refused", parameters, answer, err)
		}
		if s.count("POST /v3/service_instances") != 0 {
			t.Errorf("%q was sent", parameters)
		}
	}
}

func TestGUIDsAreEscapedInPaths(t *testing.T) {
	t.Parallel()
	paths := make(chan string, 1)
	s := newStub(t, func(w http.ResponseWriter, r *http.Request) {
		paths <- r.URL.EscapedPath()
		accept(w, r)
	})
	_, _ = s.backend(t, nil).DeleteInstance(t.Context(), "a/../b?c")
	if got, want := <-paths, "/v3/service_instances/a%2F..%2Fb%3Fc"; got != want {
		t.Errorf("path %s, want %s", got, want)
	}
}

// TestCallsOfOneOperation counts what each step costs once login, org, space and plan are known. Metrics see routes,
// never GUIDs.
func TestCallsOfOneOperation(t *testing.T) {
	t.Parallel()
	s := newStub(t, busyCloud)
	var routes []string
	b := s.backend(t, func(c *Config) {
		c.Observe = func(call, result string, _ time.Duration) { routes = append(routes, call+" "+result) }
	})
	if _, err := b.CreateInstance(t.Context(), testCall()); err != nil { // warms up
		t.Fatal(err)
	}
	const job, lookUp, lookAt = "GET /v3/jobs/j", "GET /v3/service_instances", "GET /v3/service_instances/g"
	const keys, details = "GET /v3/service_credential_bindings", "GET /v3/service_credential_bindings/k1/details"
	key := broker.KeyCall{Name: "k", InstanceGUID: "g", Marks: testCall().Marks}
	for _, step := range []struct {
		name string
		do   func(context.Context) error
		call string
	}{
		{"create", func(ctx context.Context) error { _, err := b.CreateInstance(ctx, testCall()); return err }, post},
		{"tick by job", func(ctx context.Context) error { _, err := b.Job(ctx, "j"); return err }, job},
		{"tick by name", func(ctx context.Context) error {
			_, err := b.FindInstances(ctx, broker.Lookup{Name: "one"})
			return err
		}, lookUp},
		{"tick by guid", func(ctx context.Context) error { _, err := b.FindInstance(ctx, "g", ""); return err }, lookAt},
		{"update", func(ctx context.Context) error { _, err := b.UpdateInstance(ctx, "g", testCall()); return err }, patch},
		{"delete", func(ctx context.Context) error { _, err := b.DeleteInstance(ctx, "g"); return err }, remove},
		{"foreign keys", func(ctx context.Context) error { _, err := b.ForeignKeys(ctx, "g"); return err }, keys},
		{"bind", func(ctx context.Context) error { _, err := b.CreateKey(ctx, key); return err }, bind},
		{"tick of a key", func(ctx context.Context) error {
			_, err := b.FindKeys(ctx, broker.Lookup{Instance: "g", Name: "k"})
			return err
		}, keys},
		{"details", func(ctx context.Context) error { _, err := b.KeyDetails(ctx, "k1", ""); return err }, details},
		{"unbind", func(ctx context.Context) error { _, err := b.DeleteKey(ctx, "k1"); return err }, unbind},
	} {
		before := len(s.requests)
		if err := step.do(t.Context()); err != nil {
			t.Errorf("%s: %v", step.name, err)
		}
		if diff := cmp.Diff([]string{step.call}, s.requests[before:]); diff != "" {
			t.Errorf("%s (-want +got):\n%s", step.name, diff)
		}
	}
	const instance, binding = "/v3/service_instances/:guid", "/v3/service_credential_bindings/:guid"
	want := []string{
		"POST /v3/service_instances 202", "GET /v3/jobs/:guid 200", "GET /v3/service_instances 200", "GET " + instance + " 200",
		"PATCH " + instance + " 202", "DELETE " + instance + " 202", "GET /v3/service_credential_bindings 200",
		"POST /v3/service_credential_bindings 202", "GET /v3/service_credential_bindings 200", "GET " + binding + "/details 200", "DELETE " + binding + " 202",
	}
	if diff := cmp.Diff(want, routes[len(routes)-len(want):]); diff != "" {
		t.Errorf("routes (-want +got):\n%s", diff)
	}
}
