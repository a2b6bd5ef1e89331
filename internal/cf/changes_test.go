package cf

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ferry-broker/ferry/internal/broker"
	"github.com/ferry-broker/ferry/internal/lifecycle"
)

func accept(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Location", "/v3/jobs/j")
	w.WriteHeader(http.StatusAccepted)
}

// wantBody compares a sent body with the JSON that is wanted, numbers as text.
func wantBody(t *testing.T, got, want string) {
	t.Helper()
	decode := func(text string) (v any) {
		d := json.NewDecoder(strings.NewReader(text))
		d.UseNumber()
		if err := d.Decode(&v); err != nil {
			t.Fatalf("body %s: %v", text, err)
		}
		return v
	}
	if diff := cmp.Diff(decode(want), decode(got)); diff != "" {
		t.Errorf("body (-want +got):\n%s", diff)
	}
}

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

// ourMarks are on a row of ours.
const ourMarks = `"metadata":{"annotations":{"ferry-operation":"op","ferry-seq":"7"}}`

// busyCloud answers every call of an operation.
func busyCloud(w http.ResponseWriter, r *http.Request) {
	switch r.Method + " " + r.URL.Path {
	case "GET /v3/jobs/j":
		reply(w, 200, `{"guid":"j","state":"POLLING"}`)
	case "GET /v3/service_instances/g":
		reply(w, 200, `{"guid":"g","name":"one"}`)
	case "GET /v3/service_instances":
		reply(w, 200, `{"pagination":{"next":null},"resources":[{"guid":"g","name":"one",`+ourMarks+`}]}`)
	case "GET /v3/service_credential_bindings":
		reply(w, 200, `{"pagination":{"next":null},"resources":[{"guid":"k1","name":"k",`+ourMarks+`}]}`)
	case "GET /v3/service_credential_bindings/k1/details":
		reply(w, 200, `{"credentials":{}}`)
	default:
		accept(w, r)
	}
}

// TestCallsOfOneOperation counts what each step costs once login, org, space and plan are known.
func TestCallsOfOneOperation(t *testing.T) {
	t.Parallel()
	s := newStub(t, busyCloud)
	b := s.backend(t, nil)
	if _, err := b.CreateInstance(t.Context(), testCall()); err != nil { // warms up
		t.Fatal(err)
	}
	key := broker.KeyCall{Name: "k", InstanceGUID: "g", Marks: testCall().Marks}
	for _, step := range []struct {
		name string
		do   func(context.Context) error
		want []string
	}{
		{"create", func(ctx context.Context) error { _, err := b.CreateInstance(ctx, testCall()); return err }, []string{"POST /v3/service_instances"}},
		{"tick by job", func(ctx context.Context) error { _, err := b.Job(ctx, "j"); return err }, []string{"GET /v3/jobs/j"}},
		{"tick by name", func(ctx context.Context) error { _, err := b.FindInstances(ctx, "one"); return err }, []string{"GET /v3/service_instances"}},
		{"tick by guid", func(ctx context.Context) error { _, err := b.FindInstance(ctx, "g"); return err }, []string{"GET /v3/service_instances/g"}},
		{"update", func(ctx context.Context) error { _, err := b.UpdateInstance(ctx, "g", testCall()); return err }, []string{"PATCH /v3/service_instances/g"}},
		{"delete", func(ctx context.Context) error { _, err := b.DeleteInstance(ctx, "g"); return err }, []string{"DELETE /v3/service_instances/g"}},
		{"foreign keys", func(ctx context.Context) error { _, err := b.ForeignKeys(ctx, "g"); return err }, []string{"GET /v3/service_credential_bindings"}},
		{"bind", func(ctx context.Context) error { _, err := b.CreateKey(ctx, key); return err }, []string{"POST /v3/service_credential_bindings"}},
		{"tick of a key", func(ctx context.Context) error { _, err := b.FindKeys(ctx, "g", "k"); return err }, []string{"GET /v3/service_credential_bindings"}},
		{"details", func(ctx context.Context) error { _, err := b.KeyDetails(ctx, "k1"); return err }, []string{"GET /v3/service_credential_bindings/k1/details"}},
		{"unbind", func(ctx context.Context) error { _, err := b.DeleteKey(ctx, "k1"); return err }, []string{"DELETE /v3/service_credential_bindings/k1"}},
	} {
		s.mu.Lock()
		before := len(s.requests)
		s.mu.Unlock()
		if err := step.do(t.Context()); err != nil {
			t.Errorf("%s: %v", step.name, err)
		}
		s.mu.Lock()
		if diff := cmp.Diff(step.want, s.requests[before:]); diff != "" {
			t.Errorf("%s (-want +got):\n%s", step.name, diff)
		}
		s.mu.Unlock()
	}
}

// TestLimiterIsHandedOn: 429 says how long to stay away.
func TestLimiterIsHandedOn(t *testing.T) {
	t.Parallel()
	s := newStub(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "37")
		w.Header().Set("Content-Type", "text/plain") // as the Cloud Controller does
		w.WriteHeader(http.StatusTooManyRequests)
		_, _ = w.Write([]byte(cfError(10013, "CF-RateLimitExceeded", "Rate Limit Exceeded")))
	})
	now := time.Now()
	b := s.backend(t, func(c *Config) { c.Now = func() time.Time { return now } })
	b.instances.flavors.learn(cloudController)
	for request, call := range everyCall(t.Context(), b) {
		if answer, err := call(); answer.Reply != lifecycle.ReplyBusy || answer.RetryAfter != 37*time.Second || err == nil {
			t.Errorf("%s: %+v, %v; want busy for 37 s", request, answer, err)
		}
	}
	for name, find := range map[string]func() error{
		"FindInstances": func() error { _, err := b.FindInstances(t.Context(), "one"); return err },
		"FindInstance":  func() error { _, err := b.FindInstance(t.Context(), "g"); return err },
		"FindKeys":      func() error { _, err := b.FindKeys(t.Context(), "g", "k"); return err },
		"Job":           func() error { _, err := b.Job(t.Context(), "j"); return err },
		"KeyDetails":    func() error { _, err := b.KeyDetails(t.Context(), "k"); return err },
		"Marketplace":   func() error { _, err := b.Marketplace(t.Context()); return err },
		"Marked":        func() error { _, err := b.Marked(t.Context()); return err },
	} {
		var wait broker.RetryIn
		if err := find(); !errors.As(err, &wait) || wait.RetryIn() != 37*time.Second {
			t.Errorf("%s: %v; want an error that asks for 37 s", name, err)
		}
	}
}
