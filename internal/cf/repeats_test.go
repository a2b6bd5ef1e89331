package cf

import (
	"bufio"
	"encoding/pem"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/ferry-broker/ferry/internal/lifecycle"
)

// TestHTTP2IsNotSpoken: a server that offers it gets HTTP/1.1 all the same, so that
// no GOAWAY or REFUSED_STREAM can have a POST sent again. It holds for each way to
// trust a server, since each makes a TLS configuration of its own.
func TestHTTP2IsNotSpoken(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*Config, []byte){
		"with a CA":     func(c *Config, ca []byte) { c.CA = ca },
		"trusting all":  func(c *Config, _ []byte) { c.SkipTLSVerify = true },
		"trusting both": func(c *Config, ca []byte) { c.CA, c.SkipTLSVerify = ca, true },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStub(t, accept)
			var protocols sync.Map
			server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				protocols.Store(r.Proto, true)
				s.ServeHTTP(w, r)
			}))
			server.EnableHTTP2 = true
			server.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
			server.StartTLS()
			t.Cleanup(server.Close)
			s.uaa = server.URL
			ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
			b := s.backend(t, func(c *Config) { c.API = server.URL; change(c, ca) })
			if answer, err := b.CreateInstance(t.Context(), testCall()); answer.Reply != lifecycle.ReplyAccepted {
				t.Fatalf("answer %+v, %v", answer, err)
			}
			protocols.Range(func(proto, _ any) bool {
				if proto != "HTTP/1.1" {
					t.Errorf("the server was spoken to in %s", proto)
				}
				return true
			})
			if _, spoken := protocols.Load("HTTP/1.1"); !spoken {
				t.Error("the server was not spoken to")
			}
		})
	}
}

// rawServer is a server below HTTP: it decides when a connection ends.
type rawServer struct {
	listener net.Listener
	posts    atomic.Int64
	// onPost is told of a POST that was read to its end; the connection closes
	// afterwards.
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

// TestConnectionsThatEnd has a server end a connection that was used before, at each
// moment at which net/http might send the POST again.
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
			s := newStub(t, accept)
			b := s.backend(t, nil)
			if _, err := b.space(t.Context(), "postgres"); err != nil {
				t.Fatal(err)
			}
			raw := newRawServer(t, test.onIdle, test.onPost)
			b.api = "http://" + raw.listener.Addr().String()
			if look, err := b.FindInstance(t.Context(), "g"); err != nil || len(look.Rows) != 1 {
				t.Fatalf("look %+v, %v", look, err)
			}
			answer, err := b.CreateInstance(t.Context(), testCall())
			b.http.CloseIdleConnections()
			if answer.Reply != lifecycle.ReplyUnknown || err == nil {
				t.Errorf("answer %+v, %v; want unknown", answer, err)
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
	b := newStub(t, accept).backend(t, nil)
	for _, method := range []string{http.MethodPost, http.MethodPatch} {
		r, err := b.newRequest(t.Context(), request{method: method, path: "/x", body: []byte("{}")}, "token")
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
