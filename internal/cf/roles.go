package cf

import (
	"context"
	"encoding/json"
	"net/http"
	"strconv"

	"github.com/ferry-broker/ferry/internal/ccapi"
)

// spaceRole is the body of a POST of a role.
type spaceRole struct {
	Type          string         `json:"type"`
	Relationships map[string]any `json:"relationships"`
}

// takeRole gives the login the role of a developer in the space and reports whether it did not have it before. An org
// manager may make spaces but not use them (docs/cf-contract.md 1.5). It is tried only after a refusal, since an
// administrator needs no role, and its failure leaves that refusal as it is.
func (b *Backend) takeRole(ctx context.Context, space string) bool {
	who, err := b.api.Claims(ctx)
	if err != nil || who.Subject() == "" {
		return false
	}
	body, err := json.Marshal(spaceRole{Type: "space_developer", Relationships: map[string]any{
		"user": toOne(who.Subject()), "space": toOne(space),
	}})
	if err != nil {
		return false
	}
	_, err = b.api.Send(ctx, ccapi.Request{
		Method: http.MethodPost, Path: "/v3/roles", Route: "/v3/roles", Body: body,
		What: "take the role of a developer in space " + strconv.Quote(space),
	})
	return err == nil
}

// roleIsMissing tries to cure a refusal for want of a role on something of the instance, and reports whether it did. It
// takes two calls: which space it is, and the role.
func (b *Backend) roleIsMissing(ctx context.Context, err error, instanceGUID string) bool {
	if !ccapi.IsCode(err, ccapi.CodeNotAuthorized) {
		return false
	}
	row, _, err := b.instance(ctx, instanceGUID)
	space := spaceOf(row)
	return err == nil && space != "" && b.takeRole(ctx, space)
}
