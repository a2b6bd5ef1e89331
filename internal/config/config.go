// Package config turns the configuration text into one validated struct. The same text configures `ferry serve`, from a
// file, and the Lambdas, from a secret; so environment and files are handed in, and nothing here reads them by itself.
//
// Strict on purpose: an unknown key, a value of the wrong type or a reference that leads nowhere is a fault, and all
// faults are reported at once, each with its path. A fault never quotes a value: any value may be a secret that slipped
// into the wrong place.
package config

import (
	"fmt"
	"net"
	"net/url"
	"strings"
	"time"
)

// The ways in which a catalog names its offerings and plans ([Catalog.IDs]).
const (
	// IDsBroker keeps the catalog ids of the broker behind Cloud Foundry.
	IDsBroker = "broker"
	// IDsCloudFoundry uses the GUIDs that Cloud Foundry gave them.
	IDsCloudFoundry = "cloud_foundry"
)

// Config is the whole configuration, defaults filled in and every value checked.
type Config struct {
	Clients    []Client
	Polling    Polling
	Operations Operations
	Limits     Limits
	Metrics    Metrics
}

// Client is one OSB platform: its credentials, its Cloud Foundry, its rules.
type Client struct {
	Name           string // unique, [a-z0-9-]{1,40}
	Credentials    []Credential
	CloudFoundry   CloudFoundry
	Catalog        Catalog
	Quirks         Quirks
	CatalogRefresh time.Duration // age at which the marketplace is fetched again
	// ConcurrentRequests is how many of Limits.ConcurrentRequests this client may use; 0: what its share allows.
	ConcurrentRequests int
}

// label is the name as Cloud Foundry's labels can hold it, "" for a name that has neither letter nor digit: its rows
// have no label.
func (c Client) label() string { return strings.Trim(c.Name, "-") }

// place is the client's org, equal for two spellings of one. Cloud Foundry compares names of orgs without case.
func (c Client) place() [2]string {
	api := c.CloudFoundry.API
	if u, err := url.Parse(api); err == nil {
		port := u.Port()
		if port == "" {
			port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
		}
		api = net.JoinHostPort(strings.ToLower(u.Hostname()), port) + u.EscapedPath()
	}
	return [2]string{api, strings.ToLower(c.CloudFoundry.Org)}
}

// Credential is one way to log in. Exactly one of Password and PasswordHash (bcrypt) is set.
type Credential struct {
	Username               string
	Password, PasswordHash Secret
}

// Secret is a text that is printed nowhere by mistake: fmt, log/slog and encoding/json see an address or nothing, also
// when they print a struct that holds it. The zero value is the empty text.
type Secret struct{ text *string }

// NewSecret returns the secret that holds text.
func NewSecret(text string) Secret {
	if text == "" {
		return Secret{}
	}
	return Secret{&text}
}

// Text returns what s holds.
func (s Secret) Text() string {
	if s.text == nil {
		return ""
	}
	return *s.text
}

// CloudFoundry is where and as whom a client's instances are made. Either ClientID and ClientSecret are set, or
// Username and Password.
type CloudFoundry struct {
	API           string   // http or https, without a slash at the end
	FormerAPIs    []string // addresses that the same Cloud Foundry had before, in the same form; nil: none
	Org           string
	ClientID      string
	ClientSecret  Secret
	Username      string
	Password      Secret
	CAFile        string
	CA            []byte `json:"-"` // what CAFile holds: PEM, at least one certificate; nil without CAFile
	SkipTLSVerify bool
}

// Catalog is how a client sees the marketplace.
type Catalog struct {
	IDs string // IDsBroker or IDsCloudFoundry
	// Rotatable names the plans whose bindings may be made with predecessor_binding_id: "offering" stands for all its
	// plans, "offering/plan" for one. No name occurs twice; nil: none.
	Rotatable []string
}

