package cf

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ferry-broker/ferry/internal/broker"
	"github.com/ferry-broker/ferry/internal/lifecycle"
)

// clock is a time that a test moves.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func newClock() *clock { return &clock{now: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)} }

func (c *clock) set(config *Config) { config.Now = c.read }

func (c *clock) read() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) pass(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// heldBack fails unless the error is one of a call that was not made, and returns how
// long it asks to stay away.
func heldBack(t *testing.T, err error) time.Duration {
	t.Helper()
	var wait broker.RetryIn
	if !errors.As(err, &wait) || wait.RetryIn() <= 0 || !strings.Contains(err.Error(), "not sent") {
		t.Errorf("error %v, want one of a call that was not made and that says for how long", err)
		return 0
	}
	return wait.RetryIn()
}

// TestRefusedLoginsPauseForTheWholeClient [14]: a UAA locks accounts after five, however
// many operations there are.
func TestRefusedLoginsPauseForTheWholeClient(t *testing.T) {
	t.Parallel()
	var good atomic.Bool
	g := newGate(t, busyCloud, func(_ int64, w http.ResponseWriter, _ *http.Request) bool {
		if !good.Load() {
			reply(w, 401, `{"error":"unauthorized","error_description":"Bad credentials"}`)
		}
		return !good.Load()
	})
	clock := newClock()
	b := g.backend(t, clock.set)
	_, _ = b.Job(t.Context(), "j")
	for second := range 120 { // fifty operations try each second
		for range 50 {
			sight, err := b.Job(t.Context(), "j")
			if err == nil || !CredentialsRefused(err) || sight.State != lifecycle.JobUnclear {
				t.Fatalf("second %d: %+v, %v", second, sight, err)
			}
		}
		clock.pass(time.Second)
	}
	if n := g.logins.Load(); n > 5 || n < 3 {
		t.Errorf("%d logins in two minutes, want a few", n)
	}
	if answer, err := b.DeleteInstance(t.Context(), "g"); answer.Reply != lifecycle.ReplyBusy ||
		answer.RetryAfter != heldBack(t, err) || !strings.Contains(answer.Description, "cannot log in") {
		t.Errorf("a change meanwhile: %+v, %v; want busy, with the reason", answer, err)
	}
	for range 20 {
		clock.pass(time.Hour)
		_, _ = b.Job(t.Context(), "j") // the probe, which is refused
		if _, err := b.Job(t.Context(), "j"); heldBack(t, err) > 5*time.Minute {
			t.Errorf("%v; want no pause of more than minutes", err)
		}
	}
	good.Store(true)
	if _, err := g.backend(t, clock.set).Job(t.Context(), "j"); err != nil {
		t.Errorf("a new configuration: %v; want no pause of the old one", err)
	}
	if _, err := b.Job(t.Context(), "j"); heldBack(t, err) <= 0 {
		t.Error("the old configuration has no pause any more")
	}
	clock.pass(5 * time.Minute)
	for range 2 {
		if _, err := b.Job(t.Context(), "j"); err != nil {
			t.Errorf("%v; want that a success ended the pause", err)
		}
	}
}

// TestRefusedTokensPauseForTheWholeClient [14]: where fresh ones are refused too, more do
// not help.
func TestRefusedTokensPauseForTheWholeClient(t *testing.T) {
	t.Parallel()
	g := newGate(t, func(w http.ResponseWriter, _ *http.Request) {
		reply(w, 401, cfError(1000, "CF-InvalidAuthToken", "Invalid Auth Token"))
	}, func(n int64, w http.ResponseWriter, _ *http.Request) bool {
		reply(w, 200, fmt.Sprintf(`{"access_token":"token-%d","token_type":"bearer","expires_in":599}`, n))
		return true
	})
	clock := newClock()
	b := g.backend(t, clock.set)
	for range 100 {
		if _, err := b.Job(t.Context(), "j"); !CredentialsRefused(err) {
			t.Fatalf("%v; want the login at fault", err)
		}
	}
	if n := g.logins.Load(); n > 12 {
		t.Errorf("%d logins for 100 calls", n)
	}
	if answer, err := b.CreateKey(t.Context(), broker.KeyCall{Name: "k", InstanceGUID: "g"}); answer.Reply != lifecycle.ReplyBusy {
		t.Errorf("%+v, %v; want busy", answer, err)
	} else {
		heldBack(t, err)
	}
}

// TestALimitPausesForTheWholeClient [14, 15]: for as long as Cloud Foundry says, and no
// longer than an hour.
func TestALimitPausesForTheWholeClient(t *testing.T) {
	t.Parallel()
	clock := newClock()
	for name, test := range map[string]struct {
		says string
		body string
		want time.Duration
	}{
		"seconds":             {"37", cfError(10013, "CF-RateLimitExceeded", "x"), 37 * time.Second},
		"the Unix time":       {fmt.Sprint(clock.now.Add(time.Minute).Unix()), cfError(10014, "CF-IPBasedRateLimitExceeded", "x"), time.Minute},
		"longer than it can":  {"86400", cfError(10013, "CF-RateLimitExceeded", "x"), time.Hour},
		"nothing":             {"", "<html>429</html>", time.Second},
		"of parameters alone": {"37", cfError(10016, "CF-ServiceBrokerRateLimitExceeded", "x"), 0},
		"of roles alone":      {"37", cfError(20008, "CF-UaaRateLimited", "x"), 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStub(t, func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/v3/jobs/limited" {
					w.Header().Set("Date", "") // our clock is the only one
					w.Header().Set("Retry-After", test.says)
					reply(w, 429, test.body)
					return
				}
				reply(w, 200, `{"guid":"j","state":"POLLING"}`)
			})
			clock := newClock()
			b := s.backend(t, clock.set)
			_, _ = b.Job(t.Context(), "limited")
			_, err := b.Job(t.Context(), "j")
			if test.want == 0 {
				if err != nil {
					t.Errorf("%v; want that other calls go on", err)
				}
				return
			}
			if got := heldBack(t, err); got != test.want {
				t.Errorf("calls wait for %v, want %v", got, test.want)
			}
			clock.pass(test.want)
			if _, err := b.Job(t.Context(), "j"); err != nil {
				t.Errorf("afterwards: %v", err)
			}
		})
	}
}

