package cfsim

import (
	"cmp"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"time"
)

// Routes of the UAA.
const (
	uaaPrefix   = "/uaa/"
	tokenRoute  = "/uaa/oauth/token"
	loginRoute  = "/uaa/login"
	infoRoute   = "/uaa/info"
	clientRoute = "/uaa/oauth/clients/:guid"
)

// postToken is the token endpoint of a UAA that knows the client ferry, and the user admin through the client cf.
func postToken(c *call) (*answer, error) {
	form, err := url.ParseQuery(string(c.body))
	if err != nil {
		return nil, &uaaError{http.StatusBadRequest, "invalid_request", "The request body is not a form"}
	}
	client, ok := clientOf(c.request, form)
	if !ok {
		return nil, badCredentials()
	}
	switch grant := form.Get("grant_type"); grant {
	case "":
		return nil, &uaaError{http.StatusBadRequest, "invalid_request", "Missing grant type"}
	case "client_credentials":
		return clientGrant(c, client, form)
	case "password":
		return passwordGrant(c, client, form)
	case "refresh_token":
		return refreshGrant(c, client, form)
	default:
		return nil, &uaaError{http.StatusBadRequest, "unsupported_grant_type", "Unsupported grant type: " + grant}
	}
}

// clientOf checks the client's own credentials, sent as Basic or in the form. A UAA decodes the two parts of Basic like
// parts of a form.
func clientOf(r *http.Request, form url.Values) (string, bool) {
	id, secret, basic := r.BasicAuth()
	if basic {
		id, secret = unescape(id), unescape(secret)
	} else {
		id, secret = form.Get("client_id"), form.Get("client_secret")
	}
	switch id {
	case "ferry":
		return id, secret == "ferry"
	case "cf":
		return id, secret == ""
	}
	return "", false
}

func clientGrant(c *call, client string, form url.Values) (*answer, error) {
	if client != "ferry" {
		return nil, unauthorizedGrant()
	}
	who, err := c.permitted(clientLogin(client)).narrowed(form.Get("scope"))
	if err != nil {
		return nil, err
	}
	return granted(c, who, ""), nil
}

func passwordGrant(c *call, client string, form url.Values) (*answer, error) {
	if client != "cf" {
		return nil, unauthorizedGrant()
	}
	if form.Get("username") != "admin" || form.Get("password") != "admin" {
		return nil, badCredentials()
	}
	who, err := c.permitted(userLogin("admin")).narrowed(form.Get("scope"))
	if err != nil {
		return nil, err
	}
	refresh, _ := c.tokens.issue(who, refreshToken, refreshValidity)
	return granted(c, who, refresh), nil
}

func refreshGrant(c *call, client string, form url.Values) (*answer, error) {
	if client != "cf" {
		return nil, unauthorizedGrant()
	}
	refresh := form.Get("refresh_token")
	of, err := c.tokens.parse(refresh, refreshToken)
	if err != nil {
		return nil, revokedToken()
	}
	who := userLogin(of.User)
	who.scope = of.Scope
	who, err = c.permitted(who).narrowed(form.Get("scope"))
	if err != nil {
		return nil, err
	}
	return granted(c, who, refresh), nil
}

// tokenAnswer is what a successful login returns.
type tokenAnswer struct {
	AccessToken  string `json:"access_token"`
	TokenType    string `json:"token_type"`
	RefreshToken string `json:"refresh_token,omitempty"`
	ExpiresIn    int    `json:"expires_in"`
	Scope        string `json:"scope"`
	ID           string `json:"jti"`
}

func granted(c *call, who login, refresh string) *answer {
	access, id := c.tokens.issue(who, accessToken, accessValidity)
	return jsonAnswer(http.StatusOK, tokenAnswer{
		AccessToken: access, TokenType: "bearer", RefreshToken: refresh, ID: id, Scope: strings.Join(who.scope, " "),
		ExpiresIn: int(accessValidity.Seconds()) - 1, // a UAA counts from before it signed
	})
}

// login is somebody who may ask for tokens.
type login struct {
	subject string // GUID of the user, or the client's id
	client  string
	user    string
	scope   []string
}

// adminScope makes an administrator.
const adminScope = "cloud_controller.admin"

func clientLogin(id string) login {
	return login{subject: id, client: id, scope: []string{adminScope, "cloud_controller.read", "cloud_controller.write"}}
}

func userLogin(name string) login {
	l := clientLogin("cf")
	l.subject, l.user = fixedGUID("user", name), name
	l.scope = append(l.scope, "openid")
	return l
}

