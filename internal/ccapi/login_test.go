package ccapi

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

func TestClaims(t *testing.T) {
	t.Parallel()
	for token, want := range map[string]string{
		tokenWith(`{"user_id":"u-1","client_id":"cf","scope":["a"]}`): "u-1 [a]",
		tokenWith(`{"client_id":"ferry"}`):                            "ferry []",
		tokenWith(`{}`):                                               " []",
		tokenWith(`no JSON`):                                          " []",
		"a.%.c":                                                       " []",
		"opaque":                                                      " []",
	} {
		s := newStub(t, fine)
		s.login = func(_ int64, w http.ResponseWriter, _ *http.Request) bool {
			reply(w, 200, `{"access_token":"`+token+`","token_type":"bearer","expires_in":599}`)
			return true
		}
		claims, err := s.client(t, nil).Claims(t.Context())
		if got := fmt.Sprint(claims.Subject(), " ", claims.Scope); err != nil || got != want {
			t.Errorf("token %s says %q, %v; want %q", token, got, err, want)
		}
	}
}

func TestFailedLoginIsTriedAgain(t *testing.T) {
	t.Parallel()
	s := newStub(t, fine)
	s.login = func(n int64, w http.ResponseWriter, _ *http.Request) bool {
		switch n {
		case 1:
			reply(w, 401, `{"error":"invalid_client","error_description":"Bad credentials"}`)
		case 2:
			w.WriteHeader(http.StatusBadGateway)
		}
		return n <= 2
	}
	clock := newClock()
	c := s.client(t, clock.set)
	if s.logins.Load() != 0 || len(s.requests) != 0 {
		t.Fatal("New reached out to Cloud Foundry")
	}
	err := get(t.Context(), c)
	if err == nil || !strings.Contains(err.Error(), "invalid_client Bad credentials") || Unreachable(err) {
		t.Errorf("first call: %v, want the UAA's refusal", err)
	}
	clock.pass(time.Minute)
	if err := get(t.Context(), c); !Unreachable(err) || !failure(t, err).Unsent {
		t.Errorf("second call: %v; want one to nobody, not sent", err)
	}
	clock.pass(time.Minute)
	if err := get(t.Context(), c); err != nil {
		t.Errorf("third call: %v", err)
	}
}

