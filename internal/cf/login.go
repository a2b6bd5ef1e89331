package cf

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"sync"

	"github.com/cloudfoundry/go-cfclient/v3/resource"
	"golang.org/x/oauth2"
	"golang.org/x/oauth2/clientcredentials"
)

// session keeps one access token for all calls. A token is fetched by the first
// call that needs one; the calls that come meanwhile wait for it and share its
// outcome, so that wrong credentials are not tried once for each of them (a UAA
// locks accounts). A failure is not remembered.
type session struct {
	logIn func(context.Context) (*oauth2.Token, error)

	mu      sync.Mutex
	current *oauth2.Token
	running *attempt
}

// attempt is one login that is under way; token and err are set before done closes.
type attempt struct {
	done  chan struct{}
	token *oauth2.Token
	err   error
}

func newSession(logIn func(context.Context) (*oauth2.Token, error)) *session {
	return &session{logIn: logIn}
}

// token returns a valid access token that is not the stale one.
func (s *session) token(ctx context.Context, stale string) (string, error) {
	for {
		current, a, mine := s.join(stale)
		if current != "" {
			return current, nil
		}
		if mine {
			s.run(ctx, a)
		}
		select {
		case <-a.done:
		case <-ctx.Done():
			return "", &Error{Call: "log in", Err: ctx.Err(), unsent: true}
		}
		if a.err == nil {
			return a.token.AccessToken, nil
		}
		// Another caller's login that ended with that caller's own time says nothing.
		if mine || !endedByContext(a.err) || ctx.Err() != nil {
			return "", a.err
		}
	}
}

// join returns the token if it is good, else the running attempt, or a new one
// that the caller has to run.
func (s *session) join(stale string) (current string, a *attempt, mine bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.current.Valid() && s.current.AccessToken != stale {
		return s.current.AccessToken, nil, false
	}
	if s.running != nil {
		return "", s.running, false
	}
	s.running = &attempt{done: make(chan struct{})}
	return "", s.running, true
}

func (s *session) run(ctx context.Context, a *attempt) {
	a.token, a.err = s.logIn(ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	if a.err == nil {
		s.current = a.token
	}
	s.running = nil
	close(a.done)
}

func endedByContext(err error) bool {
	return errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}

// logIn asks the API for its UAA, and the UAA for a token. It stands in for
// go-cfclient's config.New, which does both with a context of its own (trap 1 of
// its list in cf-contract.md 4.1).
func (b *Backend) logIn(ctx context.Context) (*oauth2.Token, error) {
	ctx, cancel := b.bounded(ctx)
	defer cancel()
	uaa, err := b.tokenServer(ctx)
	if err != nil {
		return nil, err
	}
	began := b.config.Now()
	token, err := b.fetchToken(context.WithValue(ctx, oauth2.HTTPClient, b.http), uaa+"/oauth/token")
	if err != nil {
		fault := b.loginError(err)
		b.observed(ctx, exchanged{call: "POST /oauth/token", began: began, err: fault, status: fault.Status})
		return nil, fault
	}
	b.observed(ctx, exchanged{call: "POST /oauth/token", began: began, status: http.StatusOK})
	return token, nil
}

func (b *Backend) fetchToken(ctx context.Context, address string) (*oauth2.Token, error) {
	if b.config.Username == "" {
		c := clientcredentials.Config{
			ClientID: b.config.ClientID, ClientSecret: b.config.ClientSecret,
			TokenURL: address, AuthStyle: oauth2.AuthStyleInHeader,
		}
		return c.Token(ctx)
	}
	c := oauth2.Config{
		ClientID: b.config.ClientID, ClientSecret: b.config.ClientSecret,
		Endpoint: oauth2.Endpoint{TokenURL: address, AuthStyle: oauth2.AuthStyleInHeader},
	}
	if c.ClientID == "" {
		c.ClientID = "cf"
	}
	return c.PasswordCredentialsToken(ctx, b.config.Username, b.config.Password)
}

// tokenServer returns the address of the UAA. It is asked for at each login, so
// that a UAA may move.
func (b *Backend) tokenServer(ctx context.Context) (string, error) {
	answer, err := b.exchange(ctx, request{method: http.MethodGet, path: "/", route: "/", what: "find the token server"}, "")
	if err != nil {
		return "", unsent(err)
	}
	var root resource.Root
	if err := json.Unmarshal(answer.body, &root); err != nil || root.Links.Uaa.Href == "" {
		return "", &Error{Call: "find the token server", Status: answer.status, Err: errors.New("the API names no UAA"), unsent: true}
	}
	return strings.TrimRight(root.Links.Uaa.Href, "/"), nil
}

// loginError keeps what may be told of a refused login. The library's own text
// holds the whole answer.
func (b *Backend) loginError(err error) *Error {
	fault := &Error{Call: "log in", unsent: true}
	if refused, ok := errors.AsType[*oauth2.RetrieveError](err); ok {
		fault.Status = refused.Response.StatusCode
		fault.Title = b.logText(refused.ErrorCode)
		fault.Detail = b.logText(refused.ErrorDescription)
		fault.RetryAfter = retryAfter(refused.Response.Header, b.config.Now())
		if fault.Status == http.StatusUnauthorized || fault.Status == http.StatusBadRequest {
			fault.advice = adviceLogin
		}
		return fault
	}
	fault.Err = err
	return fault
}
