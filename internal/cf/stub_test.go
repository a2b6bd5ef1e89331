package cf

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/ferry-broker/ferry/internal/ccapi"
)

// stub is a Cloud Controller whose answers a test writes. Root, token, org, space and the question for filters are
// answered as usual; everything else goes to handle.
type stub struct {
	*httptest.Server
	handle http.HandlerFunc
	spaces string // the list; empty: one that is called postgres
	token  string // that a login gets; empty: an administrator's

	mu       sync.Mutex
	requests []string // method and path
	bodies   [][]byte
}

func newStub(t *testing.T, handle http.HandlerFunc) *stub {
	t.Helper()
	s := &stub{handle: handle}
	s.Server = httptest.NewServer(s)
	t.Cleanup(s.Close)
	return s
}

func (s *stub) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	r.Body = io.NopCloser(bytes.NewReader(body))
	s.mu.Lock()
	s.requests = append(s.requests, r.Method+" "+r.URL.Path)
	s.bodies = append(s.bodies, body)
	s.mu.Unlock()
	switch r.Method + " " + r.URL.Path {
	case "GET /":
		reply(w, 200, `{"links":{"uaa":{"href":"`+s.URL+`/uaa"},"credhub":null}}`)
	case "POST /uaa/oauth/token":
		reply(w, 200, `{"access_token":"`+cmp.Or(s.token, tokenWith(`{"client_id":"ferry","scope":["cloud_controller.admin"]}`))+`","token_type":"bearer","expires_in":599}`)
	case "GET /v3/organizations":
		reply(w, 200, `{"pagination":{"next":null},"resources":[{"guid":"org-guid","name":"ferry"}]}`)
	case "GET /v3/spaces":
		reply(w, 200, cmp.Or(s.spaces, `{"pagination":{"next":null},"resources":[{"guid":"space-guid","name":"postgres"}]}`))
	case "GET /v3/organizations/org-guid":
		reply(w, 200, `{"guid":"org-guid","name":"ferry"}`)
	default:
		if r.URL.Path == "/v3/service_instances" && r.URL.Query().Get("per_page") == "1" {
			reply(w, 200, `{"pagination":{"next":null},"resources":[]}`)
			return
		}
		s.handle(w, r)
	}
}

// tokenWith returns a token that says this of its bearer.
func tokenWith(payload string) string {
	return "e30." + base64.RawURLEncoding.EncodeToString([]byte(payload)) + ".c2ln"
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
	s.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
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
