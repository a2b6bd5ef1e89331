package cf

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

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
