package cfsim

import (
	"net/http"
	"strings"
)

// Routes of the UAA beside the one for tokens.
const (
	uaaPrefix   = "/uaa/"
	loginRoute  = "/uaa/login"
	infoRoute   = "/uaa/info"
	clientRoute = "/uaa/oauth/clients/:guid"
)

// getLogin tells clients what to ask people for; browsers get a page.
func (s *Simulator) getLogin(c *call) (*answer, error) {
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
		"timestamp":      s.options.Now().UTC().Format("2006-01-02T15:04:05-0700"),
	})
}

// getClient tells who asks with a token whether there is a client.
func (s *Simulator) getClient(c *call) (*answer, error) {
	_, token, _ := strings.Cut(c.request.Header.Get("Authorization"), " ")
	if token == "" {
		return uaaError(http.StatusUnauthorized, "unauthorized", "Full authentication is required to access this resource")
	}
	if _, err := s.tokens.parse(strings.TrimSpace(token), accessToken); err != nil {
		return uaaError(http.StatusUnauthorized, "invalid_token", "The token expired, was revoked, or the token ID is incorrect.")
	}
	grants := map[string][]string{"ferry": {"client_credentials"}, "cf": {"password", "refresh_token"}}[c.guid]
	if grants == nil {
		return uaaError(http.StatusNotFound, "invalid_client", "No client with requested id: "+c.guid)
	}
	return jsonAnswer(http.StatusOK, map[string]any{"client_id": c.guid, "authorized_grant_types": grants, "scope": []string{"uaa.none"}})
}
