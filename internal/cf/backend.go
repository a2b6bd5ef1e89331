// Package cf is broker.Backend on Cloud Foundry's API v3, for one client: one org and one login. It turns rows and
// answers of the API, which package ccapi reads and sends, into what package broker asks for.
//
// Two implementations of the API are spoken to: the Cloud Controller and Korifi. A Backend learns from the answers
// which it is (see flavors), asks Korifi without the filters that it refuses, and names keys there by their operation
// (keyNameWithMarks), as they cannot be marked.
//
// A login that may not see something any more is shown empty lists. Nothing counts as absent before a call that began
// later has shown that its space, or all spaces, can be seen (see visibility).
//
// What a call that was sent came to is decided in one table, in errors.go. Nothing here repeats a POST or PATCH whose
// fate is open.
//
// The words of the API are the resource types of go-cfclient, where these can be used (docs/cf-contract.md 4.1).
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
	// FormerAPIs are addresses that the same Cloud Foundry had before: what was recorded under one of them is in this
	// Cloud Foundry.
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

// Backend is one client's Cloud Foundry. It implements broker.Backend, part by part; all its methods may be called
// concurrently.
type Backend struct {
	*places      // Place, Same
	*instances   // FindInstances, FindInstance, CreateInstance, UpdateInstance, DeleteInstance, InstanceParameters
	*keys        // FindKeys, CreateKey, DeleteKey, KeyDetails, KeyParameters
	*jobs        // Job
	*marketplace // Marketplace
	*inventory   // Marked, ForeignKeys
}

var _ broker.Backend = (*Backend)(nil)

// New returns the backend without reaching out to Cloud Foundry: the login is made by the first call and, if it fails,
// tried again by the next. The only errors are an API that is no http or https address, a CA without a certificate, and
// no clock.
func New(c Config) (*Backend, error) {
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	api, err := ccapi.New(ccapi.Config{
		API: c.API, ClientID: c.ClientID, ClientSecret: c.ClientSecret, Username: c.Username, Password: c.Password,
		CA: c.CA, SkipTLSVerify: c.SkipTLSVerify, Now: c.Now, Logger: c.Logger, Observe: c.Observe, CallTimeout: c.CallTimeout,
	})
	if err != nil {
		return nil, err
	}
	places := newPlaces(api, c)
	visibility := &visibility{api: api, places: places, now: c.Now}
	flavors := &flavors{api: api, places: places}
	changes := changes{api: api, flavors: flavors}
	rows := rowReader{api: api, client: c.Client}
	instances := newInstances(api, places, visibility, flavors, changes, rows, roomIn(c.API))
	keys := newKeys(instances)
	return &Backend{
		places: places, instances: instances, keys: keys,
		jobs:        &jobs{api: api, logger: c.Logger, warned: newWarned()},
		marketplace: &marketplace{api: api, places: places, visibility: visibility, flavors: flavors},
		inventory:   &inventory{api: api, instances: instances, keys: keys, logger: c.Logger},
	}, nil
}
