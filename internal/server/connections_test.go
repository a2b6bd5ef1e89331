package server

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ferry-broker/ferry/internal/config"
)

// origins is a listener whose connections come from where the test says.
type origins struct {
	net.Listener
	next     chan string
	accepted chan struct{}
	// exhausted is how often the system refuses another connection first.
	exhausted int
}

type origin struct {
	net.Conn
	address string
}

func (o origin) RemoteAddr() net.Addr { return named(o.address) }

type named string

func (named) Network() string  { return "tcp" }
func (n named) String() string { return string(n) }

func (o *origins) Accept() (net.Conn, error) {
	if o.exhausted > 0 && len(o.accepted) == cap(o.accepted) {
		o.exhausted--
		return nil, syscall.EMFILE
	}
	conn, err := o.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return origin{conn, <-o.next}, nil
}

// fewConnections is a server that has few.
type fewConnections struct {
	t       *testing.T
	listens *origins
	counted *connections
	held    chan struct{}
}

func newFewConnections(t *testing.T, most int) *fewConnections {
	t.Helper()
	l, err := listen(t.Context(), "--listen", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	h := &fewConnections{t: t, listens: &origins{Listener: l, next: make(chan string, 1)}, held: make(chan struct{})}
	server := newServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/held" {
			h.held <- struct{}{}
			<-h.held
		}
	}), time.Minute)
	server.ReadHeaderTimeout, server.ReadTimeout = 0, 0 // so that nothing else closes connections
	h.counted = boundConnections(server, most)
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(h.counted.listen(h.listens)) }()
	t.Cleanup(func() {
		_ = server.Close()
		if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
			t.Errorf("the server ended with %v", err)
		}
		if n := len(h.counted.open) + len(h.counted.of); n != 0 {
			t.Errorf("%d connections are counted after the end", n)
		}
	})
	return h
}

// dial opens a connection that says it is from there, and sends a beginning.
func (h *fewConnections) dial(address, text string) net.Conn {
	h.t.Helper()
	before := h.turns()
	h.listens.next <- address
	conn, err := new(net.Dialer).DialContext(h.t.Context(), "tcp", h.listens.Addr().String())
	if err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(func() { _ = conn.Close() })
	if _, err := io.WriteString(conn, text); err != nil {
		h.t.Fatal(err)
	}
	until(h.t, "the connection is accepted", func() bool { return h.turns() > before })
	return conn
}

func (h *fewConnections) turns() int64 {
	h.counted.mu.Lock()
	defer h.counted.mu.Unlock()
	return h.counted.turns
}

// asks sends a request and reports whether it is answered.
func (h *fewConnections) asks(conn net.Conn, path string) bool {
	h.t.Helper()
	if _, err := io.WriteString(conn, "GET "+path+" HTTP/1.1\r\nHost: ferry\r\n\r\n"); err != nil {
		return false
	}
	return h.answered(conn)
}

func (h *fewConnections) answered(conn net.Conn) bool {
	h.t.Helper()
	line, err := bufio.NewReader(conn).ReadString('\n')
	return err == nil && strings.HasPrefix(line, "HTTP/1.1 200")
}

// closed reports whether the other side ended the connection; it waits for that.
func closed(conn net.Conn) bool {
	_ = conn.SetReadDeadline(time.Now().Add(8 * time.Second)) // for one that stays open
	_, err := conn.Read(make([]byte, 1))
	return err != nil && !errors.Is(err, os.ErrDeadlineExceeded)
}

// Idle connections, and those whose header never ends, keep nobody out: neither who comes later nor who has one, and a
// request that is being answered is left alone.
func TestIdleConnectionsKeepNobodyOut(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{"silent": "", "in the middle of a header": "GET / HTTP/1.1\r\nHost: fer"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newFewConnections(t, 5)
			platform := h.dial("192.0.2.1:1000", "")
			if !h.asks(platform, "/") {
				t.Fatal("the first request is not answered")
			}
			held := h.dial("192.0.2.66:1000", "GET /held HTTP/1.1\r\nHost: ferry\r\n\r\n")
			<-h.held
			strangers := make([]net.Conn, 8)
			for i := range strangers {
				strangers[i] = h.dial("192.0.2.66:2000", text)
			}
			for i, conn := range strangers[:5] {
				if !closed(conn) {
					t.Errorf("connection %d of the stranger is still open", i)
				}
			}
			if !h.asks(platform, "/") {
				t.Error("the platform lost its connection to the stranger's")
			}
			if other := h.dial("198.51.100.1:1000", ""); !h.asks(other, "/") || !closed(strangers[5]) {
				t.Error("another platform is not let in")
			}
			h.held <- struct{}{}
			if !h.answered(held) {
				t.Error("a request in flight lost its connection")
			}
		})
	}
}

// Networks are what is counted: who has one of IPv6 has more addresses than places.
func TestOneNetworkIsOnePeer(t *testing.T) {
	t.Parallel()
	for address, want := range map[string]string{
		"192.0.2.1:80": "192.0.2.1", "[::ffff:192.0.2.1]:80": "192.0.2.1",
		"[2001:db8:1:2:3::4]:80": "2001:db8:1:2::/64", "[2001:db8:1:2::9]:81": "2001:db8:1:2::/64", "pipe": "pipe",
	} {
		if got := addressOf(origin{address: address}); got != want {
			t.Errorf("%s counts as %s, want %s", address, got, want)
		}
	}
}

// Where the system allows fewer files than we allow connections, one of them goes.
func TestASystemWithoutFilesLosesIdleConnections(t *testing.T) {
	t.Parallel()
	h := newFewConnections(t, 5)
	first := h.dial("192.0.2.66:2000", "")
	l := h.counted.listen(&origins{Listener: closedListener{}, exhausted: 2})
	if _, err := l.Accept(); !errors.Is(err, syscall.EMFILE) || !closed(first) {
		t.Errorf("%v, want the error once nothing is left to close", err)
	}
}

type closedListener struct{ net.Listener }

// TestServeBoundsConnections: the limit is that of a whole broker.
func TestServeBoundsConnections(t *testing.T) {
	t.Parallel()
	o := quiet(t)
	o.Config, o.mostConnections = config.Demo(), 2
	o.Config.Clients[0].CloudFoundry.API = "http://127.0.0.1:1"
	url, end := running(t, o)
	first := make([]net.Conn, 3)
	for i := range first {
		conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", strings.TrimPrefix(url, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		first[i] = conn
		defer func() { _ = conn.Close() }()
	}
	if !closed(first[0]) {
		t.Error("the first of three connections is still open, want two at once")
	}
	if err := end(); err != nil {
		t.Errorf("end: %v", err)
	}
}
