package cf

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/oauth2"
	"golang.org/x/oauth2/clientcredentials"
)

// session keeps one access token for all calls. A token is fetched by the first
// call that needs one; the calls that come meanwhile wait for it and share its
// outcome. A failure is not remembered here: the pause of logins sees to it that wrong
// credentials are tried seldom (a UAA locks accounts).
//
// Refresh tokens are not used, so that none can be refused: when a token has run out,
// the client or the user logs in anew.
type session struct {
	logIn func(context.Context) (grant, error)
	now   func() time.Time

	mu      sync.Mutex
	current grant
	running *attempt
}

// grant is an access token with the time until which it is used. The zero time is
// until Cloud Foundry refuses it.
type grant struct {
	token string
	until time.Time
}

func (g grant) good(now time.Time) bool {
	return g.token != "" && (g.until.IsZero() || now.Before(g.until))
}

// attempt is one login that is under way; grant and err are set before done closes.
type attempt struct {
	done  chan struct{}
	grant grant
	err   error
}

func newSession(logIn func(context.Context) (grant, error), now func() time.Time) *session {
	return &session{logIn: logIn, now: now}
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
			return a.grant.token, nil
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
	if s.current.good(s.now()) && s.current.token != stale {
		return s.current.token, nil, false
	}
	if s.running != nil {
		return "", s.running, false
	}
	s.running = &attempt{done: make(chan struct{})}
	return "", s.running, true
}

func (s *session) run(ctx context.Context, a *attempt) {
	a.grant, a.err = s.logIn(ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	if a.err == nil {
		s.current = a.grant
	}
	s.running = nil
	close(a.done)
}

func endedByContext(err error) bool {
	return errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}

// logIn asks the API for its UAA, and the UAA for a token. It stands in for
// go-cfclient's config.New, which does both with a context of its own (docs/cf-contract.md 4.1). While logins are held back it fails at once.
func (b *Backend) logIn(ctx context.Context) (grant, error) {
	ctx, cancel := b.bounded(ctx)
	defer cancel()
	began := b.config.Now()
	if err := b.logins.admit("log in", began); err != nil {
		return grant{}, err
	}
	uaa, err := b.tokenServer(ctx)
	if err != nil {
		return grant{}, err
	}
	began = b.config.Now()
	token, err := b.fetchToken(context.WithValue(ctx, oauth2.HTTPClient, b.http), uaa+"/oauth/token")
	now := b.config.Now()
	if err != nil {
		fault := b.loginError(err)
		b.observed(ctx, exchanged{call: "POST /oauth/token", began: began, err: fault, status: fault.Status})
		b.logins.settle(fault, now.Sub(began), now, loginTrouble)
		return grant{}, fault
	}
	b.observed(ctx, exchanged{call: "POST /oauth/token", began: began, status: http.StatusOK})
	b.logins.succeeded(now)
	return grant{token: token.AccessToken, until: usedUntil(token, began)}, nil
}

// longestToken is the longest life of a token that can be meant.
const longestToken = 366 * 24 * time.Hour

// usedUntil returns when a token is replaced: a little before it runs out, and a token
// that lives shortly after half of its life, so that not every call logs in. One that
// does not say how long it lives, or says what cannot be meant, is used until it is
// refused.
func usedUntil(token *oauth2.Token, fetched time.Time) time.Time {
	var life time.Duration
	switch seconds := token.Extra("expires_in").(type) {
	case float64:
		life = secondsOf(seconds, longestToken)
	case string:
		n, _ := strconv.ParseFloat(seconds, 64)
		life = secondsOf(n, longestToken)
	}
	if life <= 0 {
		return time.Time{}
	}
	return fetched.Add(life - min(10*time.Second, life/2))
}

// secondsOf reads a number of seconds from outside: 0 for what cannot be meant.
func secondsOf(seconds float64, longest time.Duration) time.Duration {
	if !(seconds > 0 && seconds <= longest.Seconds()) {
		return 0
	}
	return time.Duration(seconds * float64(time.Second))
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

// rootRow is what the API says of itself, as far as it is needed. Links that it has
// none for are null.
type rootRow struct {
	Links struct {
		UAA   *link `json:"uaa"`
		Login *link `json:"login"`
	} `json:"links"`
}

// tokenServer returns the address of the UAA. It is asked for at each login, so
// that a UAA may move. What is reached by https names none that is not: the client's
// secret would go there in the clear.
func (b *Backend) tokenServer(ctx context.Context) (string, error) {
	const what = "find the token server"
	answer, err := b.exchange(ctx, request{method: http.MethodGet, path: "/", route: "/", what: what}, "")
	if err != nil {
		return "", unsent(err)
	}
	var root rootRow
	if err := json.Unmarshal(answer.body, &root); err != nil {
		return "", &Error{Call: what, Status: answer.status, Err: withoutValue(err), unsent: true}
	}
	for _, l := range []*link{root.Links.UAA, root.Links.Login} {
		if l == nil || l.Href == "" {
			continue
		}
		switch u, err := url.Parse(l.Href); {
		case err != nil || u.Host == "" || u.User != nil || (u.Scheme != "https" && u.Scheme != "http"):
			return "", &Error{Call: what, Status: answer.status, Err: errors.New("the address of the UAA cannot be used"), unsent: true}
		case u.Scheme == "http" && strings.HasPrefix(b.home, "https:"):
			return "", b.insecure(what)
		}
		return strings.TrimRight(l.Href, "/"), nil
	}
	return "", &Error{Call: what, Status: answer.status, Err: errors.New("the API names no UAA"), unsent: true}
}

// insecure is the refusal to log in at a UAA without TLS. Logins pause for it as for any
// refusal.
func (b *Backend) insecure(what string) error {
	e := &Error{Call: what, Title: "the UAA is not reached by https", advice: adviceUAA, unsent: true}
	b.logins.failed(refused, e, b.config.Now())
	return e
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
		switch fault.Status {
		case http.StatusUnauthorized, http.StatusBadRequest, http.StatusForbidden:
			fault.advice = adviceLogin
		}
		return fault
	}
	fault.Err = err
	return fault
}
