package cf

import (
	"errors"
	"net/http"
)

// What an operator should look at when an error is the login's.
const (
	adviceLogin = "look at the client's user and password, or its client id and secret"
	adviceUAA   = "the API is reached by https and names a UAA that is not; the client's secret was not sent there"
	adviceToken = "look whether the API and its UAA belong together, and whether the login still exists"
	adviceRole  = "look at the roles of the login in the org and its spaces"
	adviceOrg   = "look at the name of the org and at the roles of the login in it"
)

// CredentialsRefused reports whether err says that the client's login is at fault:
// the UAA refused it, Cloud Foundry refused its token, it lacks a role, or it does
// not see its org or a space any more. The text of such an error tells what an
// operator should look at. Waiting does not help; putting it right does, without a
// restart.
func CredentialsRefused(err error) bool {
	e, ok := errors.AsType[*Error](err)
	return ok && e.advice != ""
}

// adviceFor returns what to look at after a refusal by Cloud Foundry, or nothing.
func adviceFor(status, code int) string {
	switch {
	case status == http.StatusUnauthorized && code != 0, code == codeInvalidToken, code == codeNotAuthenticated:
		return adviceToken
	case status == http.StatusForbidden && code == codeNotAuthorized:
		return adviceRole
	}
	return ""
}