// permitted takes the scope of an administrator from a login that the control has made less than that.
func (cc *controller) permitted(l login) login {
	held, limited := cc.conditions.Permissions[cmp.Or(l.user, l.client)]
	if limited && held != permitAdmin {
		l.scope = slices.DeleteFunc(slices.Clone(l.scope), func(scope string) bool { return scope == adminScope })
	}
	return l
}

// narrowed returns the login with the scopes of a request only, which have to be among those that it has.
func (l login) narrowed(scopes string) (login, error) {
	if scopes == "" {
		return l, nil
	}
	wanted := strings.Fields(scopes)
	for _, scope := range wanted {
		if !slices.Contains(l.scope, scope) {
			return l, &uaaError{http.StatusBadRequest, "invalid_scope", "The scopes asked for are not among those of the login."}
		}
	}
	l.scope = wanted
	return l, nil
}

// uaaError is an answer of the UAA that reports an error.
type uaaError struct {
	status            int
	name, description string
}

// Error is the UAA's name of the error with its description.
func (e *uaaError) Error() string { return e.name + ": " + e.description }

func (e *uaaError) answer() *answer {
	a := jsonAnswer(e.status, map[string]string{"error": e.name, "error_description": e.description}).encoded()
	if *e == *badCredentials() {
		a.header.Set("Www-Authenticate", `Basic realm="UAA/client", error="unauthorized", error_description="Bad credentials"`)
	}
	return a
}

func badCredentials() *uaaError {
	return &uaaError{http.StatusUnauthorized, "invalid_client", "Bad credentials"}
}

func unauthorizedGrant() *uaaError {
	return &uaaError{http.StatusUnauthorized, "invalid_client", "Unauthorized grant type"}
}

func revokedToken() *uaaError {
	return &uaaError{http.StatusUnauthorized, "invalid_token", "The token expired, was revoked, or the token ID is incorrect."}
}

func getToken(*call) (*answer, error) {
	return nil, &uaaError{http.StatusMethodNotAllowed, "method_not_allowed", "Request method 'GET' not supported"}
}

// getLogin tells clients what to ask people for; browsers get a page.
func getLogin(c *call) (*answer, error) {
	if strings.Contains(c.request.Header.Get("Accept"), "text/html") {
		return newAnswer(http.StatusOK, "text/html;charset=UTF-8", []byte("<!DOCTYPE html><html><head><title>Login</title></head><body>Log in with a client of Cloud Foundry.</body></html>")), nil
	}
	return jsonAnswer(http.StatusOK, map[string]any{
		"app":            map[string]string{"version": "77.20.0"},
		"showLoginLinks": true,
		"links":          map[string]string{"uaa": c.base + "/uaa", "login": c.base + "/uaa", "passwd": "/forgot_password", "register": "/create_account"},
		"zone_name":      "uaa",
		"entityID":       "cfsim",
		"commit_id":      "cfsim",
		"idpDefinitions": map[string]string{},
		"prompts":        map[string][]string{"username": {"text", "Email"}, "password": {"password", "Password"}},
		"timestamp":      c.now().UTC().Format("2006-01-02T15:04:05-0700"),
	}), nil
}

// getClient tells who asks with a token whether there is a client.
func getClient(c *call) (*answer, error) {
	_, token, _ := strings.Cut(c.request.Header.Get("Authorization"), " ")
	if token == "" {
		return nil, &uaaError{http.StatusUnauthorized, "unauthorized", "Full authentication is required to access this resource"}
	}
	if _, err := c.tokens.parse(strings.TrimSpace(token), accessToken); err != nil {
		return nil, revokedToken()
	}
	grants := map[string][]string{"ferry": {"client_credentials"}, "cf": {"password", "refresh_token"}}[c.guid]
	if grants == nil {
		return nil, &uaaError{http.StatusNotFound, "invalid_client", "No client with requested id: " + c.guid}
	}
	return jsonAnswer(http.StatusOK, map[string]any{"client_id": c.guid, "authorized_grant_types": grants, "scope": []string{"uaa.none"}}), nil
}

// authenticate finds out who sends a request, and refuses tokens that a route does not take.
func (c *call) authenticate(a access) error {
	header := c.request.Header.Get("Authorization")
	switch {
	case a == open, a == optional && header == "":
		return nil
	case header == "":
		return notAuthenticated()
	}
	scheme, token, _ := strings.Cut(header, " ")
	subject, err := c.tokens.subject(strings.TrimSpace(token), accessToken)
	if err != nil || !strings.EqualFold(scheme, "bearer") {
		return invalidToken()
	}
	c.caller = subject
	return nil
}

// How long tokens are good for.
const (
	accessValidity  = 20 * time.Minute
	refreshValidity = 30 * 24 * time.Hour
)

