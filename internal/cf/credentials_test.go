package cf

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/ferry-broker/ferry/internal/lifecycle"
)

func TestRefusedLoginSaysWhatToLookAt(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		status int
		body   string
		want   bool
	}{
		"a wrong client":      {401, `{"error":"invalid_client","error_description":"Bad credentials"}`, true},
		"a wrong grant":       {400, `{"error":"invalid_grant","error_description":"x"}`, true},
		"a locked account":    {401, `{"error":"unauthorized","error_description":"Your account has been locked because of too many failed attempts to login."}`, true},
		"a limited UAA":       {429, "429 - Too Many Request - Request limited by Rate Limiter configuration", false},
		"a UAA in backup":     {503, `{"error":"uaa_unavailable","error_description":"UAA intentionally in limited mode, operation not permitted. Please try later."}`, false},
		"a gateway before it": {502, "<html>", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := newGate(t, accept, func(_ int64, w http.ResponseWriter, _ *http.Request) bool {
				reply(w, test.status, test.body)
				return true
			})
			answer, err := g.backend(t, nil).CreateInstance(t.Context(), testCall())
			if answer.Reply != lifecycle.ReplyBusy || CredentialsRefused(err) != test.want {
				t.Errorf("%+v, %v; want busy, refused %v", answer, err, test.want)
			}
			if strings.Contains(err.Error(), adviceLogin) != test.want || strings.Contains(err.Error(), "client-secret") {
				t.Errorf("error %v, advice wanted %v", err, test.want)
			}
		})
	}
}

func TestCredentialsRefused(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		err    error
		advice string
	}{
		"no error":             {nil, ""},
		"another's error":      {errors.New("x"), ""},
		"no authority":         {fmt.Errorf("w: %w", answered(t, 403, "", cfError(10003, "CF-NotAuthorized", "x"))), adviceRole},
		"a token not accepted": {answered(t, 401, "", cfError(1000, "CF-InvalidAuthToken", "x")), adviceToken},
		"no token":             {answered(t, 401, "", cfError(10002, "CF-NotAuthenticated", "x")), adviceToken},
		"a router's 401":       {answered(t, 401, "", "<html>"), ""},
		"a suspended org":      {answered(t, 403, "", cfError(10017, "CF-OrgSuspended", "x")), ""},
		"a quota":              {answered(t, 422, "", unprocessable("You have exceeded your space's services limit.")), ""},
	} {
		if got := CredentialsRefused(test.err); got != (test.advice != "") {
			t.Errorf("%s: %v", name, got)
		}
		if test.err != nil && !strings.Contains(test.err.Error(), test.advice) {
			t.Errorf("%s: %v does not say %q", name, test.err, test.advice)
		}
	}
}

func TestOrgOutOfSightIsTheLogins(t *testing.T) {
	t.Parallel()
	s := newStub(t, accept)
	_, err := s.backend(t, func(c *Config) { c.Org = "no-such-org" }).FindInstances(t.Context(), "one")
	if !CredentialsRefused(err) || !strings.Contains(err.Error(), adviceOrg) {
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
		g := newGate(t, func(w http.ResponseWriter, r *http.Request) {
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
		}, func(_ int64, w http.ResponseWriter, _ *http.Request) bool {
			reply(w, 200, `{"access_token":"`+token+`","token_type":"bearer","expires_in":599}`)
			return true
		})
		answer, err := everyCall(t.Context(), g.backend(t, nil))[request]()
		if answer.Reply != lifecycle.ReplyBusy || err == nil {
			t.Errorf("%s: %+v, %v; want busy", request, answer, err)
		}
		if !strings.Contains(g.lastBody("POST /v3/roles"), "s9") || g.count(request) != 1 {
			t.Errorf("%s: role asked for: %s", request, g.lastBody("POST /v3/roles"))
		}
	}
}
