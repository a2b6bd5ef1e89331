package ccapi

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// stub is a Cloud Controller with its UAA, whose answers a test writes: root and logins are answered as usual, unless
// login does; everything else goes to handle.
type stub struct {
	*httptest.Server
	handle http.HandlerFunc
	uaa    string // where the API says that its UAA is
	// login gets the number of the login, from 1, and reports whether it answered.
	login  func(n int64, w http.ResponseWriter, r *http.Request) bool
	logins atomic.Int64

	mu       sync.Mutex
	requests []string // method and path
}

func newStub(t *testing.T, handle http.HandlerFunc) *stub {
	t.Helper()
	s := &stub{handle: handle}
	s.Server = httptest.NewServer(s)
	s.uaa = s.URL
	s.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	t.Cleanup(s.Close)
	return s
}

func (s *stub) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body) // a server notices that its client left once the body is read
	r.Body = io.NopCloser(bytes.NewReader(body))
	s.mu.Lock()
	s.requests = append(s.requests, r.Method+" "+r.URL.Path)
	s.mu.Unlock()
	switch r.Method + " " + r.URL.Path {
	case "GET /":
		reply(w, 200, `{"links":{"uaa":{"href":"`+s.uaa+`/uaa"},"credhub":null}}`)
	case "POST /uaa/oauth/token":
		n := s.logins.Add(1)
		if s.login == nil || !s.login(n, w, r) {
			reply(w, 200, fmt.Sprintf(`{"access_token":"token-%d","token_type":"bearer","expires_in":599}`, n))
		}
	default:
		s.handle(w, r)
	}
}

// count returns how often a request came.
func (s *stub) count(request string) (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.requests {
		if r == request {
			n++
		}
	}
	return n
}

func (s *stub) client(t *testing.T, change func(*Config)) *Client {
	t.Helper()
	config := Config{API: s.URL, ClientID: "ferry", ClientSecret: "client-secret", CallTimeout: 20 * time.Second, Now: time.Now}
	if change != nil {
		change(&config)
	}
	c, err := New(config)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func reply(w http.ResponseWriter, status int, body string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, body)
}

// cfError is the body of a refusal by Cloud Foundry.
func cfError(code int, title, detail string) string {
	return fmt.Sprintf(`{"errors":[{"code":%d,"title":%q,"detail":%q}]}`, code, title, detail)
}

// fine answers every request.
func fine(w http.ResponseWriter, _ *http.Request) { reply(w, 200, `{"guid":"g"}`) }

// hangUp closes the connection without an answer.
func hangUp(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }

// get makes one call that reads.
func get(ctx context.Context, c *Client) error {
	_, err := c.Get(ctx, Request{Path: "/v3/jobs/j", Route: "/v3/jobs/:guid", What: "get job"}, &Identity{})
	return err
}

// changing are the methods that change something.
var changing = []string{http.MethodPost, http.MethodPatch, http.MethodDelete}

// change makes one call that changes something.
func change(ctx context.Context, c *Client, method string) error {
	r := Request{Method: method, Path: "/v3/x", Route: "/v3/x", What: "change"}
	if method != http.MethodDelete {
		r.Body = []byte(`{}`)
	}
	_, err := c.Send(ctx, r)
	return err
}

// failure returns the error as one of a call.
func failure(t *testing.T, err error) *Error {
	t.Helper()
	e, ok := errors.AsType[*Error](err)
	if !ok {
		t.Errorf("error %v, want one of a call", err)
		return &Error{}
	}
	return e
}

// TestNothingIsRepeated has the server read each call and hang up, on connections that were used before, which is when
// net/http repeats what it may.
func TestNothingIsRepeated(t *testing.T) {
	t.Parallel()
	s := newStub(t, hangUp)
	for _, method := range changing {
		c := s.client(t, nil)
		if _, err := c.Claims(t.Context()); err != nil { // warms the connection
			t.Fatal(err)
		}
		if e := failure(t, change(t.Context(), c, method)); e.Unsent || e.Err == nil || e.Status != 0 {
			t.Errorf("%s: %+v; want one that was sent and not answered", method, e)
		}
		if n := s.count(method + " /v3/x"); n != 1 {
			t.Errorf("%s was sent %d times, want once", method, n)
		}
	}
}

