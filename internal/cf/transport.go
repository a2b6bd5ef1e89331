package cf

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"net/http"
	"time"
)

// newHTTPClient returns a client that sends each request at most once.
//
// HTTP/1.1 only: HTTP/2 may send a request again on another connection after a
// GOAWAY. With HTTP/1.1 net/http repeats a request by itself only when its method
// is idempotent or nothing of it was written. Redirects are never followed: the API
// has none, and a redirected POST would be a second one.
func newHTTPClient(ca []byte, skipVerify bool) (*http.Client, error) {
	trust, err := tlsConfig(ca, skipVerify)
	if err != nil {
		return nil, err
	}
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	dialer := &net.Dialer{Timeout: 10 * time.Second, KeepAlive: 30 * time.Second}
	kept := &http.Transport{
		Proxy:                  http.ProxyFromEnvironment,
		DialContext:            dialer.DialContext,
		TLSClientConfig:        trust,
		TLSHandshakeTimeout:    10 * time.Second,
		Protocols:              protocols,
		MaxIdleConns:           64,
		MaxIdleConnsPerHost:    64,
		IdleConnTimeout:        60 * time.Second,
		MaxResponseHeaderBytes: 256 << 10,
	}
	fresh := kept.Clone()
	fresh.DisableKeepAlives = true
	return &http.Client{
		Transport:     roads{kept: kept, fresh: fresh},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}, nil
}

// roads sends what changes something by a connection of its own. One that was kept may
// be dead without our knowing, all the more in a process that was frozen in between:
// then nobody can say whether the call arrived, and it counts as unknown for
// settle_after. A read is repeated by net/http in that case.
type roads struct{ kept, fresh *http.Transport }

// RoundTrip implements http.RoundTripper.
func (r roads) RoundTrip(q *http.Request) (*http.Response, error) {
	if q.Method == http.MethodGet {
		return r.kept.RoundTrip(q)
	}
	return r.fresh.RoundTrip(q)
}

// CloseIdleConnections is what http.Client calls by that name.
func (r roads) CloseIdleConnections() { r.kept.CloseIdleConnections() }

func tlsConfig(ca []byte, skipVerify bool) (*tls.Config, error) {
	trust := &tls.Config{
		MinVersion:         tls.VersionTLS12,
		InsecureSkipVerify: skipVerify, // an operator asked for it by name
		ClientSessionCache: tls.NewLRUClientSessionCache(8),
	}
	if len(ca) == 0 {
		return trust, nil
	}
	trust.RootCAs = x509.NewCertPool()
	if !trust.RootCAs.AppendCertsFromPEM(ca) {
		return nil, errors.New("the CA holds no PEM certificate")
	}
	return trust, nil
}
