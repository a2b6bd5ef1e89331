// Package ccapi is a client of version 3 of Cloud Foundry's API over HTTP, for one login: requests, lists, tokens and
// errors (docs/cf-contract.md). It does not know what its caller makes of the answers.
//
// It speaks HTTP itself: what go-cfclient does with a 401, with an error and with a lost Location cannot be undone
// above it (docs/cf-contract.md 4.1).
//
// A request is sent once, except that one whose token was refused is sent again with a new one (see Send). Trouble that
// concerns every call of the login (it is refused, a limit, nobody there) is found out by one of them, and the others
// are held back for a while (see pause).
package ccapi

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strings"
	"time"
)

// Config is a way to a Cloud Foundry.
type Config struct {
	// API is the address of the Cloud Controller.
	API string
	// ClientID and ClientSecret log in as a UAA client. With Username and Password set, that user logs in, through the
	// UAA client ClientID or, if that is empty, cf.
	ClientID, ClientSecret, Username, Password string
	// CA holds PEM certificates that are trusted instead of the system's.
	CA []byte
	// SkipTLSVerify trusts any certificate.
	SkipTLSVerify bool
	// Now is the clock; it must be given.
	Now func() time.Time
	// Logger gets one debug line a call, without queries, bodies or tokens; nil means none.
	Logger *slog.Logger
	// Observe is told of every exchange, with the method and route ("POST /v3/service_instances"), the status or
	// "error", and its duration. It may be nil and must be safe for concurrent use.
	Observe func(call string, result string, took time.Duration)
	// CallTimeout bounds each request, and what Bounded returns; 0 means 60 s.
	CallTimeout time.Duration
}

// defaultCallTimeout is the bound of one call that settle_after counts with (docs/protocol.md 0).
const defaultCallTimeout = 60 * time.Second

// Client is one login at one Cloud Foundry. All its methods may be called concurrently.
type Client struct {
	config  Config
	api     string // its address, without a slash at the end
	https   bool   // the API is reached by it
	http    *http.Client
	session *session
	calls   pause // of the API: limits, and nobody there
	logins  pause // of the UAA: likewise, and refusals
	tokens  pause // while Cloud Foundry refuses fresh ones
	secrets []string
}

// New returns the client without reaching out to Cloud Foundry: the login is made by the first call and, if it fails,
// tried again by the next. The only errors are an API that is no http or https address, a CA without a certificate, and
// no clock.
func New(config Config) (*Client, error) {
	api, err := url.Parse(config.API)
	if err != nil || api.Host == "" || (api.Scheme != "https" && api.Scheme != "http") {
		return nil, fmt.Errorf("cloud foundry API %q is not an http or https address", config.API)
	}
	if config.Now == nil {
		return nil, fmt.Errorf("cloud foundry %s: no clock was given", config.API)
	}
	if config.Logger == nil {
		config.Logger = slog.New(slog.DiscardHandler)
	}
	if config.CallTimeout <= 0 {
		config.CallTimeout = defaultCallTimeout
	}
	transport, err := newHTTPClient(config.CA, config.SkipTLSVerify)
	if err != nil {
		return nil, fmt.Errorf("cloud foundry %s: %w", config.API, err)
	}
	c := &Client{
		config: config, api: strings.TrimRight(config.API, "/"), https: api.Scheme == "https", http: transport,
		secrets: secretTexts(config.ClientSecret, config.Password),
	}
	c.session = newSession(c.logIn, config.Now)
	return c, nil
}

// Bounded returns ctx with the time limit of one call, for a method that makes several requests of it.
func (c *Client) Bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, c.config.CallTimeout)
}

// Request is one call of the API.
type Request struct {
	Method string
	Path   string
	Query  url.Values
	Body   []byte // JSON, or nil
	// Route is the path with :guid for GUIDs, for metrics.
	Route string
	// What says in an error what was tried; it holds arguments but no secrets.
	What string
}