// TestChangesHaveAConnectionOfTheirOwn: one that was kept may have died unnoticed, for instance while the process was
// frozen, and a POST on it is of unknown fate.
func TestChangesHaveAConnectionOfTheirOwn(t *testing.T) {
	t.Parallel()
	s := newStub(t, fine)
	var used sync.Map
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, before := used.LoadOrStore(r.RemoteAddr, true)
		if before && r.Method != http.MethodGet {
			hangUp(w, r)
			return
		}
		s.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	c := s.client(t, func(c *Config) { c.API = server.URL })
	for _, method := range changing {
		if err := get(t.Context(), c); err != nil { // leaves a connection to use again
			t.Fatal(err)
		}
		if err := change(t.Context(), c, method); err != nil {
			t.Errorf("%s: %v", method, err)
		}
	}
}

func TestHalfAnAnswerIsNone(t *testing.T) {
	t.Parallel()
	s := newStub(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "1000")
		reply(w, http.StatusUnprocessableEntity, cfError(10008, "CF-UnprocessableEntity", "The service instance name is taken: one."))
	})
	if e := failure(t, change(t.Context(), s.client(t, nil), http.MethodPost)); e.Err == nil || e.Unsent || e.Code != 0 {
		t.Errorf("%+v; want that there was no whole answer", e)
	}
}

func TestAnswersAreBounded(t *testing.T) {
	t.Parallel()
	s := newStub(t, func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusOK)
		block := []byte(strings.Repeat(" ", 1<<20))
		for range 17 {
			_, _ = w.Write(block)
		}
	})
	if err := get(t.Context(), s.client(t, nil)); err == nil || !strings.Contains(err.Error(), "longer than") {
		t.Errorf("error %v, want that the answer is too long", err)
	}
}

func TestDeadlines(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		own, callers time.Duration
	}{
		"the call's own time ends it": {50 * time.Millisecond, time.Hour},
		"the caller's time ends it":   {time.Hour, 50 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			gone := make(chan struct{}, 8)
			s := newStub(t, func(_ http.ResponseWriter, r *http.Request) {
				<-r.Context().Done() // answers never; ends when the client has hung up
				gone <- struct{}{}
			})
			c := s.client(t, func(c *Config) { c.CallTimeout = 10 * time.Second })
			if _, err := c.Claims(t.Context()); err != nil {
				t.Fatal(err)
			}
			c.config.CallTimeout = test.own
			ctx, cancel := context.WithTimeout(t.Context(), test.callers)
			defer cancel()
			err := change(ctx, c, http.MethodPost)
			if e := failure(t, err); e.Unsent || !errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%+v; want one that was sent and ended by a deadline", e)
			}
			<-gone
		})
	}
}

func TestNoConnectionIsDefinite(t *testing.T) {
	t.Parallel()
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	refusing := "http://" + closed.Addr().String()
	_ = closed.Close()
	untrusted := httptest.NewUnstartedServer(http.NotFoundHandler())
	untrusted.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	untrusted.StartTLS()
	t.Cleanup(untrusted.Close)
	s := newStub(t, hangUp)
	lost := func(context.Context, string, string) (net.Conn, error) {
		return nil, &net.DNSError{Err: "no such host", Name: "api.invalid", IsNotFound: true}
	}
	for name, broken := range map[string]func(*Client){
		"refused":          func(c *Client) { c.api = refusing },
		"untrusted by TLS": func(c *Client) { c.api = untrusted.URL },
		"no such host": func(c *Client) {
			c.api = "http://api.invalid"
			c.http.Transport.(transports).fresh.DialContext = lost
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := s.client(t, nil)
			if _, err := c.Claims(t.Context()); err != nil {
				t.Fatal(err)
			}
			broken(c) // the login is at hand, so that the call itself meets it
			err := change(t.Context(), c, http.MethodPost)
			if e := failure(t, err); !e.Unsent || !Unreachable(err) {
				t.Errorf("%+v; want one that was not sent, to nobody", e)
			}
		})
	}
}

func TestRedirectsAreNotFollowed(t *testing.T) {
	t.Parallel()
	s := newStub(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/elsewhere" {
			http.Redirect(w, r, "/elsewhere", http.StatusTemporaryRedirect)
		}
	})
	for _, method := range changing {
		if e := failure(t, change(t.Context(), s.client(t, nil), method)); e.Status != http.StatusTemporaryRedirect {
			t.Errorf("%s: %+v, want the redirect", method, e)
		}
		if n := s.count(method + " /elsewhere"); n != 0 {
			t.Errorf("%s followed %d redirects", method, n)
		}
	}
}

