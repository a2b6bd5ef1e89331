package server

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"syscall"
	"time"
)

const (
	headerTimeout = 10 * time.Second
	bodyTimeout   = 30 * time.Second
	idleTimeout   = 2 * time.Minute
	maxHeader     = 64 << 10
	// grace is how long requests in flight may take after the signal to stop.
	grace = 10 * time.Second
)

// listen opens a TCP listener, with a sentence for each way in which it can fail.
func listen(ctx context.Context, flag, address string) (net.Listener, error) {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	switch {
	case err == nil:
		return listener, nil
	case errors.Is(err, syscall.EADDRINUSE):
		return nil, failure(err, "The address %s is in use by another process. Stop that one, or choose another address with %s.", address, flag)
	case errors.Is(err, syscall.EACCES):
		return nil, failure(err, "This user may not listen on %s. Choose a port above 1023 with %s.", address, flag)
	default:
		return nil, failure(err, "Cannot listen on %s: %v. Give an address as host:port with %s.", address, err, flag)
	}
}

// newServer bounds what a slow or hostile peer can hold open.
func newServer(handler http.Handler, longest time.Duration) *http.Server {
	return &http.Server{
		Handler: handler, ReadHeaderTimeout: headerTimeout, ReadTimeout: bodyTimeout,
		WriteTimeout: longest + time.Minute, IdleTimeout: idleTimeout, MaxHeaderBytes: maxHeader,
	}
}

// isLoopback reports whether an address can be reached from this machine only.
func isLoopback(address string) bool {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return false
	}
	if host == "localhost" {
		return true
	}
	ip := net.ParseIP(host)
	return ip != nil && ip.IsLoopback()
}

// fewestConnections is how many a broker keeps open at least.
const fewestConnections = 1024

// connections bounds how many are open at once, so that those of one peer, or of strangers who send nothing, do not
// keep others out. Who comes when all are open is let in: the address that has the most loses the one of its
// connections that has been without a request for longest. A connection on which a request is being answered is never
// closed; whoever sends a header slowly has none yet.
type connections struct {
	most int

	mu    sync.Mutex
	open  map[*connection]struct{}
	of    map[string]int
	turns int64
}

// connection is one of them. Its fields are guarded by those who count it.
type connection struct {
	net.Conn
	counted *connections
	address string
	// requests are being answered on it; since is when it last began to have none.
	requests int
	since    int64
}

type connectionKey struct{}

// boundConnections makes a server tell which of its connections are in use. Its listener is then to be the one that
// listen returns.
func boundConnections(server *http.Server, most int) *connections {
	c := &connections{most: most, open: map[*connection]struct{}{}, of: map[string]int{}}
	handler := server.Handler
	server.ConnContext = func(ctx context.Context, conn net.Conn) context.Context {
		if secure, ok := conn.(interface{ NetConn() net.Conn }); ok {
			conn = secure.NetConn()
		}
		return context.WithValue(ctx, connectionKey{}, conn)
	}
	server.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if conn, ok := r.Context().Value(connectionKey{}).(*connection); ok {
			c.begin(conn)
			defer c.end(conn)
		}
		handler.ServeHTTP(w, r)
	})
	return c
}

// boundListener accepts connections that are counted.
type boundListener struct {
	net.Listener
	counted *connections
}

func (c *connections) listen(l net.Listener) net.Listener { return boundListener{l, c} }

// Accept returns the next connection, and closes another one where it is one too many.
func (l boundListener) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if errors.Is(err, syscall.EMFILE) && l.counted.closeOne() {
			continue // the system allows fewer than we do
		}
		if err != nil {
			return nil, err
		}
		counted, full := l.counted.add(conn)
		if full {
			l.counted.closeOne()
		}
		return counted, nil
	}
}

func (c *connections) add(conn net.Conn) (counted *connection, full bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	counted = &connection{Conn: conn, counted: c, address: addressOf(conn), since: c.turn()}
	c.open[counted] = struct{}{}
	c.of[counted.address]++
	return counted, len(c.open) > c.most
}

// addressOf is what counts as one peer: of IPv6, the network that one has.
func addressOf(conn net.Conn) string {
	remote, err := netip.ParseAddrPort(conn.RemoteAddr().String())
	if err != nil {
		return conn.RemoteAddr().String()
	}
	address := remote.Addr().Unmap()
	if address.Is6() {
		network, _ := address.Prefix(64) // an address of IPv6 has one
		return network.String()
	}
	return address.String()
}

// turn counts what happens, as a clock that tells what was first. The lock is held.
func (c *connections) turn() int64 {
	c.turns++
	return c.turns
}

func (c *connections) begin(conn *connection) {
	c.mu.Lock()
	defer c.mu.Unlock()
	conn.requests++
}

func (c *connections) end(conn *connection) {
	c.mu.Lock()
	defer c.mu.Unlock()
	conn.requests--
	conn.since = c.turn()
}

// closeOne closes the connection that has to go, false when all are in use.
func (c *connections) closeOne() bool {
	loser := c.loser()
	if loser == nil {
		return false
	}
	_ = loser.Close() // its peer finds out
	return true
}

func (c *connections) loser() (loser *connection) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for conn := range c.open {
		if conn.requests > 0 {
			continue
		}
		if loser == nil || c.of[conn.address] > c.of[loser.address] ||
			c.of[conn.address] == c.of[loser.address] && conn.since < loser.since {
			loser = conn
		}
	}
	return loser
}

// Close ends the connection and counts it no more.
func (conn *connection) Close() error {
	conn.counted.remove(conn)
	return conn.Conn.Close()
}

func (c *connections) remove(conn *connection) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, open := c.open[conn]; !open {
		return
	}
	delete(c.open, conn)
	if c.of[conn.address]--; c.of[conn.address] == 0 {
		delete(c.of, conn.address)
	}
}
