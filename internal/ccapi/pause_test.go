package ccapi

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
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

// heldBack fails unless the error is one of a call that was not made, and returns how long it asks to stay away.
func heldBack(t *testing.T, err error) time.Duration {
	t.Helper()
	e := failure(t, err)
	if e.RetryIn() <= 0 || !e.Unsent || !strings.Contains(err.Error(), "not sent") {
		t.Errorf("error %v, want one of a call that was not made and that says for how long", err)
		return 0
	}
	return e.RetryIn()
}

// TestRefusedLoginsPauseForTheWholeClient: a UAA locks accounts after five, however many operations there are.
func TestRefusedLoginsPauseForTheWholeClient(t *testing.T) {
	t.Parallel()
	var good atomic.Bool
	s := newStub(t, fine)
	s.login = func(_ int64, w http.ResponseWriter, _ *http.Request) bool {
		if !good.Load() {
			reply(w, 401, `{"error":"unauthorized","error_description":"Bad credentials"}`)
		}
		return !good.Load()
	}
	clock := newClock()
	c := s.client(t, clock.set)
	_ = get(t.Context(), c)
	for second := range 120 { // fifty operations try each second
		for range 50 {
			if e := failure(t, get(t.Context(), c)); e.Advice != AdviceLogin {
				t.Fatalf("second %d: %v", second, e)
			}
		}
		clock.pass(time.Second)
	}
	if n := s.logins.Load(); n > 5 || n < 3 {
		t.Errorf("%d logins in two minutes, want a few", n)
	}
	err := change(t.Context(), c, http.MethodDelete)
	heldBack(t, err)
	if said := failure(t, err).Explain("refused: "); !strings.Contains(said, "cannot log in") {
		t.Errorf("a user is told %q, want the reason", said)
	}
	for range 20 {
		clock.pass(time.Hour)
		_ = get(t.Context(), c) // the probe, which is refused
		if wait := heldBack(t, get(t.Context(), c)); wait > 5*time.Minute {
			t.Errorf("%v; want no pause of more than minutes", wait)
		}
	}
	good.Store(true)
	if err := get(t.Context(), s.client(t, clock.set)); err != nil {
		t.Errorf("a new configuration: %v; want no pause of the old one", err)
	}
	heldBack(t, get(t.Context(), c)) // the old one still has it
	clock.pass(5 * time.Minute)
	for range 2 {
		if err := get(t.Context(), c); err != nil {
			t.Errorf("%v; want that a success ended the pause", err)
		}
	}
}

// TestRefusedTokensPauseForTheWholeClient: where fresh ones are refused too, more do not help.
func TestRefusedTokensPauseForTheWholeClient(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		refusal string
		logins  int64
	}{
		"a token that is not valid": {cfError(1000, "CF-InvalidAuthToken", "Invalid Auth Token"), 11},
		"a token that is not seen":  {cfError(10002, "CF-NotAuthenticated", "Authentication error"), 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStub(t, func(w http.ResponseWriter, _ *http.Request) { reply(w, 401, test.refusal) })
			c := s.client(t, newClock().set)
			for range 100 {
				if e := failure(t, get(t.Context(), c)); e.Advice != AdviceToken {
					t.Fatalf("%v; want the login at fault", e)
				}
			}
			if n := s.logins.Load(); n != test.logins {
				t.Errorf("%d logins for 100 calls, want %d", n, test.logins)
			}
			if n := s.count("GET /v3/jobs/j"); n > 20 {
				t.Errorf("%d requests for 100 calls", n)
			}
			heldBack(t, change(t.Context(), c, http.MethodPost))
		})
	}
}

// TestALimitPausesForTheWholeClient: for as long as Cloud Foundry says, and no longer than an hour.
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
				reply(w, 200, `{"guid":"j"}`)
			})
			clock := newClock()
			c := s.client(t, clock.set)
			_, _ = c.Get(t.Context(), Request{Path: "/v3/jobs/limited"}, &Identity{})
			err := get(t.Context(), c)
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
			if err := get(t.Context(), c); err != nil {
				t.Errorf("afterwards: %v", err)
			}
		})
	}
}

