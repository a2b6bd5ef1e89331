package cf

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ferry-broker/ferry/internal/broker"
	"github.com/ferry-broker/ferry/internal/ccapi"
)

// stub is a Cloud Controller whose answers a test writes. Root, token, org, space and the question for filters are
// answered as usual; everything else goes to handle.
type stub struct {
	*httptest.Server
	handle http.HandlerFunc
	spaces string // the list: one that is called postgres
	token  string // that a login gets: an administrator's

	mu       sync.Mutex
	requests []string // method and path
	bodies   [][]byte
}

func newStub(t *testing.T, handle http.HandlerFunc) *stub {
	t.Helper()
	s := &stub{
		handle: handle, spaces: list(`{"guid":"space-guid","name":"postgres"}`),
		token: tokenWith(`{"client_id":"ferry","scope":["cloud_controller.admin"]}`),
	}
	s.Server = httptest.NewServer(s)
	s.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	t.Cleanup(s.Close)
	return s
}

func (s *stub) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	r.Body = io.NopCloser(bytes.NewReader(body))
	s.mu.Lock()
	s.requests = append(s.requests, r.Method+" "+r.URL.Path)
	s.bodies = append(s.bodies, body)
	spaces := s.spaces
	s.mu.Unlock()
	switch r.Method + " " + r.URL.Path {
	case "GET /":
		reply(w, 200, `{"links":{"uaa":{"href":"`+s.URL+`/uaa"},"credhub":null}}`)
	case "POST /uaa/oauth/token":
		reply(w, 200, `{"access_token":"`+s.token+`","token_type":"bearer","expires_in":599}`)
	case "GET /v3/organizations":
		reply(w, 200, list(`{"guid":"org-guid","name":"ferry"}`))
	case "GET /v3/spaces":
		reply(w, 200, spaces)
	case "GET /v3/organizations/org-guid":
		reply(w, 200, `{"guid":"org-guid","name":"ferry"}`)
	default:
		if r.URL.Path == "/v3/service_instances" && r.URL.Query().Get("per_page") == "1" {
			reply(w, 200, list())
			return
		}
		s.handle(w, r)
	}
}

// cfError is the body of a refusal by Cloud Foundry.
func cfError(code int, title, detail string) string {
	return fmt.Sprintf(`{"errors":[{"code":%d,"title":%q,"detail":%q}]}`, code, title, detail)
}

func unprocessable(detail string) string { return cfError(10008, "CF-UnprocessableEntity", detail) }

func notFound(detail string) string { return cfError(10010, "CF-ResourceNotFound", detail) }

// unable is the title of most failures.
const unable = "CF-UnableToPerform"

// list is the only page of a list.
func list(rows ...string) string {
	return `{"pagination":{"next":null},"resources":[` + strings.Join(rows, ",") + `]}`
}

// tokenWith returns a token that says this of its bearer.
func tokenWith(payload string) string {
	return "e30." + base64.RawURLEncoding.EncodeToString([]byte(payload)) + ".c2ln"
}

// shows changes the list of spaces while the stub is at work.
func (s *stub) shows(spaces string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.spaces = spaces
}

// count returns how often a request came.
func (s *stub) count(request string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for _, r := range s.requests {
		if r == request {
			n++
		}
	}
	return n
}

// lastBody returns the body of the newest request of this kind.
func (s *stub) lastBody(request string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := len(s.requests) - 1; i >= 0; i-- {
		if s.requests[i] == request {
			return string(s.bodies[i])
		}
	}
	return ""
}

func reply(w http.ResponseWriter, status int, body string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, body)
}

// hangUp closes the connection without an answer.
func hangUp(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }

func (s *stub) backend(t *testing.T, change func(*Config)) *Backend {
	t.Helper()
	c := Config{
		Client: "suite", API: s.URL, Org: "ferry", ClientID: "ferry", ClientSecret: "client-secret",
		CallTimeout: 20 * time.Second, Now: time.Now,
	}
	if change != nil {
		change(&c)
	}
	b, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// loginAtFault reports whether err is one that an operator has to put right.
func loginAtFault(err error) bool {
	e, ok := errors.AsType[*ccapi.Error](err)
	return ok && e.Advice != ""
}

// stopped is a clock at which no time passes.
func stopped() time.Time { return time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC) }

// everyCall makes each of the five calls once.
func everyCall(ctx context.Context, b *Backend) map[string]func() (broker.Answer, error) {
	key := broker.KeyCall{Name: "k", InstanceGUID: "g", Marks: testCall().Marks}
	return map[string]func() (broker.Answer, error){
		post:   func() (broker.Answer, error) { return b.CreateInstance(ctx, testCall()) },
		patch:  func() (broker.Answer, error) { return b.UpdateInstance(ctx, "g", testCall()) },
		remove: func() (broker.Answer, error) { return b.DeleteInstance(ctx, "g") },
		bind:   func() (broker.Answer, error) { return b.CreateKey(ctx, key) },
		unbind: func() (broker.Answer, error) { return b.DeleteKey(ctx, "k1") },
	}
}

func testCall() broker.InstanceCall {
	return broker.InstanceCall{
		Name: "one", Offering: "postgres", PlanGUID: "plan-guid",
		Parameters: []byte(`{"a": 1.0e0, "big":9007199254740993, "t":"<&> "}`),
		Marks:      broker.Marks{Client: "suite", Operation: "create-1", Seq: 12},
	}
}

// ourMarks are on a row of ours.
const ourMarks = `"metadata":{"annotations":{"ferry-operation":"op","ferry-seq":"7"}}`

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
