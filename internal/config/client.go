package config

import (
	"fmt"
	"regexp"
	"strings"

	"golang.org/x/crypto/bcrypt"
)

// clients reads the list and checks what must be unique in all of it.
func (o object) clients(limits Limits) []Client {
	items, ok := o.list("clients")
	if ok && len(items) == 0 {
		o.fault("clients", "is missing; at least one client is needed")
	}
	names, users := map[string]string{}, map[string]string{}
	clients := make([]Client, 0, len(items))
	for _, item := range items {
		s := o.r.mapping(item, "name", "credentials", "cloud_foundry", "catalog", "quirks", "catalog_refresh",
			"concurrent_requests")
		c := s.client(limits)
		if first := claim(names, c.Name, s.path); first != s.path {
			s.fault("name", "is the name of "+first+" as well; give each client its own")
		}
		for _, credential := range c.Credentials {
			if first := claim(users, credential.Username, s.path); first != s.path {
				s.fault("credentials", "a username here is also one of "+first+"; it tells clients apart, so keep it in one of them")
			}
		}
		s.tellApart(c, clients)
		clients = append(clients, c)
	}
	return clients
}

var clientName = regexp.MustCompile(`^[a-z0-9-]{1,40}$`)

// claim returns the path that said name first, which is path itself when nobody did or the name is missing (a fault
// already).
func claim(taken map[string]string, name, path string) string {
	if first, found := taken[name]; found {
		return first
	}
	if name != "" {
		taken[name] = path
	}
	return path
}

// tellApart refuses a client that Cloud Foundry's labels cannot tell from an earlier one in the same org: each would
// take what the other made for its own, and delete it.
func (o object) tellApart(c Client, earlier []Client) {
	for i, other := range earlier {
		if c.Name == "" || c.Name == other.Name || c.place() != other.place() {
			continue
		}
		why := ""
		switch {
		case c.label() == "" || other.label() == "":
			why = "one of the two names has no letter or digit, so that what it makes has no label in Cloud Foundry"
		case c.label() == other.label():
			why = "the two names differ in dashes at their ends alone, which labels in Cloud Foundry cannot hold"
		default:
			continue
		}
		o.fault("name", fmt.Sprintf("cannot be told from clients[%d], which uses the same org: %s; give one of the two an org of its own, "+
			"or, if it has made nothing yet, a name that begins and ends with a letter or digit", i, why))
		return
	}
}

func (o object) client(limits Limits) Client {
	c := defaultClient()
	c.Name = o.required("name")
	if c.Name != "" && !clientName.MatchString(c.Name) {
		o.fault("name", "must be 1 to 40 characters, each of them a-z, 0-9 or -")
	}
	c.Credentials = o.credentials()
	if !o.broken && !o.has("credentials") {
		o.fault("credentials", "is missing; give at least one username with its password")
	}
	c.CloudFoundry = o.cloudFoundry()
	catalog := o.section("catalog", "ids", "rotatable")
	c.Catalog.IDs = catalog.choice("ids", c.Catalog.IDs, IDsCloudFoundry)
	c.Catalog.Rotatable = catalog.planNames("rotatable")
	quirks := o.section("quirks", "missing_version", "finished_delete")
	c.Quirks.MissingVersion = quirks.status("missing_version", c.Quirks.MissingVersion, 412)
	c.Quirks.FinishedDelete = quirks.status("finished_delete", c.Quirks.FinishedDelete, 410)
	c.CatalogRefresh = o.duration("catalog_refresh", c.CatalogRefresh, longestInAll)
	c.ConcurrentRequests = int(o.count("concurrent_requests", 0, mostRequests))
	if c.ConcurrentRequests > limits.ConcurrentRequests {
		o.fault("concurrent_requests", "is above limits.concurrent_requests; lower it or raise that")
	}
	return c
}

func (o object) cloudFoundry() CloudFoundry {
	s := o.section("cloud_foundry",
		"api", "former_apis", "org", "client_id", "client_secret", "username", "password", "ca_file", "skip_tls_verify")
	if !s.broken && !o.has("cloud_foundry") {
		o.fault("cloud_foundry", "is missing; it needs api, org and a login")
		s.broken = true
	}
	cf := CloudFoundry{
		API: s.url("api"), FormerAPIs: s.urls("former_apis"), Org: s.required("org"), SkipTLSVerify: s.flag("skip_tls_verify"),
	}
	cf.CAFile, cf.CA = s.certificates("ca_file")
	byClient := s.has("client_id") || s.has("client_secret")
	byUser := s.has("username") || s.has("password")
	switch {
	case s.broken:
	case byClient == byUser:
		s.fault("", "needs one login: either client_id and client_secret, or username and password")
		for _, key := range []string{"client_id", "client_secret", "username", "password"} {
			s.optional(key) // for the faults that it may have of its own
		}
	case byClient:
		cf.ClientID, cf.ClientSecret = s.required("client_id"), NewSecret(s.required("client_secret"))
	default:
		cf.Username, cf.Password = s.required("username"), NewSecret(s.required("password"))
	}
	return cf
}

// bcryptHash is version, cost, 22 characters of salt and 31 of digest. The library looks at less of a hash before it
// compares with it.
var bcryptHash = regexp.MustCompile(`^\$2[aby]\$[0-9]{2}\$[./A-Za-z0-9]{53}$`)

// maxCost is the highest cost of a hash: each step above doubles the time that one login takes, and 14 is about a
// second.
const maxCost = 14

// credentials reads the list under credentials, which may be empty.
func (o object) credentials() []Credential {
	items, _ := o.list("credentials")
	var out []Credential
	for _, item := range items {
		out = append(out, o.r.mapping(item, "username", "password", "password_hash").credential())
	}
	return out
}

func (o object) credential() Credential {
	c := Credential{Username: o.required("username"), Password: NewSecret(o.optional("password"))}
	hash := o.optional("password_hash")
	c.PasswordHash = NewSecret(hash)
	if strings.Contains(c.Username, ":") {
		o.fault("username", "must not hold a colon; HTTP Basic ends the username there")
	}
	if !o.broken && o.has("password") == o.has("password_hash") {
		o.fault("", "needs one of password and password_hash, not both")
	}
	switch cost, err := bcrypt.Cost([]byte(hash)); {
	case hash == "":
	case err != nil || !bcryptHash.MatchString(hash):
		o.fault("password_hash", "must be a bcrypt hash, as `htpasswd -nBC 10 NAME` prints it after the colon")
	case cost > maxCost:
		o.fault("password_hash", fmt.Sprintf("has the cost %d, and one check would take seconds; "+
			"hash the password again with at most %d, as `htpasswd -nBC 10 NAME` does", cost, maxCost))
	}
	return c
}
