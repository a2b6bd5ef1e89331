package cf

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ferry-broker/ferry/internal/lifecycle"
)

// gate stands before a stub's UAA: a test says how each login ends.
type gate struct {
	*stub
	logins atomic.Int64
	// answer gets the number of the login, from 1, and reports whether it answered.
	answer func(n int64, w http.ResponseWriter, r *http.Request) bool
}

func (g *gate) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/uaa/oauth/token" {
		_ = r.ParseForm() // a server notices that its client left once the body is read
		if g.answer(g.logins.Add(1), w, r) {
			return
		}
	}
	g.stub.ServeHTTP(w, r)
}

func newGate(t *testing.T, handle http.HandlerFunc, answer func(int64, http.ResponseWriter, *http.Request) bool) *gate {
	t.Helper()
	s := newStub(t, handle)
	g := &gate{stub: s, answer: answer}
	s.Config.Handler = g
	return g
}

func TestFailedLoginIsTriedAgain(t *testing.T) {
	t.Parallel()
	g := newGate(t, func(w http.ResponseWriter, _ *http.Request) {
		reply(w, 404, cfError(10010, "CF-ResourceNotFound", "Job not found"))
	}, func(n int64, w http.ResponseWriter, _ *http.Request) bool {
		switch n {
		case 1:
			reply(w, 401, `{"error":"invalid_client","error_description":"Bad credentials"}`)
		case 2:
			w.WriteHeader(http.StatusBadGateway)
		}
		return n <= 2
	})
	clock := newClock()
	b := g.backend(t, clock.set)
	if g.logins.Load() != 0 || len(g.requests) != 0 {
		t.Fatal("New reached out to Cloud Foundry")
	}
	_, err := b.Job(t.Context(), "j")
	if err == nil || !strings.Contains(err.Error(), "invalid_client Bad credentials") || Unreachable(err) {
		t.Errorf("first call: %v, want the UAA's refusal", err)
	}
	clock.pass(time.Minute)
	answer, err := b.CreateInstance(t.Context(), testCall())
	if answer.Reply != lifecycle.ReplyBusy || !Unreachable(err) {
		t.Errorf("second call: %+v, %v; want busy, unreachable", answer, err)
	}
	clock.pass(time.Minute)
	if sight, err := b.Job(t.Context(), "j"); err != nil || sight.State != lifecycle.JobLost {
		t.Errorf("third call: %+v, %v; want the job lost", sight, err)
	}
}

func TestCallsShareOneLogin(t *testing.T) {
	t.Parallel()
	const callers = 16
	release := make(chan struct{})
	g := newGate(t, func(w http.ResponseWriter, _ *http.Request) {
		reply(w, 404, cfError(10010, "CF-ResourceNotFound", "Job not found"))
	}, func(_ int64, w http.ResponseWriter, _ *http.Request) bool {
		<-release
		reply(w, 401, `{"error":"unauthorized","error_description":"Your account has been locked"}`)
		return true
	})
	b := g.backend(t, nil)
	var group sync.WaitGroup
	started := make(chan struct{}, callers)
	for range callers {
		group.Go(func() {
			started <- struct{}{}
			if _, err := b.Job(t.Context(), "j"); err == nil {
				t.Error("a call succeeded without a login")
			}
		})
	}
	for range callers {
		<-started
	}
	close(release)
	group.Wait()
	// A caller that came late starts another login; all at once would be 16.
	if n := g.logins.Load(); n >= callers {
		t.Errorf("%d logins for %d calls", n, callers)
	}
}

func TestLoginOfACallerThatLeftIsNotShared(t *testing.T) {
	t.Parallel()
	arrived := make(chan struct{})
	g := newGate(t, func(w http.ResponseWriter, _ *http.Request) {
		reply(w, 404, cfError(10010, "CF-ResourceNotFound", "Job not found"))
	}, func(n int64, _ http.ResponseWriter, r *http.Request) bool {
		if n == 1 {
			close(arrived)
			<-r.Context().Done()
		}
		return n == 1
	})
	b := g.backend(t, nil)
	ctx, cancel := context.WithCancel(t.Context())
	first, second := make(chan error, 1), make(chan error, 1)
	go func() { _, err := b.Job(ctx, "j"); first <- err }()
	<-arrived
	go func() { _, err := b.Job(t.Context(), "j"); second <- err }()
	cancel()
	if err := <-first; err == nil {
		t.Error("the cancelled call succeeded")
	}
	if err := <-second; err != nil {
		t.Errorf("the other call: %v", err)
	}
}