// Quirks are the HTTP statuses about which platforms and test suites disagree.
type Quirks struct {
	MissingVersion int // no X-Broker-API-Version: 400 or 412
	FinishedDelete int // the last poll of a delete: 200 or 410
}

// Polling is how long the waits between two looks at an operation are.
type Polling struct {
	First time.Duration
	Max   time.Duration // in the first hour; five times this afterwards
}

// Operations are the time limits of operations and requests.
type Operations struct {
	Deadline      time.Duration // an operation that runs longer has failed
	TombstoneTTL  time.Duration // how long a finished delete is remembered
	SettleAfter   time.Duration // how long a call of unknown fate may still take effect
	RequestBudget time.Duration // how long one HTTP request may be held
}

// Limits protect the process from its clients.
type Limits struct {
	RequestBytes       int64 // of a body
	ParametersBytes    int64 // of the parameters in a body
	ConcurrentRequests int   // under /v2
}

// Metrics says who may read /metrics: without Credentials, only loopback.
type Metrics struct {
	Credentials []Credential
}

// Demo is the configuration of a broker that runs with its own simulator and without a file: one client demo whose user
// and password are demo, too. The caller sets CloudFoundry.API of the client, which is not known before the simulator
// listens.
func Demo() Config {
	c := defaults()
	c.Operations.SettleAfter = 5 * time.Second
	demo := defaultClient()
	demo.Name = "demo"
	demo.Credentials = []Credential{{Username: "demo", Password: NewSecret("demo")}}
	demo.CloudFoundry = CloudFoundry{Org: "demo", ClientID: "ferry", ClientSecret: NewSecret("ferry")}
	c.Clients = []Client{demo}
	return c
}

// Warnings returns a sentence for each combination that is allowed but seldom meant. To be logged once at start; nil
// when there is none.
func (c Config) Warnings() []string {
	var out []string
	o := c.Operations
	if o.TombstoneTTL < o.Deadline {
		out = append(out, fmt.Sprintf("operations.keep (%s) is below operations.deadline (%s): "+
			"a platform may ask about a delete that is already forgotten, and keeps polling.", o.TombstoneTTL, o.Deadline))
	}
	if o.SettleAfter > o.Deadline {
		out = append(out, fmt.Sprintf("operations.settle_after (%s) is above operations.deadline (%s): "+
			"an operation with a call of unknown fate fails before that fate can be known.", o.SettleAfter, o.Deadline))
	}
	for _, client := range c.Clients {
		if client.label() != client.Name {
			out = append(out, fmt.Sprintf("The name of the client %s begins or ends with a dash, which labels in Cloud Foundry cannot hold. "+
				"Leave it as it is, since it is part of every stored key, but let no other client, here or elsewhere, use its org.", client.Name))
		}
	}
	return append(out, c.sharedOrgs()...)
}

// sharedOrgs names the clients that do not have an org of their own.
func (c Config) sharedOrgs() []string {
	var out []string
	first := map[[2]string]string{}
	for _, client := range c.Clients {
		org := client.place()
		if other, found := first[org]; found {
			out = append(out, fmt.Sprintf("The clients %s and %s use the same org of the same Cloud Foundry: "+
				"where both use an id, the second to come is refused. Give each client an org of its own.", other, client.Name))
			continue
		}
		first[org] = client.Name
	}
	return out
}

func defaults() Config {
	return Config{
		Polling: Polling{First: 2 * time.Second, Max: time.Minute},
		Operations: Operations{
			Deadline: 168 * time.Hour, TombstoneTTL: 192 * time.Hour, SettleAfter: 20 * time.Minute, RequestBudget: 26 * time.Second,
		},
		Limits: Limits{RequestBytes: 1 << 20, ParametersBytes: 256 << 10, ConcurrentRequests: 256},
	}
}

func defaultClient() Client {
	return Client{
		Catalog:        Catalog{IDs: IDsBroker},
		Quirks:         Quirks{MissingVersion: 400, FinishedDelete: 200},
		CatalogRefresh: 5 * time.Minute,
	}
}
