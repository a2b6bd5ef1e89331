package api

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/crypto/bcrypt"
)

func basic(text string) option {
	return with("Authorization", "Basic "+base64.StdEncoding.EncodeToString([]byte(text)))
}

func hashOf(t *testing.T, password string) string {
	t.Helper()
	hash, err := bcrypt.GenerateFromPassword([]byte(password), bcrypt.MinCost)
	if err != nil {
		t.Fatal(err)
	}
	return string(hash)
}

// AUTH-01 to AUTH-07, and cases AUT-02 and AUT-03.
func TestAuthentication(t *testing.T) {
	t.Parallel()
	b := newBench(t, func(o *Options) {
		o.Clients = append(o.Clients, Client{Name: "gamma", Credentials: []Credential{
			{Username: "u", Password: "p:a:ss"},
			{Username: "üser", Password: "pässwörd"},
			{Username: "empty"},
			{Username: "h", PasswordHash: hashOf(t, "first")},
			{Username: "h", PasswordHash: hashOf(t, "second")},
		}})
	})
	tests := []struct {
		name   string
		option option
		status int
	}{
		{"a password", as("a", "pa"), 200},
		{"the next password of the same username", as("a", "pa-next"), 200},
		{"a password with colons", basic("u:p:a:ss"), 200},
		{"a password cut at its colon", basic("u:p"), 401},
		{"a password in UTF-8", basic("üser:pässwörd"), 200},
		{"a hashed password", as("h", "first"), 200},
		{"the next hashed password of the same username", as("h", "second"), 200},
		{"a wrong password for a hash", as("h", "third"), 401},
		{"another one's hashed password", as("a", "first"), 401},
		{"another one's password", as("a", "pb"), 401},
		{"a username in other letters", as("A", "pa"), 401},
		{"a username alone", as("a", ""), 401},
		{"a credential that has no password", as("empty", ""), 401},
		{"nothing", without("Authorization"), 401},
		{"another scheme", with("Authorization", "Bearer cGE6cGE="), 401},
		{"no base64", with("Authorization", "Basic !!!"), 401},
		{"no colon", basic("a"), 401},
	}
	bodies := map[string]bool{}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			w := b.send("GET", "/v2/catalog", "", test.option)
			if w.Code != test.status {
				t.Fatalf("status = %d, want %d", w.Code, test.status)
			}
			if test.status != 401 {
				return
			}
			described(t, w, 401)
			if got := w.Header().Get("WWW-Authenticate"); !strings.HasPrefix(got, `Basic realm="`) {
				t.Errorf("WWW-Authenticate = %q", got)
			}
			bodies[w.Body.String()] = true
		})
	}
	if len(bodies) != 1 {
		t.Errorf("%d different answers to failed logins, want 1, which gives no hint", len(bodies))
	}
}

func TestEveryRouteIsAuthenticated(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for _, target := range []string{
		"/v2", "/v2/", "/v2//", "/v2/catalog", "/%762/catalog", "/v2/nope", "/v2/../healthz", instanceURL, bindingURL,
		instanceURL + "/last_operation", bindingURL + "/last_operation",
	} {
		for _, method := range []string{"GET", "PUT", "PATCH", "DELETE", "POST", "HEAD", "OPTIONS"} {
			if w := b.send(method, target, "", without("Authorization")); w.Code != 401 {
				t.Errorf("%s %s = %d, want 401", method, target, w.Code)
			}
		}
	}
}

func TestAHashIsCheckedOnceForEachPassword(t *testing.T) {
	t.Parallel()
	calls := 0
	h := newHashed("hash")
	h.compare = func(_, password []byte) error {
		calls++ // guarded by the turn of the hash
		if string(password) == "right" {
			return nil
		}
		return errors.New("wrong")
	}
	key := newDigestKey(strings.NewReader(strings.Repeat("k", 32)))
	var wait sync.WaitGroup
	for range 8 {
		wait.Go(func() {
			if h.check(key.digest("right"), "right") != 1 {
				t.Error("the right password was refused")
			}
			if h.check(key.digest("wrong"), "wrong") != 0 {
				t.Error("a wrong password was accepted")
			}
		})
	}
	wait.Wait()
	if calls != 2 {
		t.Errorf("compared %d times, want once for each of two passwords", calls)
	}
	for i := range 3 * maxRemembered {
		guess := fmt.Sprint("guess", i)
		h.check(key.digest(guess), guess)
	}
	if len(h.outcomes) > maxRemembered {
		t.Errorf("%d outcomes are remembered, want at most %d", len(h.outcomes), maxRemembered)
	}
	calls = 0
	if h.check(key.digest("right"), "right") != 1 || calls != 0 {
		t.Errorf("the right password was compared %d more times after many guesses, want 0", calls)
	}
}

// bcrypt itself looks at the first 72 bytes only.
func TestAPasswordBeyondWhatBcryptReadsIsRefused(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", bcryptBytes)
	h := newHashed(hashOf(t, long))
	key := newDigestKey(nil)
	if h.check(key.digest(long), long) != 1 {
		t.Error("the password was refused")
	}
	if more := long + "y"; h.check(key.digest(more), more) != 0 {
		t.Error("a longer password was accepted")
	}
}

// The time of a failed login must not tell which usernames exist.
func TestAFailedLoginAlwaysWaitsForAHash(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name, username, password string
		want                     int
	}{
		{"an unknown username", "x", "p1", 1},
		{"a known username with a plain password", "plain", "p2", 1},
		{"a known username with a hash", "hashed", "p3", 1},
		{"a right plain password", "plain", "right", 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			g := newGuard(newDigestKey(nil))
			g.admit([]Credential{{Username: "plain", Password: "right"}, {Username: "hashed", PasswordHash: "h"}}, Client{})
			calls := 0
			g.standIn.compare = func(_, _ []byte) error { calls++; return errors.New("wrong") }
			g.open(test.username, test.password)
			if calls != test.want {
				t.Errorf("a hash was checked %d times, want %d", calls, test.want)
			}
		})
	}
}

func TestTheDigestKeyIsNeverEmpty(t *testing.T) {
	t.Parallel()
	given := newDigestKey(bytes.NewReader(bytes.Repeat([]byte{7}, sha256.Size)))
	if diff := cmp.Diff(bytes.Repeat([]byte{7}, 32), given[:]); diff != "" {
		t.Errorf("key (-want +got):\n%s", diff)
	}
	for name, random := range map[string]io.Reader{"none": nil, "too short": strings.NewReader("abc")} {
		if one, other := newDigestKey(random), newDigestKey(random); one == other {
			t.Errorf("%s: two keys are the same", name)
		}
	}
}

func TestACredentialPrintsNoSecret(t *testing.T) {
	t.Parallel()
	c := Client{Name: "n", Credentials: []Credential{{Username: "u", Password: "S3CRET", PasswordHash: "H4SH"}}}
	for _, format := range []string{"%v", "%+v", "%#v", "%s"} {
		if got := fmt.Sprintf(format, c); strings.Contains(got, "S3CRET") || strings.Contains(got, "H4SH") {
			t.Errorf("%s prints %s", format, got)
		}
	}
}
