package server

import (
	"context"
	"errors"
	"net"
	"net/http"
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
