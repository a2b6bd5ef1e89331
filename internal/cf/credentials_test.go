package cf

import (
	"net/http"
	"strings"
	"testing"

	"github.com/ferry-broker/ferry/internal/ccapi"
	"github.com/ferry-broker/ferry/internal/lifecycle"
)

func TestOrgOutOfSightIsTheLogins(t *testing.T) {
	t.Parallel()
	s := newStub(t, accept)
	_, err := s.backend(t, func(c *Config) { c.Org = "no-such-org" }).FindInstances(t.Context(), "one")
	if !loginAtFault(err) || !strings.Contains(err.Error(), string(ccapi.AdviceOrg)) {
		t.Errorf("error %v, want advice on the org", err)
	}
}

// TestMissingRoleIsTakenForEverything: what exists already tells its space.
func TestMissingRoleIsTakenForEverything(t *testing.T) {
	t.Parallel()
	const token = "e30.eyJjbGllbnRfaWQiOiJmZXJyeSJ9.c2ln" // {"client_id":"ferry"}
	for _, request := range []string{
		"PATCH /v3/service_instances/g", "DELETE /v3/service_instances/g",
		"POST /v3/service_credential_bindings", "DELETE /v3/service_credential_bindings/k1",
	} {
		g := newStub(t, func(w http.ResponseWriter, r *http.Request) {
			switch r.Method + " " + r.URL.Path {
			case "GET /v3/service_instances/g":
				reply(w, 200, `{"guid":"g","relationships":{"space":{"data":{"guid":"s9"}}}}`)
			case "GET /v3/service_credential_bindings/k1":
				reply(w, 200, `{"guid":"k1","relationships":{"service_instance":{"data":{"guid":"g"}}}}`)
			case "POST /v3/roles":
				reply(w, 201, `{"guid":"r"}`)
			default:
				reply(w, 403, cfError(10003, "CF-NotAuthorized", "You are not authorized to perform the requested action"))
			}
		})
		g.token = token
		answer, err := everyCall(t.Context(), g.backend(t, nil))[request]()
		if answer.Reply != lifecycle.ReplyBusy || err == nil {
			t.Errorf("%s: %+v, %v; want busy", request, answer, err)
		}
		if !strings.Contains(g.lastBody("POST /v3/roles"), "s9") || g.count(request) != 1 {
			t.Errorf("%s: role asked for: %s", request, g.lastBody("POST /v3/roles"))
		}
	}
}