func TestNewRefusesWhatCannotWork(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]Config{
		"no address":        {Now: time.Now},
		"another scheme":    {API: "ftp://127.0.0.1", Now: time.Now},
		"no host":           {API: "https://", Now: time.Now},
		"a CA that is none": {API: "https://127.0.0.1", Now: time.Now, CA: []byte("-----BEGIN NOTHING-----")},
		"no clock":          {API: "https://127.0.0.1"},
	} {
		if _, err := New(c); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// trusting are the ways to trust a server, each of which makes a TLS configuration of its own.
var trusting = map[string]func(*Config, []byte){
	"with a CA":     func(c *Config, ca []byte) { c.CA = ca },
	"trusting all":  func(c *Config, _ []byte) { c.SkipTLSVerify = true },
	"trusting both": func(c *Config, ca []byte) { c.CA, c.SkipTLSVerify = ca, true },
}

// overTLS returns a client of the stub that reaches it by TLS, and the protocols in which it was spoken to.
func overTLS(t *testing.T, s *stub, prepare func(*httptest.Server), trust func(*Config, []byte)) (*Client, *sync.Map) {
	t.Helper()
	var protocols sync.Map
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		protocols.Store(r.Proto, true)
		s.ServeHTTP(w, r)
	}))
	prepare(server)
	server.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	server.StartTLS()
	t.Cleanup(server.Close)
	s.uaa = server.URL
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	return s.client(t, func(c *Config) { c.API = server.URL; trust(c, ca) }), &protocols
}

// TestHTTP2IsNotSpoken: a server that offers it gets HTTP/1.1 all the same, so that no GOAWAY or REFUSED_STREAM can
// have a POST sent again.
func TestHTTP2IsNotSpoken(t *testing.T) {
	t.Parallel()
	for name, trust := range trusting {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, protocols := overTLS(t, newStub(t, fine), func(s *httptest.Server) { s.EnableHTTP2 = true }, trust)
			if err := change(t.Context(), c, http.MethodPost); err != nil {
				t.Fatal(err)
			}
			spoken := []any{}
			protocols.Range(func(protocol, _ any) bool { spoken = append(spoken, protocol); return true })
			if diff := cmp.Diff([]any{"HTTP/1.1"}, spoken); diff != "" {
				t.Errorf("protocols (-want +got):\n%s", diff)
			}
		})
	}
}

// TestOldTLSIsNotSpoken: a server, or somebody on the way, that offers nothing above TLS 1.1 is sent neither a login
// nor a call, whichever way a certificate is trusted.
func TestOldTLSIsNotSpoken(t *testing.T) {
	t.Parallel()
	for name, trust := range trusting {
		for version, fails := range map[uint16]bool{tls.VersionTLS11: true, tls.VersionTLS12: false} {
			t.Run(name+", "+tls.VersionName(version), func(t *testing.T) {
				t.Parallel()
				c, protocols := overTLS(t, newStub(t, fine), func(s *httptest.Server) {
					s.TLS = &tls.Config{MinVersion: tls.VersionTLS10, MaxVersion: version}
				}, trust)
				err := change(t.Context(), c, http.MethodPost)
				if _, spoken := protocols.Load("HTTP/1.1"); (err != nil) != fails || spoken == fails {
					t.Errorf("%v, spoken to %v; want an error %v", err, spoken, fails)
				}
			})
		}
	}
}

// rawServer is a server below HTTP: it decides when a connection ends.
type rawServer struct {
	listener net.Listener
	posts    atomic.Int64
	// onPost is told of a POST that was read to its end; the connection closes afterwards.
	onPost func(net.Conn)
	// onIdle is told of a connection whose first request was answered.
	onIdle func(net.Conn)
}

func newRawServer(t *testing.T, onIdle, onPost func(net.Conn)) *rawServer {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &rawServer{listener: listener, onIdle: onIdle, onPost: onPost}
	var group sync.WaitGroup
	group.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			group.Go(func() { s.serve(conn) })
		}
	})
	t.Cleanup(func() { _ = listener.Close(); group.Wait() })
	return s
}

