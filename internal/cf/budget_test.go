package cf

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ferry-broker/ferry/internal/broker"
	"github.com/ferry-broker/ferry/internal/lifecycle"
)

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