// TestOutagePausesForTheWholeClient [14, 19]: one call at a time looks whether Cloud
// Foundry is back, and that is noticed within two seconds.
func TestOutagePausesForTheWholeClient(t *testing.T) {
	t.Parallel()
	var back atomic.Bool
	s := newStub(t, func(w http.ResponseWriter, _ *http.Request) {
		if !back.Load() {
			reply(w, 502, "<html>")
			return
		}
		reply(w, 200, `{"guid":"j","state":"POLLING"}`)
	})
	clock := newClock()
	b := s.backend(t, clock.set)
	const call = "GET /v3/jobs/j"
	for range 2 { // single calls fail on healthy days
		if _, err := b.Job(t.Context(), "j"); err == nil || strings.Contains(err.Error(), "not sent") {
			t.Errorf("%v; want that it was sent", err)
		}
	}
	for range 600 { // a minute
		for range 20 {
			if _, err := b.Job(t.Context(), "j"); !Unreachable(err) {
				t.Fatalf("%v; want unreachable", err)
			}
		}
		clock.pass(100 * time.Millisecond)
	}
	if n := s.count(call); n > 40 || n < 25 {
		t.Errorf("%d calls in a minute, want one every two seconds", n)
	}
	back.Store(true)
	_, err := b.Job(t.Context(), "j")
	if wait := heldBack(t, err); wait > 2*time.Second {
		t.Errorf("the next call has to wait for %v", wait)
	} else {
		clock.pass(wait)
	}
	for range 3 {
		if _, err := b.Job(t.Context(), "j"); err != nil {
			t.Errorf("%v; want that a success ended the pause", err)
		}
	}
}

// TestOneProbeAtATime [14]: while it is under way, nobody else tries.
func TestOneProbeAtATime(t *testing.T) {
	t.Parallel()
	arrived, release := make(chan struct{}, 2), make(chan struct{})
	var hang atomic.Int64
	s := newStub(t, func(w http.ResponseWriter, _ *http.Request) {
		switch hang.Load() {
		case 0:
			reply(w, 502, "<html>")
			return
		case 1:
			hang.Store(2) // the first alone
			arrived <- struct{}{}
			<-release
		}
		reply(w, 200, `{"guid":"j","state":"POLLING"}`)
	})
	clock := newClock()
	b := s.backend(t, clock.set)
	for range 3 {
		_, _ = b.Job(t.Context(), "j")
	}
	hang.Store(1)
	clock.pass(time.Second)
	probe := make(chan error, 1)
	go func() { _, err := b.Job(t.Context(), "j"); probe <- err }()
	<-arrived
	_, err := b.Job(t.Context(), "j")
	heldBack(t, err)
	close(release)
	if err := <-probe; err != nil {
		t.Error(err)
	}
}

// TestPauseKeepsItsOwnCause: a caller goes on with the error that it got, and marks it,
// while others are held back for the same reason.
func TestPauseKeepsItsOwnCause(t *testing.T) {
	t.Parallel()
	var p pause
	now := newClock().read()
	cause := &Error{Call: "log in", Status: 401}
	p.failed(refused, cause, now)
	cause.Status, cause.unsent = 500, true
	err := p.admit("get job", now)
	if e, ok := errors.AsType[*Error](err); !ok || e.Status != 401 {
		t.Errorf("held back with %v, want the answer of before", err)
	}
}
