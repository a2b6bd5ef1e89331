// Package cf is broker.Backend on the Cloud Foundry API v3, for one client: one
// org and one login.
//
// The package speaks HTTP itself and takes the words of the API from the resource types of go-cfclient. The client and
// config packages of that library are left out on purpose (docs/cf-contract.md 4.1).
//
// Two implementations of the API are spoken to: the Cloud Controller and Korifi. A
// Backend learns from the answers which it is (see dialect), asks Korifi without the
// filters that it refuses, and names keys there by their operation (LooseKeyName),
// as they cannot be marked.
//
// A login that lost sight of something is shown empty lists. Nothing counts as absent
// before a call that began later has shown that its space, or all spaces, can be seen
// (see confirm).
//
// Trouble that concerns every call of the client (a refused login, a limit, nobody there)
// is found out by one of them, and the others are held back for a while (see pause).
//
// What a call that was sent came to is decided in one table, in errors.go. Nothing
// here repeats a POST or PATCH whose fate is open.
package cf

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/ferry-broker/ferry/internal/broker"
)

// defaultCallTimeout is the bound of one call that settle_after counts with
// (protocol.md 0).
const defaultCallTimeout = 60 * time.Second

// Config is one client's way to its Cloud Foundry.
type Config struct {
	// Client is the value of the label ferry-client where a call does not name one.
	Client string
	// API is the address of the Cloud Controller, Org the name of an existing org.
	API, Org string
	// FormerAPIs are addresses that the same Cloud Foundry had before: what was recorded
	// under them is at home here.
	FormerAPIs []string
	// ClientID and ClientSecret log in as a UAA client. With Username and Password
	// set, that user logs in, through the UAA client ClientID or, if that is empty,
	// cf.
	ClientID, ClientSecret, Username, Password string
	// CA holds PEM certificates that are trusted instead of the system's.
	CA []byte
	// SkipTLSVerify trusts any certificate.
	SkipTLSVerify bool
	// Now tells when a look-up began and how long calls take; it must be given.
	Now func() time.Time
	// Logger gets one debug line a call, without queries, bodies or tokens, and an
	// info line for each warning of a job and each row that the audit cannot read;
	// nil means none.
	Logger *slog.Logger
	// Observe is told of every exchange, with the method and route ("POST
	// /v3/service_instances"), the status or "error", and its duration. It may be
	// nil and must be safe for concurrent use.
	Observe func(call string, result string, took time.Duration)
	// CallTimeout bounds each method that changes something, and each request of
	// the others; 0 means 60 s.
	CallTimeout time.Duration
}

// Backend is one client's Cloud Foundry. It implements broker.Backend; all its
// methods may be called concurrently.
type Backend struct {
	config   Config
	api      string
	home     string   // the API's address, as a Place has it
	formerly []string // those that it had before, in the same form
	http     *http.Client
	session  *session
	calls    pause // of the API: limits, and nobody there
	logins   pause // of the UAA: likewise, and refusals
	tokens   pause // while Cloud Foundry refuses fresh ones
	places   *places
	spaces   shared[map[string]string] // the names of those in sight, by GUID
	tongue   tongue
	heard    *heard
	secrets  []string
}

var _ broker.Backend = (*Backend)(nil)

// New returns the backend without reaching out to Cloud Foundry: the login is made
// by the first call and, if it fails, tried again by the next. The only errors are
// an API that is no http or https address, a CA without a certificate, and no clock.
func New(c Config) (*Backend, error) {
	api, err := url.Parse(c.API)
	if err != nil || api.Host == "" || (api.Scheme != "https" && api.Scheme != "http") {
		return nil, fmt.Errorf("cloud foundry API %q is not an http or https address", c.API)
	}
	if c.Now == nil {
		return nil, fmt.Errorf("cloud foundry %s: no clock was given", c.API)
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.CallTimeout <= 0 {
		c.CallTimeout = defaultCallTimeout
	}
	client, err := newHTTPClient(c.CA, c.SkipTLSVerify)
	if err != nil {
		return nil, fmt.Errorf("cloud foundry %s: %w", c.API, err)
	}
	b := &Backend{
		config: c, api: strings.TrimRight(c.API, "/"), home: canonicalAPI(c.API), http: client,
		places: newPlaces(), heard: newHeard(), secrets: secretTexts(c.ClientSecret, c.Password),
	}
	for _, former := range c.FormerAPIs {
		b.formerly = append(b.formerly, canonicalAPI(former))
	}
	b.session = newSession(b.logIn, c.Now)
	return b, nil
}

// bounded returns ctx with the time limit of one call.
func (b *Backend) bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, b.config.CallTimeout)
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
func (b *Backend) observed(ctx context.Context, e exchanged) {
	took := b.config.Now().Sub(e.began)
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
	b.config.Logger.DebugContext(ctx, "cloud foundry", attrs...)
	if b.config.Observe != nil {
		b.config.Observe(e.call, result, took)
	}
}
