package config

import (
	"fmt"
	"regexp"
	"strings"

	"golang.org/x/crypto/bcrypt"
)

// bcryptHash is version, cost, 22 characters of salt and 31 of digest. The
// library looks at less of a hash before it compares with it.
var bcryptHash = regexp.MustCompile(`^\$2[aby]\$[0-9]{2}\$[./A-Za-z0-9]{53}$`)

// maxCost is the highest cost of a hash: each step above doubles the time that one
// login takes, and 14 is about a second.
const maxCost = 14

// Credential is one way to log in. Exactly one of Password and PasswordHash
// (bcrypt) is set.
type Credential struct {
	Username     string
	Password     string `json:"-"`
	PasswordHash string `json:"-"`
}

// Format prints the username alone, whatever the verb.
func (c Credential) Format(f fmt.State, _ rune) {
	_, _ = fmt.Fprintf(f, "{%s …}", c.Username)
}

// Format prints what is no secret, whatever the verb.
func (c CloudFoundry) Format(f fmt.State, _ rune) {
	_, _ = fmt.Fprintf(f, "{%s org %s as %s%s …}", c.API, c.Org, c.ClientID, c.Username)
}

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
	c := Credential{Username: o.required("username"), Password: o.optional("password"), PasswordHash: o.optional("password_hash")}
	if strings.Contains(c.Username, ":") {
		o.fault("username", "must not hold a colon; HTTP Basic ends the username there")
	}
	if !o.broken && o.has("password") == o.has("password_hash") {
		o.fault("", "needs one of password and password_hash, not both")
	}
	switch cost, err := bcrypt.Cost([]byte(c.PasswordHash)); {
	case c.PasswordHash == "":
	case err != nil || !bcryptHash.MatchString(c.PasswordHash):
		o.fault("password_hash", "must be a bcrypt hash, as `htpasswd -nBC 10 NAME` prints it after the colon")
	case cost > maxCost:
		o.fault("password_hash", fmt.Sprintf("has the cost %d, and one check would take seconds; hash the password again with at most %d, as `htpasswd -nBC 10 NAME` does", cost, maxCost))
	}
	return c
}