func TestCallsShareOneLogin(t *testing.T) {
	t.Parallel()
	const callers = 16
	release := make(chan struct{})
	s := newStub(t, fine)
	s.login = func(_ int64, w http.ResponseWriter, _ *http.Request) bool {
		<-release
		reply(w, 401, `{"error":"unauthorized","error_description":"Your account has been locked"}`)
		return true
	}
	c := s.client(t, nil)
	var group sync.WaitGroup
	started := make(chan struct{}, callers)
	for range callers {
		group.Go(func() {
			started <- struct{}{}
			if err := get(t.Context(), c); err == nil {
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
	if n := s.logins.Load(); n >= callers {
		t.Errorf("%d logins for %d calls", n, callers)
	}
}

func TestLoginOfACallerThatLeftIsNotShared(t *testing.T) {
	t.Parallel()
	arrived := make(chan struct{})
	s := newStub(t, fine)
	s.login = func(n int64, _ http.ResponseWriter, r *http.Request) bool {
		if n == 1 {
			close(arrived)
			<-r.Context().Done()
		}
		return n == 1
	}
	c := s.client(t, nil)
	ctx, cancel := context.WithCancel(t.Context())
	first, second := make(chan error, 1), make(chan error, 1)
	go func() { first <- get(ctx, c) }()
	<-arrived
	go func() { second <- get(t.Context(), c) }()
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
	s := newStub(t, fine)
	s.login = func(n int64, _ http.ResponseWriter, _ *http.Request) bool {
		if n == 1 {
			close(arrived)
		}
		<-release
		return true
	}
	c := s.client(t, nil)
	done := make(chan struct{})
	go func() { _ = get(t.Context(), c); close(done) }()
	<-arrived
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if e := failure(t, change(ctx, c, http.MethodDelete)); !e.Unsent {
		t.Errorf("%+v; want one that was not sent", e)
	}
	close(release)
	<-done
}

// TestRefusedTokenIsReplacedOnce has a token refused in the middle of a POST.
func TestRefusedTokenIsReplacedOnce(t *testing.T) {
	t.Parallel()
	refusal := cfError(1000, "CF-InvalidAuthToken", "Invalid Auth Token")
	for name, test := range map[string]struct {
		refusals int
		body     string
		status   int // of the error; 0: none
		posts    int
	}{
		"refused once, the call succeeds":        {1, refusal, 0, 2},
		"refused twice, it is not sent again":    {2, refusal, 401, 2},
		"another 401 is not answered by a login": {1, "<html>login</html>", 401, 1},
		"no token seen is not a refused token":   {1, cfError(10002, "CF-NotAuthenticated", "Authentication error"), 401, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var posts atomic.Int64
			var tokens sync.Map
			s := newStub(t, func(w http.ResponseWriter, r *http.Request) {
				tokens.Store(r.Header.Get("Authorization"), true)
				if posts.Add(1) <= int64(test.refusals) {
					reply(w, 401, test.body)
					return
				}
				fine(w, r)
			})
			err := change(t.Context(), s.client(t, nil), http.MethodPost)
			if (err != nil) != (test.status != 0) || err != nil && failure(t, err).Status != test.status || int(posts.Load()) != test.posts {
				t.Errorf("%v after %d POSTs; want status %d after %d", err, posts.Load(), test.status, test.posts)
			}
			if _, second := tokens.Load("Bearer token-2"); second != (test.posts == 2) {
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
			s := newStub(t, fine)
			s.login = func(_ int64, _ http.ResponseWriter, r *http.Request) bool {
				client, _, _ := r.BasicAuth()
				seen <- [3]string{client, r.PostFormValue("grant_type"), r.PostFormValue("username")}
				return false
			}
			if err := get(t.Context(), s.client(t, test.change)); err != nil {
				t.Fatal(err)
			}
			if got, want := <-seen, [3]string{test.client, test.grant, test.by}; got != want {
				t.Errorf("login %v, want %v", got, want)
			}
		})
	}
}

// TestLifeOfATokenIsBelievedWithinReason: no value of expires_in makes every call log in, nor one token be used after
// its time.
func TestLifeOfATokenIsBelievedWithinReason(t *testing.T) {
	t.Parallel()
	for expires, test := range map[string]struct {
		used  time.Duration // for as long as this it is used, and no longer
		never bool          // it is replaced when it is refused
	}{
		`"expires_in":599,`:                 {589 * time.Second, false},
		`"expires_in":"600",`:               {590 * time.Second, false},
		`"expires_in":12,`:                  {6 * time.Second, false},
		`"expires_in":1,`:                   {500 * time.Millisecond, false},
		`"expires_in":0,`:                   {0, true},
		`"expires_in":-5,`:                  {0, true},
		`"expires_in":9223372036854775807,`: {0, true},
		``:                                  {0, true},
		`"expires_in":null,`:                {0, true},
	} {
		s := newStub(t, fine)
		s.login = func(n int64, w http.ResponseWriter, _ *http.Request) bool {
			reply(w, 200, fmt.Sprintf(`{"access_token":"token-%d",%s"refresh_token":"r","token_type":"bearer"}`, n, expires))
			return true
		}
		clock := newClock()
		c := s.client(t, clock.set)
		logins := func() int64 {
			if err := get(t.Context(), c); err != nil {
				t.Errorf("%s: %v", expires, err)
			}
			return s.logins.Load()
		}
		_ = logins()
		clock.pass(test.used - 1)
		if n := logins(); n != 1 {
			t.Errorf("%s: %d logins before its time", expires, n)
		}
		clock.pass(time.Second)
		want := int64(2)
		if test.never {
			clock.pass(365 * 24 * time.Hour)
			want = 1
		}
		if n := logins(); n != want {
			t.Errorf("%s: %d logins after its time, want %d", expires, n, want)
		}
	}
}

// TestRefusedLoginSaysWhatToLookAt, and nothing of the secret.
func TestRefusedLoginSaysWhatToLookAt(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		status int
		body   string
		want   Advice
	}{
		"a wrong client":      {401, `{"error":"invalid_client","error_description":"Bad credentials"}`, AdviceLogin},
		"a wrong grant":       {400, `{"error":"invalid_grant","error_description":"x"}`, AdviceLogin},
		"a locked account":    {401, `{"error":"unauthorized","error_description":"Your account has been locked because of too many failed attempts to login."}`, AdviceLogin},
		"a limited UAA":       {429, "429 - Too Many Request - Request limited by Rate Limiter configuration", ""},
		"a UAA in backup":     {503, `{"error":"uaa_unavailable","error_description":"UAA intentionally in limited mode, operation not permitted. Please try later."}`, ""},
		"a gateway before it": {502, "<html>", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStub(t, fine)
			s.login = func(_ int64, w http.ResponseWriter, _ *http.Request) bool {
				reply(w, test.status, test.body)
				return true
			}
			err := change(t.Context(), s.client(t, nil), http.MethodPost)
			if e := failure(t, err); e.Advice != test.want || !e.Unsent || !strings.Contains(err.Error(), string(test.want)) {
				t.Errorf("%v; want one that was not sent, and says %q", err, test.want)
			}
			if strings.Contains(err.Error(), "client-secret") {
				t.Errorf("error %v", err)
			}
		})
	}
}

// TestSecretsOfALoginStayInside: the UAA repeats what it was told.
func TestSecretsOfALoginStayInside(t *testing.T) {
	t.Parallel()
	s := newStub(t, hangUp)
	s.login = func(_ int64, w http.ResponseWriter, r *http.Request) bool {
		told, _ := json.Marshal(r.Header.Get("Authorization") + " secret-of-client " + r.PostFormValue("password"))
		reply(w, 400, `{"error":"invalid","error_description":`+string(told)+`,"more":`+string(told)+`}`)
		return true
	}
	c := s.client(t, func(c *Config) { c.ClientSecret, c.Username, c.Password = "secret-of-client", "u", "secret-of-user" })
	if err := get(t.Context(), c); err == nil || strings.Contains(err.Error(), "secret-of") || strings.Contains(err.Error(), "Basic Z") {
		t.Errorf("error %v", err)
	}
}

// TestRootMayBeSparse: where there is no link to the UAA, the one to its login page leads to the same. What else the
// root says, or does not say as documented, does not matter.
func TestRootMayBeSparse(t *testing.T) {
	t.Parallel()
	for root, want := range map[string]bool{
		`{"links":{"self":{"href":"x"},"cloud_controller_v2":null,"cloud_controller_v3":{"href":"x","meta":{"version":"3.1"}},
			"login":{"href":"LOGIN"},"uaa":{"href":"UAA"},"credhub":null,"app_ssh":[7]}}`: true,
		`{"links":{"uaa":{"href":"UAA"}}}`:              true,
		`{"links":{"uaa":null,"login":{"href":"UAA"}}}`: true,
		`{"links":{"uaa":{"href":""},"login":null}}`:    false,
		`{"links":null}`:                        false,
		`{}`:                                    false,
		`<html>`:                                false,
		`{"links":{"uaa":{"href":"mailto:a"}}}`: false,
		`{"links":{"uaa":{"href":"http://u:p@[::1]/"}}}`: false,
	} {
		s := newStub(t, fine)
		api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/" {
				reply(w, 200, strings.NewReplacer("UAA", s.URL+"/uaa", "LOGIN", s.URL+"/uaa").Replace(root))
				return
			}
			s.ServeHTTP(w, r)
		}))
		t.Cleanup(api.Close)
		if err := get(t.Context(), s.client(t, func(c *Config) { c.API = api.URL })); (err == nil) != want {
			t.Errorf("%s: %v; want a login %v", root, err, want)
		}
	}
}

