// Package cf is broker.Backend on the Cloud Foundry API v3, for one client: one org and one login.
//
// The package speaks HTTP itself and takes the words of the API from the resource types of go-cfclient. The client and
// config packages of that library are left out on purpose (docs/cf-contract.md 4.1).
//
// Two implementations of the API are spoken to: the Cloud Controller and Korifi. A Backend learns from the answers
// which it is (see dialect), asks Korifi without the filters that it refuses, and names keys there by their operation
// (LooseKeyName), as they cannot be marked.
//
// A login that lost sight of something is shown empty lists. Nothing counts as absent before a call that began later
// has shown that its space, or all spaces, can be seen (see confirm).
//
// Trouble that concerns every call of the client (a refused login, a limit, nobody there) is found out by one of them,
// and the others are held back for a while (see pause).
//
// What a call that was sent came to is decided in one table, in errors.go. Nothing here repeats a POST or PATCH whose
// fate is open.
package cf

import (
	"log/slog"
	"time"

	"github.com/ferry-broker/ferry/internal/broker"
	"github.com/ferry-broker/ferry/internal/ccapi"
)

// Config is one client's way to its Cloud Foundry.
type Config struct {
	// Client is the value of the label ferry-client where a call does not name one.
	Client string
	// API is the address of the Cloud Controller, Org the name of an existing org.
	API, Org string
	// FormerAPIs are addresses that the same Cloud Foundry had before: what was recorded under them is at home here.
	FormerAPIs []string
	// ClientID and ClientSecret log in as a UAA client. With Username and Password set, that user logs in, through the
	// UAA client ClientID or, if that is empty, cf.
	ClientID, ClientSecret, Username, Password string
	// CA holds PEM certificates that are trusted instead of the system's.
	CA []byte
	// SkipTLSVerify trusts any certificate.
	SkipTLSVerify bool
	// Now tells when a look-up began and how long calls take; it must be given.
	Now func() time.Time
	// Logger gets one debug line a call, without queries, bodies or tokens, and an info line for each warning of a job
	// and each row that the audit cannot read; nil means none.
	Logger *slog.Logger
	// Observe is told of every exchange, with the method and route ("POST /v3/service_instances"), the status or
	// "error", and its duration. It may be nil and must be safe for concurrent use.
	Observe func(call string, result string, took time.Duration)
	// CallTimeout bounds each method that changes something, and each request of the others; 0 means 60 s.
	CallTimeout time.Duration
}

// Backend is one client's Cloud Foundry. It implements broker.Backend; all its methods may be called concurrently.
type Backend struct {
	config   Config
	api      *ccapi.Client
	home     string   // the API's address, as a Place has it
	formerly []string // those that it had before, in the same form
	places   *places
	spaces   shared[map[string]string] // the names of those in sight, by GUID
	tongue   tongue
	heard    *heard
}

var _ broker.Backend = (*Backend)(nil)

// New returns the backend without reaching out to Cloud Foundry: the login is made by the first call and, if it fails,
// tried again by the next. The only errors are an API that is no http or https address, a CA without a certificate, and
// no clock.
func New(c Config) (*Backend, error) {
	api, err := ccapi.New(ccapi.Config{
		API: c.API, ClientID: c.ClientID, ClientSecret: c.ClientSecret, Username: c.Username, Password: c.Password,
		CA: c.CA, SkipTLSVerify: c.SkipTLSVerify, Now: c.Now, Logger: c.Logger, Observe: c.Observe, CallTimeout: c.CallTimeout,
	})
	if err != nil {
		return nil, err
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	b := &Backend{config: c, api: api, home: canonicalAPI(c.API), places: newPlaces(), heard: newHeard()}
	for _, former := range c.FormerAPIs {
		b.formerly = append(b.formerly, canonicalAPI(former))
	}
	return b, nil
}
