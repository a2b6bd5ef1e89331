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
	return &http.Client{
		Transport: &http.Transport{
			Proxy:                  http.ProxyFromEnvironment,
			DialContext:            dialer.DialContext,
			TLSClientConfig:        trust,
			TLSHandshakeTimeout:    10 * time.Second,
			Protocols:              protocols,
			MaxIdleConns:           64,
			MaxIdleConnsPerHost:    64,
			IdleConnTimeout:        60 * time.Second,
			MaxResponseHeaderBytes: 256 << 10,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}, nil
}

func tlsConfig(ca []byte, skipVerify bool) (*tls.Config, error) {
	trust := &tls.Config{MinVersion: tls.VersionTLS12, InsecureSkipVerify: skipVerify} // an operator asked for it by name
	if len(ca) == 0 {
		return trust, nil
	}
	trust.RootCAs = x509.NewCertPool()
	if !trust.RootCAs.AppendCertsFromPEM(ca) {
		return nil, errors.New("the CA holds no PEM certificate")
	}
	return trust, nil
}
