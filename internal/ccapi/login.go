package ccapi

import (
	"cmp"
	"context"
	"encoding/base64"
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

	"github.com/ferry-broker/ferry/internal/singleflight"
)

// Claims are what the login's token says of whom it speaks for.
type Claims struct {
	UserID   string   `json:"user_id"`
	ClientID string   `json:"client_id"`
	Scope    []string `json:"scope"`
}

// Subject returns the GUID of the user, or the id of the client; "" where the token does not tell.
func (c Claims) Subject() string { return cmp.Or(c.UserID, c.ClientID) }

// Claims returns what the login's token says. A token that cannot be read, which a UAA may choose, says nothing.
func (c *Client) Claims(ctx context.Context) (Claims, error) {
	g, err := c.session.get(ctx, 0)
	if err != nil {
		return Claims{}, err
	}
	return claimsOf(g.token), nil
}

func claimsOf(token string) (c Claims) {
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return Claims{}
	}
	payload, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil || json.Unmarshal(payload, &c) != nil {
		return Claims{}
	}
	return c
}

// session keeps one access token for all calls. A token is fetched by the first call that needs one; the calls that
// come meanwhile wait for it and share its outcome. A failure is not remembered here: the pause of logins sees to it
// that wrong credentials are tried seldom (a UAA locks accounts).
//
// Refresh tokens are not used, so that none can be refused: when a token has run out, the client or the user logs in
// anew.
type session struct {
	logIn  func(context.Context) (grant, error)
	now    func() time.Time
	logins singleflight.Group

	mu      sync.Mutex
	current grant
	granted int64 // tokens so far
	judged  int64 // the number of the newest token whose refusal was counted, or that needs no counting any more
}

// grant is an access token with the time until which it is used. The zero time is until Cloud Foundry refuses it.
type grant struct {
	token  string
	until  time.Time
	number int64 // from 1, in the order of the logins
}

func (g grant) good(now time.Time) bool {
	return g.token != "" && (g.until.IsZero() || now.Before(g.until))
}

func newSession(logIn func(context.Context) (grant, error), now func() time.Time) *session {
	return &session{logIn: logIn, now: now}
}

// get returns a valid access token that is newer than the one of this number.
func (s *session) get(ctx context.Context, stale int64) (grant, error) {
	for {
		g, err := s.share(ctx, stale)
		if err != nil || g.number > stale {
			return g, err
		}
		// It shared the turn of a call that did not know yet that this token is refused.
	}
}

// share returns the token if it is good and newer than the one of this number, and logs in otherwise; calls that do so
// at the same time share one turn.
func (s *session) share(ctx context.Context, stale int64) (grant, error) {
	if g, ok := s.token(stale); ok {
		return g, nil
	}
	mine := false
	err := s.logins.Do(ctx, func(ctx context.Context) error {
		mine = true
		if _, ok := s.token(stale); ok {
			return nil // a login that ended just before
		}
		g, err := s.logIn(ctx)
		if err != nil {
			return err
		}
		s.grant(g)
		return nil
	})
	switch {
	case err == nil:
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.current, nil
	case !mine && ctx.Err() != nil:
		return grant{}, &Error{Call: "log in", Err: ctx.Err(), Unsent: true}
	}
	return grant{}, err
}

// token returns the token if it is good and newer than the one of this number.
func (s *session) token(stale int64) (grant, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.current, s.current.good(s.now()) && s.current.number > stale
}

func (s *session) grant(g grant) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.granted++
	g.number = s.granted
	s.current = g
}

// accepted notes that Cloud Foundry took the token of this number: the refusal of an older one says nothing any more.
func (s *session) accepted(number int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.judged = max(s.judged, number-1)
}

// refused reports whether the refusal of this token is news. Calls that share a token all see it refused, which is one
// refusal and not many; and that of a token older than one that was taken since is over.
func (s *session) refused(number int64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if number <= s.judged {
		return false
	}
	s.judged = number
	return true
}

// logIn asks the API for its UAA, and the UAA for a token. While logins are held back it fails at once.
func (c *Client) logIn(ctx context.Context) (grant, error) {
	ctx, cancel := c.Bounded(ctx)
	defer cancel()
	began := c.config.Now()
	if err := c.logins.admit("log in", began); err != nil {
		return grant{}, err
	}
	uaa, err := c.tokenServer(ctx)
	if err != nil {
		return grant{}, err
	}
	began = c.config.Now()
	token, err := c.fetchToken(context.WithValue(ctx, oauth2.HTTPClient, c.http), uaa+"/oauth/token")
	now := c.config.Now()
	if err != nil {
		fault := c.loginError(err)
		c.observed(ctx, exchanged{call: "POST /oauth/token", began: began, err: fault, status: fault.Status})
		c.logins.settle(fault, now.Sub(began), now, loginTrouble)
		return grant{}, fault
	}
	c.observed(ctx, exchanged{call: "POST /oauth/token", began: began, status: http.StatusOK})
	c.logins.succeeded(now)
	return grant{token: token.AccessToken, until: usedUntil(token, began)}, nil
}

