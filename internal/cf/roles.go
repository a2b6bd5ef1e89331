package cf

import (
	"cmp"
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
// (docs/cf-contract.md 1.5). It is tried only after a refusal, since an administrator
// needs no role, and its failure leaves that refusal as it is.
func (b *Backend) takeRole(ctx context.Context, space string) bool {
	token, err := b.session.token(ctx, "")
	if err != nil {
		return false
	}
	user := claimsOf(token).subject()
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

// roleIsMissing tries to cure a refusal for want of a role on something of the
// instance, and reports whether it did. It takes two calls: which space it is, and
// the role.
func (b *Backend) roleIsMissing(ctx context.Context, err error, instanceGUID string) bool {
	if !isCode(err, codeNotAuthorized) {
		return false
	}
	row, _, err := b.instance(ctx, instanceGUID)
	space := spaceOf(row)
	return err == nil && space != "" && b.takeRole(ctx, space)
}

// claims is what a token says of whom it speaks for.
type claims struct {
	UserID   string   `json:"user_id"`
	ClientID string   `json:"client_id"`
	Scope    []string `json:"scope"`
}

// claimsOf reads a token: nothing when it cannot be read, which a UAA may choose.
func claimsOf(token string) (c claims) {
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return claims{}
	}
	payload, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil || json.Unmarshal(payload, &c) != nil {
		return claims{}
	}
	return c
}

// subject returns the GUID of the user, or the id of the client.
func (c claims) subject() string { return cmp.Or(c.UserID, c.ClientID) }
