package cf

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
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
func takeRole(ctx context.Context, api *ccapi.Client, space string) bool {
	who, err := api.Claims(ctx)
	if err != nil || who.Subject() == "" {
		return false
	}
	body, err := json.Marshal(spaceRole{Type: "space_developer", Relationships: map[string]any{
		"user": toOne(who.Subject()), "space": toOne(space),
	}})
	if err != nil {
		return false
	}
	_, err = api.Send(ctx, ccapi.Request{
		Method: http.MethodPost, Path: "/v3/roles", Route: "/v3/roles", Body: body,
		What: "take the role of a developer in space " + strconv.Quote(space),
	})
	return err == nil
}

// roleRow is a role of somebody.
type roleRow struct {
	ccapi.Identity
	Type string `json:"type"`
}

// seesEverySpace reports whether the login is an administrator, by its token, or a manager of the org.
func seesEverySpace(ctx context.Context, api *ccapi.Client, org string) (bool, error) {
	who, err := api.Claims(ctx)
	if err != nil {
		return false, err
	}
	for _, scope := range []string{"cloud_controller.admin", "cloud_controller.admin_read_only", "cloud_controller.global_auditor"} {
		if slices.Contains(who.Scope, scope) {
			return true, nil
		}
	}
	if who.Subject() == "" {
		return false, nil
	}
	manager := false
	r := ccapi.Request{Path: "/v3/roles", What: "find the roles of the login", Query: url.Values{
		"types": {"organization_manager"}, "organization_guids": {org}, "user_guids": {ccapi.Filter(who.Subject())},
	}}
	roles, err := ccapi.List[roleRow](ctx, api, r)
	for _, role := range roles {
		manager = manager || role.Type == "organization_manager"
	}
	return manager, err
}