// Filter escapes values for a filter of the API, which splits at commas first and decodes each part again afterwards.
func Filter(values ...string) string {
	escaped := make([]string, len(values))
	for i, v := range values {
		escaped[i] = strings.ReplaceAll(url.QueryEscape(v), "+", "%20")
	}
	return strings.Join(escaped, ",")
}

// Response is an answer that was read to its end.
type Response struct {
	Status int
	Header http.Header
	Body   []byte
}

// Get reads one resource into what is pointed to.
func (c *Client) Get(ctx context.Context, r Request, into any) (http.Header, error) {
	r.Method = http.MethodGet
	answer, err := c.Send(ctx, r)
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(answer.Body, into); err != nil {
		return nil, &Error{Call: r.What, Status: answer.Status, Err: withoutValue(err)}
	}
	return answer.Header, nil
}

// Send makes one call with a valid token. Anything but a 2xx is an *Error. While calls of the login are held back (see
// pause) it fails at once, and nothing is sent.
func (c *Client) Send(ctx context.Context, r Request) (*Response, error) {
	if err := c.tokens.admit(r.What, c.config.Now()); err != nil {
		return nil, err
	}
	ctx, cancel := c.Bounded(ctx)
	defer cancel()
	answer, token, err := c.sendWithToken(ctx, r, 0)
	if tokenRefused(err) {
		// The only request that is ever sent twice, a POST included: 401 with 1000 is Cloud Foundry's word that it
		// looked at nothing but the token.
		answer, token, err = c.sendWithToken(ctx, r, token)
	}
	c.judge(token, err)
	return answer, err
}

// sendWithToken sends the request with a token that is newer than the one of this number, and returns the token's own.
func (c *Client) sendWithToken(ctx context.Context, r Request, stale int64) (*Response, int64, error) {
	g, err := c.session.get(ctx, stale)
	if err != nil {
		return nil, 0, fmt.Errorf("%s: %w", r.What, err)
	}
	answer, err := c.exchange(ctx, r, g.token)
	return answer, g.number, err
}

// judge counts what became of a token for the pause of tokens.
func (c *Client) judge(token int64, err error) {
	switch e, ok := errors.AsType[*Error](err); {
	case ok && e.Unsent: // nobody saw a token
	case tokenRefused(err) && !c.session.refused(token): // as another call has found out
	case ok && e.Status == http.StatusUnauthorized && e.Code != 0:
		c.tokens.failed(rejected, e, c.config.Now())
	default:
		c.session.accepted(token)
		c.tokens.succeeded(c.config.Now())
	}
}

func tokenRefused(err error) bool {
	e, ok := errors.AsType[*Error](err)
	return ok && e.Status == http.StatusUnauthorized && e.Code == CodeInvalidToken && !e.Unsent
}

// exchange sends one HTTP request, once.
func (c *Client) exchange(ctx context.Context, r Request, token string) (*Response, error) {
	began := c.config.Now()
	if err := c.calls.admit(r.What, began); err != nil {
		return nil, err
	}
	answer, err := c.roundTrip(ctx, r, token)
	seen := exchanged{call: r.Method + " " + r.Route, began: began}
	if answer != nil {
		status := answer.Status
		seen.status, seen.requestID = status, requestID(answer)
		if status < 200 || status > 299 {
			err = c.newError(r.What, answer)
			answer = nil
		}
	}
	seen.err = err
	c.observed(ctx, seen)
	now := c.config.Now()
	c.calls.settle(err, now.Sub(began), now, troubleOf)
	if err != nil {
		return nil, err
	}
	return answer, nil
}

// exchanged is one exchange, as logs and metrics see it.
type exchanged struct {
	call      string
	began     time.Time
	err       error
	status    int
	requestID string
}