// loginNotes is a server that notes whoever logs in or brings a token.
type loginNotes struct {
	*httptest.Server
	mu    sync.Mutex
	notes []string
}

func newLoginNotes(t *testing.T) *loginNotes {
	t.Helper()
	l := &loginNotes{}
	l.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		l.mu.Lock()
		defer l.mu.Unlock()
		_, secret, _ := r.BasicAuth()
		l.notes = append(l.notes, r.URL.Path+" "+secret+" "+r.Header.Get("Authorization"))
		reply(w, 200, `{"access_token":"t","token_type":"bearer","expires_in":599}`)
	}))
	t.Cleanup(l.Close)
	return l
}

func (l *loginNotes) noted() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Join(l.notes, "\n")
}

// TestSecretsGoToNoUAAInTheClear: an API that is reached by https may not send the client to one on http, and says so.
func TestSecretsGoToNoUAAInTheClear(t *testing.T) {
	t.Parallel()
	uaa := newLoginNotes(t)
	s := newStub(t, fine)
	s.uaa = uaa.URL
	api := httptest.NewTLSServer(s)
	t.Cleanup(api.Close)
	c := s.client(t, func(c *Config) { c.API, c.SkipTLSVerify = api.URL, true })
	for range 3 {
		err := get(t.Context(), c)
		if e := failure(t, err); e.Advice != AdviceUAA || !e.Unsent || !strings.Contains(err.Error(), "https") {
			t.Errorf("%v; want a sentence about https", err)
		}
	}
	if noted := uaa.noted(); noted != "" {
		t.Errorf("the UAA on http was sent %s", noted)
	}
}

// TestRedirectedLoginsAreNotFollowed: neither the client's secret, a user's password nor a token goes where somebody
// points to.
func TestRedirectedLoginsAreNotFollowed(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*Config){
		"as a client": nil,
		"as a user":   func(c *Config) { c.Username, c.Password = "u", "p" },
	} {
		for _, status := range []int{http.StatusFound, http.StatusTemporaryRedirect, http.StatusPermanentRedirect} {
			elsewhere := newLoginNotes(t)
			redirect := func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, elsewhere.URL+r.URL.Path, status) }
			s := newStub(t, redirect)
			s.login = func(n int64, w http.ResponseWriter, r *http.Request) bool {
				if n == 1 {
					redirect(w, r)
				}
				return n == 1
			}
			c := s.client(t, change)
			for range 2 { // the login is redirected, then the call
				if err := get(t.Context(), c); err == nil {
					t.Errorf("%s, %d: a redirect was followed", name, status)
				}
			}
			if noted := elsewhere.noted(); noted != "" {
				t.Errorf("%s, %d: followed to %s", name, status, noted)
			}
		}
	}
}