func (s *rawServer) serve(conn net.Conn) {
	defer func() { _ = conn.Close() }()
	reader := bufio.NewReader(conn)
	for {
		r, err := http.ReadRequest(reader)
		if err != nil {
			return
		}
		_, _ = io.Copy(io.Discard, r.Body)
		if r.Method == http.MethodPost {
			s.posts.Add(1)
			s.onPost(conn)
			return
		}
		_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 12\r\n\r\n{\"guid\":\"g\"}")
		if s.onIdle != nil {
			s.onIdle(conn)
		}
	}
}

// TestConnectionsThatEnd has a server end a connection that was used before, at each moment at which net/http might
// send the POST again.
func TestConnectionsThatEnd(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		onIdle, onPost func(net.Conn)
	}{
		"while it is idle":               {func(c net.Conn) { _ = c.Close() }, func(net.Conn) {}},
		"after the request was read":     {nil, func(net.Conn) {}},
		"by a reset":                     {nil, func(c net.Conn) { _ = c.(*net.TCPConn).SetLinger(0) }},
		"in the middle of a status line": {nil, func(c net.Conn) { _, _ = io.WriteString(c, "HTTP/1.1 20") }},
		"after half a body": {nil, func(c net.Conn) {
			_, _ = io.WriteString(c, "HTTP/1.1 201 Created\r\nContent-Length: 100\r\n\r\n{\"guid\":")
		}},
		"after 100 Continue": {nil, func(c net.Conn) { _, _ = io.WriteString(c, "HTTP/1.1 100 Continue\r\n\r\n") }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newStub(t, fine).client(t, nil)
			if _, err := c.Claims(t.Context()); err != nil {
				t.Fatal(err)
			}
			raw := newRawServer(t, test.onIdle, test.onPost)
			c.api = "http://" + raw.listener.Addr().String()
			if err := get(t.Context(), c); err != nil {
				t.Fatal(err)
			}
			err := change(t.Context(), c, http.MethodPost)
			c.http.CloseIdleConnections()
			if e := failure(t, err); e.Unsent || e.Err == nil {
				t.Errorf("%+v; want one that was sent and not answered", e)
			}
			if n := raw.posts.Load(); n != 1 {
				t.Errorf("%d POSTs arrived, want one", n)
			}
		})
	}
}

// TestNoBodyIsOfferedAgain: net/http repeats only what it can read anew.
func TestNoBodyIsOfferedAgain(t *testing.T) {
	t.Parallel()
	c := newStub(t, fine).client(t, nil)
	for _, method := range []string{http.MethodPost, http.MethodPatch} {
		r, err := c.newRequest(t.Context(), Request{Method: method, Path: "/x", Body: []byte("{}")}, "token")
		if err != nil || r.GetBody != nil {
			t.Errorf("%s: %v; the body can be read anew", method, err)
		}
		for name := range r.Header {
			if strings.Contains(strings.ToLower(name), "idempotency") {
				t.Errorf("%s has header %s, which lets net/http repeat it", method, name)
			}
		}
	}
}

// TestExchangesAreReported: metrics see routes, never GUIDs, and the log has Cloud Foundry's id of each request.
func TestExchangesAreReported(t *testing.T) {
	t.Parallel()
	s := newStub(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("X-VCAP-Request-ID", "req-1::2")
		reply(w, 422, cfError(10008, "CF-UnprocessableEntity", "no"))
	})
	seen := map[string]int{}
	var log bytes.Buffer
	c := s.client(t, func(c *Config) {
		c.Logger = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
		c.Observe = func(call, result string, took time.Duration) {
			if took < 0 {
				t.Errorf("%s took %v", call, took)
			}
			seen[call+" "+result]++
		}
	})
	if err := get(t.Context(), c); err == nil || !strings.Contains(err.Error(), "[request req-1::2]") {
		t.Errorf("error %v, want the id of the request", err)
	}
	s.handle = hangUp
	_ = change(t.Context(), c, http.MethodPost)
	want := map[string]int{"GET / 200": 1, "POST /oauth/token 200": 1, "GET /v3/jobs/:guid 422": 1, "POST /v3/x error": 1}
	if diff := cmp.Diff(want, seen); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for line := range strings.Lines(log.String()) {
		if strings.Contains(line, "jobs") != strings.Contains(line, "request_id=req-1::2") {
			t.Errorf("the id of the request is wrong or missing in %s", line)
		}
	}
}

// tokenWith returns a token that says this of its bearer.
func tokenWith(payload string) string {
	return "e30." + base64.RawURLEncoding.EncodeToString([]byte(payload)) + ".c2ln"
}
