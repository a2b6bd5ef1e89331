package config_test

import (
	"strings"
	"testing"
)

// secret is no word that a fault could hold by chance.
const secret = "zq9vXk7"

// whole holds the marked secret wherever one belongs; each line is then
// broken in many ways.
const whole = `clients:
  - name: a
    credentials:
      - username: a
        password: zq9vXk7
      - {username: b, password: zq9vXk7}
      - username: c
        password_hash: zq9vXk7
    cloud_foundry:
      api: https://u:zq9vXk7@example.org/zq9vXk7?zq9vXk7
      org: ferry
      client_id: ferry
      client_secret: zq9vXk7
      username: u
      password: ${file:/secret}
metrics:
  credentials:
    - username: m
      password_hash: ${env:SECRET}
`

func TestFaultsNeverHoldSecrets(t *testing.T) {
	t.Parallel()
	w := world{env: map[string]string{"SECRET": secret}, files: map[string]string{"/secret": secret}}
	breakages := []struct{ old, replacement string }{
		{secret, secret}, {secret, "x," + secret}, {secret, "*" + secret}, {secret, "&" + secret}, {secret, "!" + secret + " x"}, {secret, "!!int " + secret},
		{secret, "!!binary " + secret}, {secret, "[" + secret + "]"}, {secret, "{" + secret + "}"}, {secret, "{" + secret + ": 1}"}, {secret, "@" + secret},
		{secret, "`" + secret}, {secret, "%" + secret}, {secret, `"` + secret}, {secret, `"\` + secret + `"`}, {secret, "'" + secret}, {secret, "a: " + secret},
		{secret, "|" + secret}, {secret, "> " + secret}, {secret, secret + "\x00"}, {secret, secret + "\xff"}, {secret, "x\n" + secret}, {secret, "\n- " + secret},
		{secret, "${" + secret + "}"}, {secret, "${env: " + secret + "}"}, {secret, "${env:" + secret}, {secret, "x\t: " + secret}, {secret, "? " + secret}, {secret, "- " + secret},
		{secret, "}" + secret}, {secret, "]" + secret}, {secret, "<<: *" + secret}, {secret, "---\n" + secret}, {secret, "1, ? " + secret + ", b: c"},
		{": ", ":"}, {": ", " "}, {": ", "\t"}, {"- ", "-"}, {"password", "pasword"}, {"password: ", "password:\n"}, {"client_secret: ", "client_secret = "}, {"      ", "\t"}, {"      ", " "},
	}
	broken := 0
	for _, b := range breakages {
		for at := 0; ; {
			found := strings.Index(whole[at:], b.old)
			if found < 0 {
				break
			}
			at += found
			text := whole[:at] + b.replacement + whole[at+len(b.old):]
			at += len(b.old)
			_, err := parse(text, w)
			if err == nil {
				continue
			}
			broken++
			if strings.Contains(err.Error(), secret) {
				t.Errorf("%q for %q shows the secret:\n%v\nof\n%s", b.replacement, b.old, err, text)
			}
		}
	}
	if broken < 200 {
		t.Errorf("only %d texts were refused", broken)
	}
}

func FuzzParse(f *testing.F) {
	f.Add(whole)
	f.Add(minimal)
	f.Add("a: &a [*a]")
	f.Add("clients: &c [{name: a, credentials: *c}]")
	f.Fuzz(func(t *testing.T, text string) {
		c, err := parse(text, world{})
		if (err == nil) != (len(c.Clients) > 0) {
			t.Errorf("%d clients and %v", len(c.Clients), err)
		}
		if err != nil && err.Error() == "" {
			t.Error("a fault without a word")
		}
	})
}
