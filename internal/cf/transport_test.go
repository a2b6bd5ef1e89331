package cf

import (
	"context"
	"testing"

	"github.com/ferry-broker/ferry/internal/broker"
	"github.com/ferry-broker/ferry/internal/lifecycle"
)

// everyCall makes each of the five calls once.
func everyCall(ctx context.Context, b *Backend) map[string]func() (broker.Answer, error) {
	key := broker.KeyCall{Name: "k", InstanceGUID: "g", Marks: testCall().Marks}
	return map[string]func() (broker.Answer, error){
		"POST /v3/service_instances":                func() (broker.Answer, error) { return b.CreateInstance(ctx, testCall()) },
		"PATCH /v3/service_instances/g":             func() (broker.Answer, error) { return b.UpdateInstance(ctx, "g", testCall()) },
		"DELETE /v3/service_instances/g":            func() (broker.Answer, error) { return b.DeleteInstance(ctx, "g") },
		"POST /v3/service_credential_bindings":      func() (broker.Answer, error) { return b.CreateKey(ctx, key) },
		"DELETE /v3/service_credential_bindings/k1": func() (broker.Answer, error) { return b.DeleteKey(ctx, "k1") },
	}
}

// TestNothingIsRepeated has the server read each call and hang up, on connections that were used before, which is when
// net/http repeats what it may.
func TestNothingIsRepeated(t *testing.T) {
	t.Parallel()
	s := newStub(t, hangUp)
	for request := range everyCall(t.Context(), nil) {
		b := s.backend(t, nil)
		if _, err := b.places.space(t.Context(), "postgres"); err != nil { // warms the connection
			t.Fatal(err)
		}
		answer, err := everyCall(t.Context(), b)[request]()
		if answer.Reply != lifecycle.ReplyUnknown || err == nil {
			t.Errorf("%s: answer %+v, %v; want unknown with an error", request, answer, err)
		}
		if n := s.count(request); n != 1 {
			t.Errorf("%s was sent %d times, want once", request, n)
		}
	}
}