// tokenKind keeps a refresh token from passing as an access token.
type tokenKind string

const (
	accessToken  tokenKind = "access"
	refreshToken tokenKind = "refresh"
)

// tokenIssuer signs tokens instead of keeping them, so that any number of logins costs no memory. Raising a generation
// makes all of its kind invalid.
type tokenIssuer struct {
	now     func() time.Time
	random  *randomness
	key     []byte
	access  atomic.Int64 // generation of access tokens
	refresh atomic.Int64 // and of refresh tokens
}

func (t *tokenIssuer) generation(kind tokenKind) *atomic.Int64 {
	if kind == refreshToken {
		return &t.refresh
	}
	return &t.access
}

type claims struct {
	ID         string    `json:"jti"`
	Subject    string    `json:"sub"`
	Client     string    `json:"client_id"`
	User       string    `json:"user_name,omitempty"`
	UserID     string    `json:"user_id,omitempty"`
	Email      string    `json:"email,omitempty"`
	Origin     string    `json:"origin,omitempty"`
	Grant      string    `json:"grant_type"`
	Authorized string    `json:"azp"`
	Issued     int64     `json:"iat"`
	Zone       string    `json:"zid"`
	Audience   []string  `json:"aud"`
	Scope      []string  `json:"scope"`
	Kind       tokenKind `json:"kind"`
	Generation int64     `json:"generation"`
	Expires    int64     `json:"exp"`
}

func newTokenIssuer(now func() time.Time, random *randomness) *tokenIssuer {
	return &tokenIssuer{now: now, random: random, key: random.bytes(32)}
}

// issue returns a signed token and its id.
func (t *tokenIssuer) issue(who login, kind tokenKind, validity time.Duration) (token, id string) {
	c := claims{
		ID: t.random.guid(), Subject: who.subject, Client: who.client, User: who.user,
		Audience: audience(who), Scope: who.scope, Kind: kind,
		Generation: t.generation(kind).Load(), Expires: t.now().Add(validity).Unix(),
		Grant: "client_credentials", Authorized: who.client, Issued: t.now().Unix(), Zone: "uaa",
	}
	if who.user != "" {
		c.UserID, c.Email, c.Origin, c.Grant = who.subject, who.user, origin, "password"
	}
	payload, _ := json.Marshal(c) // strings and numbers only
	encode := base64.RawURLEncoding.EncodeToString
	signed := encode([]byte(`{"alg":"HS256","typ":"JWT"}`)) + "." + encode(payload)
	return signed + "." + encode(t.sign(signed)), c.ID
}

func (t *tokenIssuer) sign(text string) []byte {
	mac := hmac.New(sha256.New, t.key)
	mac.Write([]byte(text))
	return mac.Sum(nil)
}

var errToken = errors.New("token is not valid")

func (t *tokenIssuer) parse(token string, kind tokenKind) (claims, error) {
	dot := strings.LastIndexByte(token, '.')
	if dot < 0 {
		return claims{}, errToken
	}
	signature, err := base64.RawURLEncoding.DecodeString(token[dot+1:])
	if err != nil || !hmac.Equal(signature, t.sign(token[:dot])) {
		return claims{}, errToken
	}
	_, encoded, _ := strings.Cut(token[:dot], ".")
	payload, err := base64.RawURLEncoding.DecodeString(encoded)
	if err != nil {
		return claims{}, errToken
	}
	var c claims
	if err := json.Unmarshal(payload, &c); err != nil {
		return claims{}, errToken
	}
	if c.Kind != kind || c.Generation != t.generation(kind).Load() || c.Expires <= t.now().Unix() {
		return claims{}, errToken
	}
	return c, nil
}

// subject returns whom a token speaks for, or an error when it is not one of ours, of another kind, expired, withdrawn,
// or not meant for the Cloud Controller.
func (t *tokenIssuer) subject(token string, kind tokenKind) (string, error) {
	c, err := t.parse(token, kind)
	if err == nil && !slices.Contains(c.Audience, "cloud_controller") {
		err = errToken
	}
	return c.Subject, err
}

// expire makes every token of these kinds that was handed out so far invalid.
func (t *tokenIssuer) expire(kinds ...tokenKind) {
	for _, kind := range kinds {
		t.generation(kind).Add(1)
	}
}

// audience are the components that a token is meant for: those that its scopes name, and the client itself.
func audience(who login) []string {
	var names []string
	for _, scope := range append(slices.Clone(who.scope), who.client) {
		name := scope
		if dot := strings.LastIndexByte(scope, '.'); dot >= 0 {
			name = scope[:dot]
		}
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}
