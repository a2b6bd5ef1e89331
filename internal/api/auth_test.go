package api

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"runtime"
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
	answers := map[string]bool{}
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
			answers[fmt.Sprint(w.Code, w.Header(), w.Body)] = true
		})
	}
	if len(answers) != 1 {
		t.Errorf("%d different answers to failed logins, want 1, which gives no hint: %v", len(answers), answers)
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

// door is a guard whose hashes are their passwords, and which counts comparisons.
type door struct {
	*guard
	mu sync.Mutex
	// compared counts comparisons of hashes, each with what bcrypt works at its cost.
	compared, work int
	// same counts comparisons of digests.
	same int
	// during is called in each comparison of a hash; may be nil.
	during func()
}

func newDoor(t *testing.T, credentials ...Credential) *door {
	t.Helper()
	d := &door{guard: newGuard(newDigestKey(nil))}
	d.admit(credentials, Client{Name: "c"})
	compare, same := d.hashes.compare, d.guard.same
	d.hashes.compare = func(hash, password []byte) error {
		cost, err := bcrypt.Cost(hash)
		if err != nil {
			t.Errorf("compared with what is no hash: %v", err)
		}
		if d.during != nil {
			d.during()
		}
		d.mu.Lock()
		defer d.mu.Unlock()
		d.compared++
		d.work += 1 << cost
		return compare(hash, password)
	}
	d.guard.same = func(x, y digest) int {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.same++
		return same(x, y)
	}
	return d
}

// spent is what one login costs in comparisons, and its error.
func (d *door) spent(username, password string) (compared, work, same int, err error) {
	d.compared, d.work, d.same = 0, 0, 0
	_, err = d.open(context.Background(), username, password)
	return d.compared, d.work, d.same, err
}

// AUTH-02: neither the time nor the work of a login tells which usernames exist, nor how near a guess came.
func TestALoginThatFailsCostsTheSameForEveryUsername(t *testing.T) {
	t.Parallel()
	costly, err := bcrypt.GenerateFromPassword([]byte("costly"), bcrypt.MinCost+1)
	if err != nil {
		t.Fatal(err)
	}
	d := newDoor(t,
		Credential{Username: "plain", Password: "right"},
		Credential{Username: "one", PasswordHash: hashOf(t, "first")},
		Credential{Username: "two", PasswordHash: hashOf(t, "second")},
		Credential{Username: "two", PasswordHash: hashOf(t, "third")},
		Credential{Username: "both", Password: "left"},
		Credential{Username: "both", PasswordHash: string(costly)},
	)
	const comparisons, work, same = 3, 2<<bcrypt.MinCost + 2<<bcrypt.MinCost, 2 * 6
	for _, guess := range []string{"a guess", "first", "costly"} {
		for _, username := range []string{"nobody", "somebody", "plain", "one", "two", "both"} {
			c, w, s, err := d.spent(username, guess)
			if err == nil && (username == "nobody" || guess == "a guess") {
				t.Errorf("%q opens the door to %q", guess, username)
			}
			if c != comparisons || w != work || s != same {
				t.Errorf("%q with %q costs %d checks of %d, %d comparisons; want %d of %d, %d", username, guess, c, w, s, comparisons, work, same)
			}
			if c, _, s, _ := d.spent(username, guess); c != 0 || s != same {
				t.Errorf("%q with %q again costs %d checks and %d comparisons, want 0 and %d", username, guess, c, s, same)
			}
		}
	}
	if c, _, s, err := d.spent("plain", "right"); err != nil || c != 0 || s != same {
		t.Errorf("a right password in plain text: %v, %d checks, %d comparisons; want 0 and %d", err, c, s, same)
	}
}

func TestAPasswordIsCheckedOnce(t *testing.T) {
	t.Parallel()
	d := newDoor(t, Credential{Username: "h", PasswordHash: hashOf(t, "right")})
	var wait sync.WaitGroup
	for range 8 {
		wait.Go(func() {
			if _, err := d.open(t.Context(), "h", "right"); err != nil {
				t.Errorf("the right password: %v", err)
			}
			if _, err := d.open(t.Context(), "h", "wrong"); !errors.Is(err, errWrongLogin) {
				t.Errorf("a wrong password: %v", err)
			}
		})
	}
	wait.Wait()
	if d.compared != 2 {
		t.Errorf("compared %d times, want once for each of two passwords", d.compared)
	}
	d.hashes.compare = func(_, _ []byte) error { return errors.New("wrong") }
	for i := range 3 * maxRemembered {
		_, _ = d.open(t.Context(), "h", fmt.Sprint("guess", i))
	}
	if n := len(d.hashes.refused); n > maxRemembered {
		t.Errorf("%d wrong logins are remembered, want at most %d", n, maxRemembered)
	}
	if _, err := d.open(t.Context(), "h", "right"); err != nil {
		t.Errorf("after many guesses the right password is checked again: %v", err)
	}
}

// bcrypt itself looks at the first 72 bytes only.
func TestAPasswordBeyondWhatBcryptReadsIsRefused(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", bcryptBytes)
	d := newDoor(t, Credential{Username: "h", PasswordHash: hashOf(t, long)}, Credential{Username: "p", Password: long + "y"})
	for _, test := range []struct {
		username, password string
		want               error
	}{{"h", long, nil}, {"h", long + "y", errWrongLogin}, {"p", long + "y", nil}} {
		if _, err := d.open(t.Context(), test.username, test.password); !errors.Is(err, test.want) {
			t.Errorf("%s with %d bytes: %v, want %v", test.username, len(test.password), err, test.want)
		}
	}
}

// Whoever guesses passwords keeps nobody out but those whose password a hash was never asked about: places for requests
// and the queue of logins are two things.
func TestGuessesDoNotLockOut(t *testing.T) {
	t.Parallel()
	b := newBench(t, func(o *Options) {
		o.Clients[1].Credentials = append(o.Clients[1].Credentials, Credential{Username: "h", PasswordHash: hashOf(t, "hashed")},
			Credential{Username: "h", PasswordHash: hashOf(t, "new")})
		o.ConcurrentRequests = 2
	})
	if w := b.send("GET", "/v2/catalog", "", as("h", "hashed")); w.Code != 200 {
		t.Fatalf("status = %d before anybody guesses", w.Code)
	}
	hashes := b.handler.(*handler).platforms.hashes
	compare, release := hashes.compare, make(chan struct{})
	hashes.compare = func(hash, password []byte) error {
		<-release
		if string(password) == "new" {
			return compare(hash, password)
		}
		return errors.New("wrong")
	}
	answers := make(chan int)
	guesses := func(n int, username string) {
		for i := range n {
			go func() { answers <- b.send("GET", "/v2/catalog", "", as(username, fmt.Sprint(i))).Code }()
		}
	}
	places := hashes.queue.places
	const more = 10
	guesses(places/2+more, "nobody") // who has half of the places, no more
	for range more {
		if status := <-answers; status != 503 {
			t.Fatalf("a guess beyond what one username may have waiting is answered %d", status)
		}
	}
	other := make(chan int)
	go func() { other <- b.send("GET", "/v2/catalog", "", as("h", "new")).Code }()
	until(t, hashes, places/2+1)
	guesses(places/2-1+more, "h")
	for range more {
		if status := <-answers; status != 503 {
			t.Fatalf("a guess beyond all places is answered %d", status)
		}
	}
	w := b.send("GET", "/v2/catalog", "", as("x", "y"))
	described(t, w, 503, "logins", "Send it again")
	if w.Header().Get("Retry-After") != "1" {
		t.Errorf("Retry-After = %q, want 1", w.Header().Get("Retry-After"))
	}
	for name, login := range map[string]option{"a plain password": as("a", "pa"), "a password that was checked": as("h", "hashed")} {
		if w := b.send("GET", "/v2/catalog", "", login); w.Code != 200 {
			t.Errorf("%s is answered %d while others guess", name, w.Code)
		}
	}
	close(release)
	for range places - 1 {
		if status := <-answers; status != 401 {
			t.Errorf("a guess that had a place is answered %d", status)
		}
	}
	if status := <-other; status != 200 {
		t.Errorf("a right password among guesses is answered %d", status)
	}
	if n := len(hashes.queue.of) + hashes.queue.inside + len(hashes.checked); n != 0 {
		t.Errorf("%d places are not given back", n)
	}
}

// until waits until that many logins are in the queue.
func until(t *testing.T, h *hashes, n int) {
	t.Helper()
	for inside := 0; inside != n; {
		h.queue.mu.Lock()
		inside = h.queue.inside
		h.queue.mu.Unlock()
		runtime.Gosched()
	}
}

// Whoever hangs up while the login waits gives its place back, and does not decide about others who sent the same.
func TestALoginThatIsGivenUpLeavesTheQueue(t *testing.T) {
	t.Parallel()
	d := newDoor(t, Credential{Username: "h", PasswordHash: hashOf(t, "right")})
	for range cap(d.hashes.queue.turns) {
		d.hashes.queue.turns <- struct{}{}
	}
	ctx, cancel := context.WithCancel(t.Context())
	first, second := make(chan error), make(chan error)
	go func() { _, err := d.open(ctx, "h", "right"); first <- err }()
	until(t, d.hashes, 1)
	go func() { _, err := d.open(t.Context(), "h", "right"); second <- err }()
	cancel()
	if err := <-first; !errors.Is(err, errManyLogins) {
		t.Errorf("the one who left: %v", err)
	}
	for range cap(d.hashes.queue.turns) {
		<-d.hashes.queue.turns
	}
	if err := <-second; err != nil {
		t.Errorf("the one who stayed: %v", err)
	}
	if d.hashes.queue.inside != 0 {
		t.Errorf("%d places are not given back", d.hashes.queue.inside)
	}
}

// The higher the cost, the fewer may wait: nobody is kept for longer than platforms do.
func TestTheQueueOfLoginsIsAsLongAsItsWorkAllows(t *testing.T) {
	t.Parallel()
	for cost, want := range map[int]int{4: 64, 10: 64, 12: 32, 14: 8} {
		if got := newQueue(1 << cost).places; got != want {
			t.Errorf("%d places at cost %d, want %d", got, cost, want)
		}
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
