package cf

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strings"
	"time"
)

// maxAnswer is how much of an answer is read.
const maxAnswer = 16 << 20

// request is one call of the API.
type request struct {
	method string
	path   string
	query  url.Values
	body   []byte
	// route is the path with :guid for GUIDs, for metrics.
	route string
	// what says in an error what was tried; it holds arguments but no secrets.
	what string
}

// response is an answer that was read to its end.
type response struct {
	status int
	header http.Header
	body   []byte
}

// send makes one call with a valid token. Anything but a 2xx is an *Error. While the
// client's calls are held back (see pause) it is made at once, and nothing is sent.
func (b *Backend) send(ctx context.Context, r request) (*response, error) {
	if err := b.tokens.admit(r.what, b.config.Now()); err != nil {
		return nil, err
	}
	answer, err := b.sendOnce(ctx, r)
	switch e, ok := errors.AsType[*Error](err); {
	case ok && e.unsent: // nobody saw a token
	case ok && e.Status == http.StatusUnauthorized && e.Code != 0:
		b.tokens.failed(rejected, e, b.config.Now())
	default:
		b.tokens.succeeded(b.config.Now())
	}
	return answer, err
}

// sendOnce sends the request, and once more when nothing of it but a stale token was
// looked at.
func (b *Backend) sendOnce(ctx context.Context, r request) (*response, error) {
	ctx, cancel := b.bounded(ctx)
	defer cancel()
	token, err := b.session.token(ctx, "")
	if err != nil {
		return nil, fmt.Errorf("%s: %w", r.what, err)
	}
	answer, err := b.exchange(ctx, r, token)
	if !tokenRefused(err) {
		return answer, err
	}
	// The only request that is ever sent twice, a POST included: 401 with 1000 is
	// Cloud Foundry's word that it looked at nothing but the token.
	token, err = b.session.token(ctx, token)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", r.what, err)
	}
	return b.exchange(ctx, r, token)
}

func tokenRefused(err error) bool {
	e, ok := errors.AsType[*Error](err)
	return ok && e.Status == http.StatusUnauthorized && e.Code == codeInvalidToken && !e.unsent
}

// exchange sends one HTTP request, once.
func (b *Backend) exchange(ctx context.Context, r request, token string) (*response, error) {
	began := b.config.Now()
	if err := b.calls.admit(r.what, began); err != nil {
		return nil, err
	}
	answer, err := b.roundTrip(ctx, r, token)
	seen := exchanged{call: r.method + " " + r.route, began: began}
	if answer != nil {
		status := answer.status
		seen.status, seen.requestID = status, requestID(answer)
		if status < 200 || status > 299 {
			err = b.newError(r.what, answer)
			answer = nil
		}
	}
	seen.err = err
	b.observed(ctx, seen)
	now := b.config.Now()
	b.calls.settle(err, now.Sub(began), now, troubleOf)
	if err != nil {
		return nil, err
	}
	return answer, nil
}

func (b *Backend) roundTrip(ctx context.Context, r request, token string) (*response, error) {
	connected := false
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GotConn: func(httptrace.GotConnInfo) { connected = true },
	})
	httpRequest, err := b.newRequest(ctx, r, token)
	if err != nil {
		return nil, &Error{Call: r.what, Err: err, unsent: true}
	}
	answer, err := b.http.Do(httpRequest)
	if err != nil {
		// Without a connection (refused, no such host, TLS) nothing can have left.
		return nil, &Error{Call: r.what, Err: withoutURL(err), unsent: !connected}
	}
	defer func() { _ = answer.Body.Close() }() // all that matters was read
	body, err := io.ReadAll(io.LimitReader(answer.Body, maxAnswer+1))
	if err == nil && len(body) > maxAnswer {
		err = fmt.Errorf("the answer is longer than %d bytes", maxAnswer)
	}
	if err != nil {
		return nil, &Error{Call: r.what, Status: answer.StatusCode, Err: err}
	}
	return &response{status: answer.StatusCode, header: answer.Header, body: body}, nil
}

func (b *Backend) newRequest(ctx context.Context, r request, token string) (*http.Request, error) {
	address := b.api + r.path
	if len(r.query) > 0 {
		address += "?" + r.query.Encode()
	}
	var body io.Reader
	if r.body != nil {
		body = bytes.NewReader(r.body)
	}
	httpRequest, err := http.NewRequestWithContext(ctx, r.method, address, body)
	if err != nil {
		return nil, err
	}
	httpRequest.GetBody = nil // takes from net/http what it would repeat a body with
	httpRequest.Header.Set("Accept", "application/json")
	httpRequest.Header.Set("User-Agent", "ferry")
	if r.body != nil {
		httpRequest.Header.Set("Content-Type", "application/json")
	}
	if token != "" {
		httpRequest.Header.Set("Authorization", "Bearer "+token)
	}
	return httpRequest, nil
}

// withoutURL drops the address that net/http puts before each error: the call says
// better what was tried, and a query may be long.
func withoutURL(err error) error {
	if e, ok := errors.AsType[*url.Error](err); ok {
		return e.Err
	}
	return err
}

// list escapes values for a filter of the API, which splits at commas first and
// decodes each part again afterwards.
func list(values ...string) string {
	escaped := make([]string, len(values))
	for i, v := range values {
		escaped[i] = strings.ReplaceAll(url.QueryEscape(v), "+", "%20")
	}
	return strings.Join(escaped, ",")
}

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