// TestOutagePausesForTheWholeClient: one call at a time looks whether Cloud Foundry is back, and that is noticed within
// two seconds.
func TestOutagePausesForTheWholeClient(t *testing.T) {
	t.Parallel()
	var back atomic.Bool
	s := newStub(t, func(w http.ResponseWriter, _ *http.Request) {
		if !back.Load() {
			reply(w, 502, "<html>")
			return
		}
		reply(w, 200, `{"guid":"j"}`)
	})
	clock := newClock()
	c := s.client(t, clock.set)
	const call = "GET /v3/jobs/j"
	for range 2 { // single calls fail on healthy days
		if err := get(t.Context(), c); err == nil || strings.Contains(err.Error(), "not sent") {
			t.Errorf("%v; want that it was sent", err)
		}
	}
	for range 600 { // a minute
		for range 20 {
			if err := get(t.Context(), c); !Unreachable(err) {
				t.Fatalf("%v; want unreachable", err)
			}
		}
		clock.pass(100 * time.Millisecond)
	}
	if n := s.count(call); n > 40 || n < 25 {
		t.Errorf("%d calls in a minute, want one every two seconds", n)
	}
	back.Store(true)
	err := get(t.Context(), c)
	if wait := heldBack(t, err); wait > 2*time.Second {
		t.Errorf("the next call has to wait for %v", wait)
	} else {
		clock.pass(wait)
	}
	for range 3 {
		if err := get(t.Context(), c); err != nil {
			t.Errorf("%v; want that a success ended the pause", err)
		}
	}
}

// TestOneProbeAtATime: while it is under way, nobody else tries.
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
		reply(w, 200, `{"guid":"j"}`)
	})
	clock := newClock()
	c := s.client(t, clock.set)
	for range 3 {
		_ = get(t.Context(), c)
	}
	hang.Store(1)
	clock.pass(time.Second)
	probe := make(chan error, 1)
	go func() { probe <- get(t.Context(), c) }()
	<-arrived
	err := get(t.Context(), c)
	heldBack(t, err)
	close(release)
	if err := <-probe; err != nil {
		t.Error(err)
	}
}

// TestPauseKeepsItsOwnCause: a caller goes on with the error that it got, and marks it, while others are held back for
// the same reason.
func TestPauseKeepsItsOwnCause(t *testing.T) {
	t.Parallel()
	var p pause
	now := newClock().read()
	cause := &Error{Call: "log in", Status: 401}
	p.failed(refused, cause, now)
	cause.Status, cause.Unsent = 500, true
	err := p.admit("get job", now)
	if e, ok := errors.AsType[*Error](err); !ok || e.Status != 401 {
		t.Errorf("held back with %v, want the answer of before", err)
	}
}

// TestHangingCallsCountAsAway: after some seconds, running out of one's own time says that nobody answers; before, it
// says nothing.
func TestHangingCallsCountAsAway(t *testing.T) {
	t.Parallel()
	for took, want := range map[time.Duration]bool{time.Second: false, slow: true} {
		trouble, known := troubleOf(&Error{Call: "x", Err: context.DeadlineExceeded}, took)
		if known != want || known && trouble != away {
			t.Errorf("after %v: %v, %v", took, trouble, known)
		}
	}
}

// TestATokenThatManyShareIsRefusedOnce: tokens are withdrawn twice in a row while many calls are under way. That is
// twice, and not as often as there are calls: the next call logs in and succeeds.
func TestATokenThatManyShareIsRefusedOnce(t *testing.T) {
	t.Parallel()
	const callers = 30
	type bearers struct {
		count atomic.Int64
		all   chan struct{}
	}
	withdrawn := map[string]*bearers{"Bearer token-1": {all: make(chan struct{})}, "Bearer token-2": {all: make(chan struct{})}}
	s := newStub(t, func(w http.ResponseWriter, r *http.Request) {
		if b := withdrawn[r.Header.Get("Authorization")]; b != nil {
			if b.count.Add(1) == callers {
				close(b.all)
			}
			<-b.all // each call has brought this token
			reply(w, 401, cfError(1000, "CF-InvalidAuthToken", "Invalid Auth Token"))
			return
		}
		fine(w, r)
	})
	c := s.client(t, newClock().set)
	var group sync.WaitGroup
	for range callers {
		group.Go(func() {
			if e := failure(t, get(t.Context(), c)); e.Status != http.StatusUnauthorized || e.Unsent {
				t.Errorf("%v; want that two tokens were refused", e)
			}
		})
	}
	group.Wait()
	if err := get(t.Context(), c); err != nil || s.logins.Load() != 3 {
		t.Errorf("%v after %d logins; want that the third token is taken", err, s.logins.Load())
	}
}

// TestAnOldRefusalIsNoNews: that of a token which was older than one that Cloud Foundry took.
func TestAnOldRefusalIsNoNews(t *testing.T) {
	t.Parallel()
	var s session
	s.accepted(5)
	for _, old := range []int64{3, 4} {
		if s.refused(old) {
			t.Errorf("the refusal of token %d is news", old)
		}
	}
	for _, want := range []bool{true, false} { // the one that was taken is withdrawn, and twice told
		if got := s.refused(5); got != want {
			t.Errorf("the refusal of token 5 is news: %v, want %v", got, want)
		}
	}
}
