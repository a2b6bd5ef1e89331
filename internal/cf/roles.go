package cf

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
)

// spaceRole is the body of a POST of a role.
type spaceRole struct {
	Type          string         `json:"type"`
	Relationships map[string]any `json:"relationships"`
}

// takeRole gives the login the role of a developer in the space and reports whether
// it did not have it before. An org manager may make spaces but not use them
// (cf-contract.md 1.5). It is tried only after a refusal, since an administrator
// needs no role, and its failure leaves that refusal as it is.
func (b *Backend) takeRole(ctx context.Context, space string) bool {
	token, err := b.session.token(ctx, "")
	if err != nil {
		return false
	}
	user := subjectOf(token)
	if user == "" {
		return false
	}
	body, err := json.Marshal(spaceRole{Type: "space_developer", Relationships: map[string]any{
		"user": toOne(user), "space": toOne(space),
	}})
	if err != nil {
		return false
	}
	_, err = b.send(ctx, request{
		method: http.MethodPost, path: "/v3/roles", route: "/v3/roles", body: body,
		what: "take the role of a developer in space " + strconv.Quote(space),
	})
	return err == nil
}

// subjectOf returns the GUID of the user, or the id of the client, that a token
// speaks for: empty when the token cannot be read, which a UAA may choose.
func subjectOf(token string) string {
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return ""
	}
	payload, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		return ""
	}
	var claims struct {
		UserID   string `json:"user_id"`
		ClientID string `json:"client_id"`
	}
	if json.Unmarshal(payload, &claims) != nil {
		return ""
	}
	if claims.UserID != "" {
		return claims.UserID
	}
	return claims.ClientID
}