func TestWaitingForALoginEndsWithTheContext(t *testing.T) {
	t.Parallel()
	arrived, release := make(chan struct{}), make(chan struct{})
	g := newGate(t, hangUp, func(n int64, _ http.ResponseWriter, _ *http.Request) bool {
		if n == 1 {
			close(arrived)
		}
		<-release
		return true
	})
	b := g.backend(t, nil)
	done := make(chan struct{})
	go func() { _, _ = b.Job(t.Context(), "j"); close(done) }()
	<-arrived
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if answer, err := b.DeleteInstance(ctx, "g"); answer.Reply != lifecycle.ReplyBusy || err == nil {
		t.Errorf("answer %+v, %v; want busy: nothing was sent", answer, err)
	}
	close(release)
	<-done
}

// TestRefusedTokenIsReplacedOnce has a token refused in the middle of a POST.
func TestRefusedTokenIsReplacedOnce(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		refusals int
		body     string
		want     lifecycle.Reply
		posts    int
	}{
		"refused once, the call succeeds":        {1, cfError(1000, "CF-InvalidAuthToken", "Invalid Auth Token"), lifecycle.ReplyAccepted, 2},
		"refused twice, it is not sent again":    {2, cfError(1000, "CF-InvalidAuthToken", "Invalid Auth Token"), lifecycle.ReplyBusy, 2},
		"another 401 is not answered by a login": {1, "<html>login</html>", lifecycle.ReplyUnknown, 1},
		"no token seen is not a refused token":   {1, cfError(10002, "CF-NotAuthenticated", "Authentication error"), lifecycle.ReplyBusy, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var posts atomic.Int64
			var bodies sync.Map
			g := newGate(t, func(w http.ResponseWriter, r *http.Request) {
				n := posts.Add(1)
				bodies.Store(r.Header.Get("Authorization"), true)
				if int(n) <= test.refusals {
					reply(w, 401, test.body)
					return
				}
				w.Header().Set("Location", "/v3/jobs/j")
				w.WriteHeader(202)
			}, func(n int64, w http.ResponseWriter, _ *http.Request) bool {
				reply(w, 200, `{"access_token":"token-`+string(rune('0'+n))+`","token_type":"bearer","expires_in":599}`)
				return true
			})
			answer, err := g.backend(t, nil).CreateInstance(t.Context(), testCall())
			if answer.Reply != test.want || int(posts.Load()) != test.posts {
				t.Errorf("answer %+v, %v after %d POSTs; want %s after %d", answer, err, posts.Load(), test.want, test.posts)
			}
			if _, second := bodies.Load("Bearer token-2"); second != (test.posts == 2) {
				t.Errorf("second token used: %v", second)
			}
		})
	}
}

func TestLoginsNameClientOrUser(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		change            func(*Config)
		client, grant, by string
	}{
		"as a client":                {func(c *Config) { c.ClientID = "a:b" }, "a%3Ab", "client_credentials", ""},
		"as a user":                  {func(c *Config) { c.ClientID, c.ClientSecret, c.Username, c.Password = "", "", "u", "p" }, "cf", "password", "u"},
		"as a user through a client": {func(c *Config) { c.Username, c.Password = "u", "p" }, "ferry", "password", "u"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			seen := make(chan [3]string, 1)
			g := newGate(t, func(w http.ResponseWriter, _ *http.Request) {
				reply(w, 404, cfError(10010, "CF-ResourceNotFound", "Job not found"))
			}, func(_ int64, _ http.ResponseWriter, r *http.Request) bool {
				client, _, _ := r.BasicAuth()
				seen <- [3]string{client, r.PostFormValue("grant_type"), r.PostFormValue("username")}
				return false
			})
			if _, err := g.backend(t, test.change).Job(t.Context(), "j"); err != nil {
				t.Fatal(err)
			}
			if got, want := <-seen, [3]string{test.client, test.grant, test.by}; got != want {
				t.Errorf("login %v, want %v", got, want)
			}
		})
	}
}
