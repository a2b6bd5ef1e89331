package cfsim

import (
	"cmp"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

const tokenRoute = "/uaa/oauth/token"

// login is somebody who may ask for tokens.
type login struct {
	subject string // GUID of the user, or the client's id
	client  string
	user    string
	scope   []string
}

func clientLogin(id string) login {
	return login{subject: id, client: id, scope: []string{adminScope, "cloud_controller.read", "cloud_controller.write"}}
}

func userLogin(name string) login {
	l := clientLogin("cf")
	l.subject, l.user = fixedGUID("user", name), name
	l.scope = append(l.scope, "openid")
	return l
}

// adminScope makes an administrator.
const adminScope = "cloud_controller.admin"

// permitted takes the scope of an administrator from a login that the control
// has made less than that.
func (s *Simulator) permitted(l login) login {
	s.mu.Lock()
	defer s.mu.Unlock()
	held, limited := s.conditions.Permissions[cmp.Or(l.user, l.client)]
	if limited && held != permitAdmin {
		l.scope = slices.DeleteFunc(slices.Clone(l.scope), func(scope string) bool { return scope == adminScope })
	}
	return l
}

// narrowed returns the login with the scopes of a request only; ok is false when
// it does not have them.
func (l login) narrowed(scopes string) (narrow login, ok bool) {
	if scopes == "" {
		return l, true
	}
	wanted := strings.Fields(scopes)
	for _, scope := range wanted {
		if !slices.Contains(l.scope, scope) {
			return l, false
		}
	}
	l.scope = wanted
	return l, true
}

func invalidScope() (*answer, error) {
	return uaaError(http.StatusBadRequest, "invalid_scope", "The scopes asked for are not among those of the login.")
}

// uaaAnswer is what a successful login returns.
type uaaAnswer struct {
	AccessToken  string `json:"access_token"`
	TokenType    string `json:"token_type"`
	RefreshToken string `json:"refresh_token,omitempty"`
	ExpiresIn    int    `json:"expires_in"`
	Scope        string `json:"scope"`
	ID           string `json:"jti"`
}

func (s *Simulator) getToken(*call) (*answer, error) {
	return uaaError(http.StatusMethodNotAllowed, "method_not_allowed", "Request method 'GET' not supported")
}

// postToken is the token endpoint of a UAA that knows the client ferry, and
// the user admin through the client cf.
func (s *Simulator) postToken(c *call) (*answer, error) {
	form, err := url.ParseQuery(string(c.body))
	if err != nil {
		return uaaError(http.StatusBadRequest, "invalid_request", "The request body is not a form")
	}
	client, ok := clientOf(c.request, form)
	if !ok {
		return badCredentials()
	}
	switch grant := form.Get("grant_type"); grant {
	case "":
		return uaaError(http.StatusBadRequest, "invalid_request", "Missing grant type")
	case "client_credentials":
		return s.clientGrant(client, form)
	case "password":
		return s.passwordGrant(client, form)
	case "refresh_token":
		return s.refreshGrant(client, form)
	default:
		return uaaError(http.StatusBadRequest, "unsupported_grant_type", "Unsupported grant type: "+grant)
	}
}

// clientOf checks the client's own credentials, sent as Basic or in the form.
// A UAA decodes the two parts of Basic like parts of a form.
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

func (s *Simulator) clientGrant(client string, form url.Values) (*answer, error) {
	if client != "ferry" {
		return unauthorizedGrant()
	}
	who, ok := s.permitted(clientLogin(client)).narrowed(form.Get("scope"))
	if !ok {
		return invalidScope()
	}
	return s.granted(who, "")
}

func (s *Simulator) passwordGrant(client string, form url.Values) (*answer, error) {
	if client != "cf" {
		return unauthorizedGrant()
	}
	if form.Get("username") != "admin" || form.Get("password") != "admin" {
		return badCredentials()
	}
	who, ok := s.permitted(userLogin("admin")).narrowed(form.Get("scope"))
	if !ok {
		return invalidScope()
	}
	refresh, _ := s.tokens.issue(who, refreshToken, refreshValidity)
	return s.granted(who, refresh)
}

func (s *Simulator) refreshGrant(client string, form url.Values) (*answer, error) {
	if client != "cf" {
		return unauthorizedGrant()
	}
	refresh := form.Get("refresh_token")
	c, err := s.tokens.parse(refresh, refreshToken)
	if err != nil {
		return uaaError(http.StatusUnauthorized, "invalid_token", "The token expired, was revoked, or the token ID is incorrect.")
	}
	who := userLogin(c.User)
	who.scope = c.Scope
	who = s.permitted(who)
	who, ok := who.narrowed(form.Get("scope"))
	if !ok {
		return invalidScope()
	}
	return s.granted(who, refresh)
}

func (s *Simulator) granted(who login, refresh string) (*answer, error) {
	access, id := s.tokens.issue(who, accessToken, accessValidity)
	result := uaaAnswer{
		AccessToken: access, TokenType: "bearer", RefreshToken: refresh, ID: id,
		ExpiresIn: int(accessValidity.Seconds()) - 1, // a UAA counts from before it signed
	}
	for i, scope := range who.scope {
		if i > 0 {
			result.Scope += " "
		}
		result.Scope += scope
	}
	return jsonAnswer(http.StatusOK, result)
}

func badCredentials() (*answer, error) {
	a, err := uaaError(http.StatusUnauthorized, "invalid_client", "Bad credentials")
	if err == nil {
		a.header.Set("Www-Authenticate", `Basic realm="UAA/client", error="unauthorized", error_description="Bad credentials"`)
	}
	return a, err
}

func unauthorizedGrant() (*answer, error) {
	return uaaError(http.StatusUnauthorized, "invalid_client", "Unauthorized grant type")
}

func uaaError(status int, name, description string) (*answer, error) {
	return jsonAnswer(status, map[string]string{"error": name, "error_description": description})
}
