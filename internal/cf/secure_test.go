package cf

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/ferry-broker/ferry/internal/lifecycle"
)

// listening notes whoever logs in or brings a token.
type listening struct {
	mu     sync.Mutex
	logins []string
}

func (l *listening) note(r *http.Request) {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, secret, _ := r.BasicAuth()
	l.logins = append(l.logins, r.URL.Path+" "+secret+" "+r.Header.Get("Authorization"))
}

func (l *listening) heard() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Join(l.logins, "\n")
}

// TestSecretsGoToNoUAAInTheClear [24]: an API that is reached by https may not send the
// client to one on http, and says so.
func TestSecretsGoToNoUAAInTheClear(t *testing.T) {
	t.Parallel()
	var l listening
	uaa := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		l.note(r)
		reply(w, 200, `{"access_token":"t","token_type":"bearer","expires_in":599}`)
	}))
	t.Cleanup(uaa.Close)
	s := newStub(t, busyCloud)
	s.uaa = uaa.URL
	api := httptest.NewTLSServer(s)
	t.Cleanup(api.Close)
	b := s.backend(t, func(c *Config) { c.API, c.SkipTLSVerify = api.URL, true })
	for range 3 {
		_, err := b.Job(t.Context(), "j")
		if err == nil || !CredentialsRefused(err) || !strings.Contains(err.Error(), "https") {
			t.Errorf("%v; want a sentence about https", err)
		}
	}
	if heard := l.heard(); heard != "" {
		t.Errorf("the UAA on http was sent %s", heard)
	}
	if answer, _ := b.DeleteInstance(t.Context(), "g"); answer.Reply != lifecycle.ReplyBusy || answer.Description == "" {
		t.Errorf("a change meanwhile: %+v; want busy, with the reason", answer)
	}
}

// TestRedirectedLoginsAreNotFollowed [24]: neither the client's secret, a user's password
// nor a token goes where somebody points to.
func TestRedirectedLoginsAreNotFollowed(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*Config){
		"as a client": func(*Config) {},
		"as a user":   func(c *Config) { c.Username, c.Password = "u", "p" },
	} {
		for _, status := range []int{http.StatusFound, http.StatusTemporaryRedirect, http.StatusPermanentRedirect} {
			var l listening
			elsewhere := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { l.note(r) }))
			g := newGate(t, func(w http.ResponseWriter, r *http.Request) {
				http.Redirect(w, r, elsewhere.URL+r.URL.Path, status)
			}, func(n int64, w http.ResponseWriter, r *http.Request) bool {
				if n == 1 {
					http.Redirect(w, r, elsewhere.URL+r.URL.Path, status)
				}
				return n == 1
			})
			b := g.backend(t, change)
			for range 2 { // the login is redirected, then the call
				if _, err := b.Job(t.Context(), "j"); err == nil {
					t.Errorf("%s, %d: a redirect was followed", name, status)
				}
			}
			elsewhere.Close()
			if heard := l.heard(); heard != "" {
				t.Errorf("%s, %d: followed to %s", name, status, heard)
			}
		}
	}
}