// rootRow is what the API says of itself, as far as it is needed. Links that it has none for are null.
type rootRow struct {
	Links struct {
		UAA   *Link `json:"uaa"`
		Login *Link `json:"login"`
	} `json:"links"`
}

// tokenServer returns the address of the UAA. It is asked for at each login, so that a UAA may move. What is reached by
// https names none that is not: the client's secret would go there in the clear.
func (c *Client) tokenServer(ctx context.Context) (string, error) {
	const what = "find the token server"
	answer, err := c.exchange(ctx, Request{Method: http.MethodGet, Path: "/", Route: "/", What: what}, "")
	if err != nil {
		return "", AsUnsent(err)
	}
	var root rootRow
	if err := json.Unmarshal(answer.Body, &root); err != nil {
		return "", &Error{Call: what, Status: answer.Status, Err: withoutValue(err), Unsent: true}
	}
	for _, l := range []*Link{root.Links.UAA, root.Links.Login} {
		if l == nil || l.Href == "" {
			continue
		}
		switch u, err := url.Parse(l.Href); {
		case err != nil || u.Host == "" || u.User != nil || (u.Scheme != "https" && u.Scheme != "http"):
			return "", &Error{Call: what, Status: answer.Status, Err: errors.New("the address of the UAA cannot be used"), Unsent: true}
		case u.Scheme == "http" && c.https:
			return "", c.insecure(what)
		}
		return strings.TrimRight(l.Href, "/"), nil
	}
	return "", &Error{Call: what, Status: answer.Status, Err: errors.New("the API names no UAA"), Unsent: true}
}

// insecure is the refusal to log in at a UAA without TLS. Logins pause for it as for any refusal.
func (c *Client) insecure(what string) error {
	e := &Error{Call: what, Title: "the UAA is not reached by https", Advice: AdviceUAA, Unsent: true}
	c.logins.failed(refused, e, c.config.Now())
	return e
}

func (c *Client) fetchToken(ctx context.Context, address string) (*oauth2.Token, error) {
	if c.config.Username == "" {
		asClient := clientcredentials.Config{
			ClientID: c.config.ClientID, ClientSecret: c.config.ClientSecret,
			TokenURL: address, AuthStyle: oauth2.AuthStyleInHeader,
		}
		return asClient.Token(ctx)
	}
	asUser := oauth2.Config{
		ClientID: cmp.Or(c.config.ClientID, "cf"), ClientSecret: c.config.ClientSecret,
		Endpoint: oauth2.Endpoint{TokenURL: address, AuthStyle: oauth2.AuthStyleInHeader},
	}
	return asUser.PasswordCredentialsToken(ctx, c.config.Username, c.config.Password)
}

// loginError keeps what may be told of a refused login. The library's own text holds the whole answer.
func (c *Client) loginError(err error) *Error {
	fault := &Error{Call: "log in", Unsent: true}
	if refusal, ok := errors.AsType[*oauth2.RetrieveError](err); ok {
		fault.Status = refusal.Response.StatusCode
		fault.Title = c.ForLog(refusal.ErrorCode)
		fault.Detail = c.ForLog(refusal.ErrorDescription)
		fault.RetryAfter = retryAfter(refusal.Response.Header, c.config.Now())
		switch fault.Status {
		case http.StatusUnauthorized, http.StatusBadRequest, http.StatusForbidden:
			fault.Advice = AdviceLogin
		}
		return fault
	}
	fault.Err = err
	return fault
}

// longestToken is the longest life of a token that can be meant.
const longestToken = 366 * 24 * time.Hour

// usedUntil returns when a token is replaced: a little before it runs out, and a token that lives shortly after half of
// its life, so that not every call logs in. One that does not say how long it lives, or says what cannot be meant, is
// used until it is refused.
func usedUntil(token *oauth2.Token, fetched time.Time) time.Time {
	var life time.Duration
	switch seconds := token.Extra("expires_in").(type) {
	case float64:
		life = Seconds(seconds, longestToken)
	case string:
		n, _ := strconv.ParseFloat(seconds, 64)
		life = Seconds(n, longestToken)
	}
	if life <= 0 {
		return time.Time{}
	}
	return fetched.Add(life - min(10*time.Second, life/2))
}

// Seconds reads a number of seconds from outside: 0 for what cannot be meant.
func Seconds(seconds float64, longest time.Duration) time.Duration {
	if !(seconds > 0 && seconds <= longest.Seconds()) {
		return 0
	}
	return time.Duration(seconds * float64(time.Second))
}