// observed reports one exchange to the log and to the metrics.
func (c *Client) observed(ctx context.Context, e exchanged) {
	took := c.config.Now().Sub(e.began)
	result := "error"
	if e.status > 0 {
		result = fmt.Sprint(e.status)
	}
	attrs := []any{"call", e.call, "result", result, "took", took}
	if e.requestID != "" {
		attrs = append(attrs, "request_id", e.requestID)
	}
	if e.err != nil {
		attrs = append(attrs, "error", e.err)
	}
	c.config.Logger.DebugContext(ctx, "cloud foundry", attrs...)
	if c.config.Observe != nil {
		c.config.Observe(e.call, result, took)
	}
}

// maxAnswer is how much of an answer is read.
const maxAnswer = 16 << 20

func (c *Client) roundTrip(ctx context.Context, r Request, token string) (*Response, error) {
	connected := false
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GotConn: func(httptrace.GotConnInfo) { connected = true },
	})
	httpRequest, err := c.newRequest(ctx, r, token)
	if err != nil {
		return nil, &Error{Call: r.What, Err: err, Unsent: true}
	}
	answer, err := c.http.Do(httpRequest)
	if err != nil {
		// Without a connection (refused, no such host, TLS) nothing can have left.
		return nil, &Error{Call: r.What, Err: withoutURL(err), Unsent: !connected}
	}
	defer func() { _ = answer.Body.Close() }() // all that matters was read
	body, err := io.ReadAll(io.LimitReader(answer.Body, maxAnswer+1))
	if err == nil && len(body) > maxAnswer {
		err = fmt.Errorf("the answer is longer than %d bytes", maxAnswer)
	}
	if err != nil {
		return nil, &Error{Call: r.What, Status: answer.StatusCode, Err: err}
	}
	return &Response{Status: answer.StatusCode, Header: answer.Header, Body: body}, nil
}

func (c *Client) newRequest(ctx context.Context, r Request, token string) (*http.Request, error) {
	address := c.api + r.Path
	if len(r.Query) > 0 {
		address += "?" + r.Query.Encode()
	}
	var body io.Reader
	if r.Body != nil {
		body = bytes.NewReader(r.Body)
	}
	httpRequest, err := http.NewRequestWithContext(ctx, r.Method, address, body)
	if err != nil {
		return nil, err
	}
	httpRequest.GetBody = nil // takes from net/http what it would repeat a body with
	httpRequest.Header.Set("Accept", "application/json")
	httpRequest.Header.Set("User-Agent", "ferry")
	if r.Body != nil {
		httpRequest.Header.Set("Content-Type", "application/json")
	}
	if token != "" {
		httpRequest.Header.Set("Authorization", "Bearer "+token)
	}
	return httpRequest, nil
}

// withoutURL drops the address that net/http puts before each error: the call says better what was tried, and a query
// may be long.
func withoutURL(err error) error {
	if e, ok := errors.AsType[*url.Error](err); ok {
		return e.Err
	}
	return err
}

// newHTTPClient returns a client that sends each request at most once.
//
// HTTP/1.1 only: HTTP/2 may send a request again on another connection after a GOAWAY. With HTTP/1.1 net/http repeats a
// request by itself only when its method is idempotent or nothing of it was written. Redirects are never followed: the
// API has none, and a redirected POST would be a second one.
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
		Transport:     transports{kept: kept, fresh: fresh},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}, nil
}

// transports sends what changes something by a connection of its own. One that was kept may be dead without our
// knowing, all the more in a process that was frozen in between: then nobody can say whether the call arrived, and it
// counts as unknown for settle_after. A read is repeated by net/http in that case.
type transports struct{ kept, fresh *http.Transport }

// RoundTrip implements http.RoundTripper.
func (t transports) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method == http.MethodGet {
		return t.kept.RoundTrip(r)
	}
	return t.fresh.RoundTrip(r)
}

// CloseIdleConnections is what http.Client calls by that name.
func (t transports) CloseIdleConnections() { t.kept.CloseIdleConnections() }

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
