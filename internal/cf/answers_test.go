package cf

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/ferry-broker/ferry/internal/broker"
	"github.com/ferry-broker/ferry/internal/ccapi"
	"github.com/ferry-broker/ferry/internal/lifecycle"
)

// The five calls.
const (
	post   = "POST /v3/service_instances"
	patch  = "PATCH /v3/service_instances/g"
	remove = "DELETE /v3/service_instances/g"
	bind   = "POST /v3/service_credential_bindings"
	unbind = "DELETE /v3/service_credential_bindings/k1"
)

// told is an answer to one of the calls that is no success: the line of the table that it meets, what the call is taken
// for, and what its user reads. A number in its name is that of a scenario in docs/cf-contract.md 5.
type told struct {
	name, call string
	status     int
	body       string
	rule       string
	reply      lifecycle.Reply
	says       string
	more       more
}

// more is what few answers have.
type more struct {
	router string
	code   broker.Code
	stale  bool
	broker bool // its word is a backing broker's
}

// unserved are answers of what could not, or would not, serve the call.
func unserved() []told {
	const (
		busy, unknown = lifecycle.ReplyBusy, lifecycle.ReplyUnknown
		somewhere     = "not Cloud Foundry's answer"
		limit, away   = "takes no more requests", "does not answer"
	)
	return []told{
		{"40 limiter", post, 429, cfError(10013, "CF-RateLimitExceeded", "Rate Limit Exceeded"), "limited", busy, limit, more{}},
		{"40 limiter of the address", bind, 429, cfError(10014, "CF-IPBasedRateLimitExceeded", "x"), "limited", busy, limit, more{}},
		{"40 limiter of the broker", patch, 429, cfError(10016, "CF-ServiceBrokerRateLimitExceeded", "x"), "limited", busy, limit, more{}},
		{"40 limiter of the UAA", unbind, 429, cfError(20008, "CF-UaaRateLimited", "x"), "limited", busy, limit, more{}},
		{"40 limiter of nginx", remove, 429, "<html>too many</html>", somewhere, unknown, "", more{}},
		{"no route", post, 404, "404 Not Found: Requested route ('api.x') does not exist.", "no route to the API", busy, away, more{router: "unknown_route"}},
		{"no endpoint", post, 503, "Requested route has no available endpoints.", "no Cloud Controller runs", busy, away, more{router: "no_endpoints"}},
		{"31 a 404 without a sign of the router", remove, 404, "404 Not Found: Requested route ('api.x') does not exist.", somewhere, unknown, "", more{}},
		{"another JSON", post, 404, `{"error":"not found"}`, somewhere, unknown, "", more{}},
		{"no errors", post, 404, `{"errors":[]}`, somewhere, unknown, "", more{}},
		{"half a JSON", post, 422, `{"errors":[{"code":10008,"title":"CF-Unpr`, somewhere, unknown, "", more{}},
		{"nothing", post, 422, ``, somewhere, unknown, "", more{}},
		{"03 502", post, 502, "502 Bad Gateway", somewhere, unknown, "", more{router: "endpoint_failure (EOF)"}},
		{"03 503", post, 503, "<html>503</html>", somewhere, unknown, "", more{}},
		{"03 504", post, 504, "<html>504</html>", somewhere, unknown, "", more{}},
		{"27 no answer to an update", patch, 502, "<html>", somewhere, unknown, "", more{}},
		{"an empty 500", post, 500, "", somewhere, unknown, "", more{}},
		{"a redirect", post, 307, "", somewhere, unknown, "", more{}},
		{"40 maintenance", post, 503, "API down for maintenance", somewhere, unknown, "", more{}},
		{"08 a lost race over a failed row", post, 500, cfError(10001, "UnknownError", "An unknown error occurred."), "fault inside Cloud Foundry", unknown, "", more{}},
		{"a database's fault", post, 500, cfError(10011, "CF-DatabaseError", "Database error"), "fault inside Cloud Foundry", unknown, "", more{}},
		{"a broker's fault", post, 502, cfError(10001, "CF-ServiceBrokerBadResponse", "The service broker returned an invalid response."), "unhandled fault", unknown, "", more{}},
		{"40 no database", post, 503, cfError(10015, "CF-ServiceUnavailable", "Database connection failure"), "cannot serve now", busy, "for now: Database connection failure", more{}},
		{"40 no UAA behind it", post, 502, cfError(20004, "CF-UaaUnavailable", "The UAA service is currently unavailable"), "cannot serve now", busy, "", more{}},
		{"40 a token that is not taken", post, 401, cfError(1000, "CF-InvalidAuthToken", "Invalid Auth Token"), "not logged in", busy, "cannot log in", more{}},
		{"a token that is not seen", post, 401, cfError(10002, "CF-NotAuthenticated", "Authentication error"), "not logged in", busy, "cannot log in", more{}},
		{"a login that is not valid, by another status", post, 400, cfError(1000, "CF-InvalidAuthToken", "Invalid Auth Token"), "no valid login", busy, "cannot log in", more{}},
		{"a call that it does not know", patch, 404, cfError(10000, "CF-NotFound", "Unknown request"), "no such call", busy, "Unknown request", more{}},
		{"too slow", post, 408, cfError(10008, "CF-Timeout", "x"), "too slow", busy, "", more{}},
	}
}

// looked are answers of a Cloud Controller that looked at the call.
func looked() []told {
	const (
		busy, refused, taken, absent = lifecycle.ReplyBusy, lifecycle.ReplyRefused, lifecycle.ReplyTaken, lifecycle.ReplyAbsent
		unique                       = "The binding name is invalid. Key binding names must be unique. The service instance already has a key binding with "
		plan                         = "Invalid service plan. "
	)
	return []told{
		{"05 the other was first", post, 422, unprocessable("The service instance name is taken: one."), "instance name taken", taken, "is taken", more{}},
		{"name taken, with the code of a race", post, 422, cfError(10016, "CF-UniquenessError", "The service instance name is taken: one"), "instance name taken", taken, "is taken", more{}},
		{"name taken, in the words of version 2", post, 400, cfError(60002, "CF-ServiceInstanceNameTaken", "The service instance name is taken: one"), "name taken, older code", taken, "is taken", more{}},
		{"09 quota of the space", post, 422, unprocessable("You have exceeded your space's services limit."), "refused", refused, "refused the service instance: You have exceeded your space's services limit", more{}},
		{"09 quota, with an address", post, 422, unprocessable("You have exceeded it, see https://cf.example.org/quota now."), "refused", refused, "see [address] now.", more{}},
		{"10 paid plans", post, 422, unprocessable("The service instance cannot be created because paid service plans are not allowed."), "refused", refused, "paid service plans are not allowed", more{}},
		{"11 plan unknown or hidden", post, 422, unprocessable(plan + "Ensure that the service plan exists, is available, and you have access to it."), "plan gone or hidden", refused, "Ensure that the service plan exists", more{stale: true}},
		{"11 plan removed", patch, 422, unprocessable(plan + "The service plan 'P' with guid 'G' has been removed from the service broker's catalog."), "plan gone or hidden", refused, "has been removed", more{stale: true}},
		{"11 plan of another space", post, 422, unprocessable(plan + "This could be due to a space-scoped broker which is offering the service plan 'P' with guid 'G' in another space."), "plan gone or hidden", refused, "space-scoped", more{stale: true}},
		{"11 a plan of the offering's old row", patch, 400, cfError(1002, "CF-InvalidRelation", "service plan relates to a different service offering"), "plan of another offering", refused, "different service offering", more{stale: true}},
		{"12 the broker is being read", post, 422, unprocessable("The service instance cannot be created because there is an operation in progress for the service broker."), "broker is being read", busy, "operation in progress for the service broker", more{}},
		{"13 feature disabled", post, 403, cfError(330002, "CF-FeatureDisabled", "Feature Disabled: see https://cf.example.org"), "not allowed", busy, "for now: Feature Disabled: see [address]", more{}},
		{"13 feature disabled by the operator's own words", bind, 403, cfError(330002, "CF-FeatureDisabled", "Come back on Monday"), "not allowed", busy, "Come back on Monday", more{}},
		{"13 no role", post, 403, cfError(10003, "CF-NotAuthorized", "You are not authorized to perform the requested action"), "not allowed", busy, "lacks a role; its operator has to look", more{}},
		{"13 org suspended", patch, 403, cfError(10017, "CF-OrgSuspended", "The organization is suspended"), "not allowed", busy, "for now: The organization is suspended", more{}},
		{"13 space suspended", remove, 403, cfError(10019, "CF-SpaceSuspended", "The space is suspended"), "not allowed", busy, "for now: The space is suspended", more{}},
		{"13 org being deleted", post, 422, cfError(10020, "CF-ResourceBeingDeleted", "The organization is being deleted"), "refused", refused, "The organization is being deleted", more{}},
		{"13 space being deleted", post, 422, cfError(10020, "CF-ResourceBeingDeleted", "The space is being deleted"), "space going", busy, "", more{}},
		{"14 parameters", post, 422, unprocessable("Parameters must be an object"), "refused", refused, "Parameters must be an object", more{}},
		{"14 metadata", post, 422, unprocessable("Metadata label key error: too long"), "refused", refused, "Metadata label key error", more{}},
		{"16 the space is gone", post, 422, unprocessable("Invalid space. Ensure that the space exists and you have access to it."), "space gone", busy, "", more{}},
		{"a race for metadata", post, 422, cfError(10016, "CF-UniquenessError", "Label or annotation exists"), "lost a race for metadata", busy, "", more{}},

		{"23 an operation runs", patch, 409, cfError(60016, "CF-AsyncServiceInstanceOperationInProgress", "An operation for service instance one is in progress."), "operation in progress", busy, "is in progress", more{}},
		{"23 an operation of an app's binding runs", patch, 409, cfError(90008, "CF-AsyncServiceBindingOperationInProgress", "x"), "operation in progress", busy, "", more{}},
		{"25 over a failed create", patch, 404, cfError(60004, "CF-ServiceInstanceNotFound", "The service instance could not be found: one"), "absent", absent, "", more{}},
		{"26 plans do not change", patch, 422, unprocessable("The service does not support changing plans."), "refused", refused, "does not support changing plans", more{}},
		{"26 a key needs a bindable plan", patch, 422, unprocessable("The service plan is invalid: cannot switch to non-bindable plan when service bindings exist"), "refused", refused, "non-bindable", more{}},
		{"26 another version", patch, 422, unprocessable("maintenance_info.version requested is invalid. Please ensure the catalog is up to date."), "other version wanted", refused, "version requested", more{code: broker.CodeMaintenanceInfoConflict}},
		{"26 no upgrades", patch, 422, unprocessable("The service broker does not support upgrades for service instances created from this plan."), "no upgrades", refused, "does not support upgrades", more{code: broker.CodeMaintenanceInfoConflict}},
		{"26 an inaccessible plan is policy", patch, 422, unprocessable("Cannot update parameters of a service instance that belongs to inaccessible plan"), "refused", refused, "inaccessible plan", more{}},
		{"29 the broker refuses at once", patch, 422, cfError(10009, unable, "update could not be completed: Service broker error: no room"), "refused", refused, ": no room", more{broker: true}},

		{"31 absent", remove, 404, notFound("Service instance not found"), "absent", absent, "", more{}},
		{"32 an operation runs", remove, 422, unprocessable("There is an operation in progress for the service instance."), "operation in progress, 422", busy, "operation in progress", more{}},
		{"32 shares", remove, 422, cfError(390002, "CF-ServiceInstanceDeletionSharesExists", "Service instances must be unshared before they can be deleted."), "shared with others", busy, "must be unshared", more{}},
		{"36 the broker refuses for now", remove, 409, cfError(10009, unable, "delete could not be completed: Service broker error: in use"), "operation in progress", busy, ": in use", more{broker: true}},

		{"37 the key is there", bind, 422, unprocessable(unique + "name 'k'."), "key name taken", taken, "", more{}},
		{"37 the key goes or cannot", bind, 422, unprocessable(unique + "the name 'k' that is getting deleted or its deletion failed."), "key name taken", taken, "", more{}},
		{"37 the key is there, on Korifi", bind, 422, unprocessable("Service binding already exists: App:  Service Instance: G Service Binding: N"), "key name taken, Korifi", taken, "", more{}},
		{"37 the key is there, in the words of version 2", bind, 400, cfError(360001, "CF-ServiceKeyNameTaken", "The service key name is taken: N"), "name taken, older code", taken, "", more{}},
		{"37 the instance is busy", bind, 422, unprocessable("There is an operation in progress for the service instance"), "operation in progress, 422", busy, "", more{}},
		{"37 not bindable", bind, 422, unprocessable("Service plan does not allow bindings."), "refused", refused, "does not allow bindings", more{}},
		{"37 the instance failed", bind, 422, unprocessable("Service instance not found"), "refused", refused, "Service instance not found", more{}},
		{"39 the key is gone", unbind, 404, notFound("Service credential binding not found"), "absent", absent, "", more{}},
		{"39 the key is busy", unbind, 422, unprocessable("There is an operation in progress for the service binding."), "operation in progress, 422", busy, "", more{}},
	}
}

// TestRefusals has each answer given to its call, which must be sent once. Each line of the table must be met.
func TestRefusals(t *testing.T) {
	t.Parallel()
	met := map[string]bool{}
	for _, test := range append(unserved(), looked()...) {
		met[test.rule] = true
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			s := newStub(t, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Location", "/v3/jobs/j")
				if test.more.router != "" {
					w.Header().Set("X-Cf-RouterError", test.more.router)
				}
				reply(w, test.status, test.body)
			})
			answer, err := everyCall(t.Context(), s.backend(t, nil))[test.call]()
			e, ok := errors.AsType[*ccapi.Error](err)
			if !ok || ruleFor(e).name != test.rule || answer.Reply != test.reply {
				t.Errorf("answer %+v, %v by rule %q; want %s by %q", answer, err, ruleFor(e).name, test.reply, test.rule)
			}
			if answer.Code != string(test.more.code) || answer.StalePlan != test.more.stale || answer.FromBackingBroker != test.more.broker {
				t.Errorf("answer %+v; want %+v", answer, test.more)
			}
			silent := test.reply == lifecycle.ReplyUnknown || test.reply == lifecycle.ReplyAbsent
			if !strings.Contains(answer.Description, test.says) || (answer.Description == "") != silent {
				t.Errorf("description %q, want %q in it", answer.Description, test.says)
			}
			once := 1
			if test.status == 401 && e.Code == ccapi.CodeInvalidToken {
				once = 2 // with a new token; the first was not looked at
			}
			if n := s.count(test.call); n != once {
				t.Errorf("%s was sent %d times, want %d", test.call, n, once)
			}
		})
	}
	for _, r := range refusals {
		if !met[r.name] {
			t.Errorf("no test meets rule %q", r.name)
		}
	}
	if len(met) != len(refusals) {
		t.Errorf("%d rules met, %d in the table: two share a name", len(met), len(refusals))
	}
}

// TestAccepted has a create answered by what looks like success: anything but a job or the resource may be anybody's.
func TestAccepted(t *testing.T) {
	t.Parallel()
	unknown := broker.Answer{Reply: lifecycle.ReplyUnknown}
	for name, test := range map[string]struct {
		status   int
		location string
		body     string
		want     broker.Answer
	}{
		"a job":                     {202, "https://api.example.org/v3/jobs/j-1", "", broker.Answer{Reply: lifecycle.ReplyAccepted, Job: "j-1"}},
		"a job of Korifi":           {202, "/v3/jobs/managed_service_instance.create~g-1", "", broker.Answer{Reply: lifecycle.ReplyAccepted, Job: "managed_service_instance.create~g-1", GUID: "g-1"}},
		"the resource":              {200, "", `{"guid":"g-1"}`, broker.Answer{Reply: lifecycle.ReplyDone, GUID: "g-1"}},
		"a new resource":            {201, "", `{"guid":"g-1"}`, broker.Answer{Reply: lifecycle.ReplyDone, GUID: "g-1"}},
		"202 without a job":         {202, "", "", unknown},
		"202 with another link":     {202, "https://api.example.org/v3/apps/j-1", "", unknown},
		"202 with an empty job":     {202, "https://api.example.org/v3/jobs/", "", unknown},
		"202 with what is no link":  {202, "%zz", "", unknown},
		"200 with a page":           {200, "", `<html>welcome</html>`, unknown},
		"200 with another object":   {200, "", `{"ok":true}`, unknown},
		"200 with half an object":   {200, "", `{"guid":"g-1","na`, unknown},
		"an empty 204, to a POST":   {204, "", ``, unknown},
		"206, as if of many pieces": {206, "", `{"guid":"g-1"}`, unknown},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStub(t, func(w http.ResponseWriter, _ *http.Request) {
				if test.location != "" {
					w.Header().Set("Location", test.location)
				}
				w.WriteHeader(test.status)
				_, _ = io.WriteString(w, test.body)
			})
			answer, err := s.backend(t, nil).CreateInstance(t.Context(), testCall())
			if answer != test.want || (err != nil) != (test.want == unknown) || s.count(post) != 1 {
				t.Errorf("answer %+v, %v after %d POSTs; want %+v after one", answer, err, s.count(post), test.want)
			}
		})
	}
	s := newStub(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })
	if answer, err := s.backend(t, nil).DeleteInstance(t.Context(), "g"); answer.Reply != lifecycle.ReplyDone || err != nil {
		t.Errorf("204 to a DELETE: %+v, %v; want done", answer, err)
	}
}

// TestLostAnswers: scenarios 02 and 27. What nobody answered may have been carried out, and is never repeated; what
// never left was not.
func TestLostAnswers(t *testing.T) {
	t.Parallel()
	s, nobody := newStub(t, hangUp), newStub(t, hangUp)
	nobody.Config.Handler = http.HandlerFunc(hangUp) // for the login, too
	for request := range everyCall(t.Context(), nil) {
		b := s.backend(t, nil)
		if _, err := b.places.space(t.Context(), "postgres"); err != nil { // warms the connection
			t.Fatal(err)
		}
		answer, err := everyCall(t.Context(), b)[request]()
		if answer.Reply != lifecycle.ReplyUnknown || err == nil || s.count(request) != 1 {
			t.Errorf("%s: answer %+v, %v after %d calls; want unknown after one", request, answer, err, s.count(request))
		}
		answer, err = everyCall(t.Context(), nobody.backend(t, nil))[request]()
		if answer.Reply != lifecycle.ReplyBusy || answer.Description == "" || err == nil {
			t.Errorf("%s without a login: answer %+v, %v; want busy", request, answer, err)
		}
	}
}

// TestLimitsAreHandedOn: scenario 40. How long a limiter asks to stay away, wherever it stands.
func TestLimitsAreHandedOn(t *testing.T) {
	t.Parallel()
	for _, limited := range []string{"/v3/service_instances", "/v3/service_instances/g", "/uaa/oauth/token"} {
		s := newStub(t, accept)
		s.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == limited {
				w.Header().Set("Retry-After", "37")
				reply(w, 429, cfError(10013, "CF-RateLimitExceeded", "Rate Limit Exceeded"))
				return
			}
			s.ServeHTTP(w, r)
		})
		b := s.backend(t, func(c *Config) { c.Now = stopped })
		answer, err := b.CreateInstance(t.Context(), testCall())
		if limited != "/v3/service_instances/g" && (answer.Reply != lifecycle.ReplyBusy || answer.RetryAfter != 37*time.Second || loginAtFault(err)) {
			t.Errorf("%s: answer %+v, %v; want busy for 37 s", limited, answer, err)
		}
		var wait broker.RetryIn
		if _, err := b.FindInstance(t.Context(), "g", ""); !errors.As(err, &wait) || wait.RetryIn() != 37*time.Second {
			t.Errorf("%s: %v; want an error that asks for 37 s", limited, err)
		}
	}
}

// TestLookUpErrorsSpeakToUsers: an operation that waits for the operator says so, and tells nothing of where things
// are.
func TestLookUpErrorsSpeakToUsers(t *testing.T) {
	t.Parallel()
	for says, test := range map[string]struct {
		org    string
		handle http.HandlerFunc
	}{
		"does not see its org": {"secret-org", busyCloud},
		"lacks a role":         {"ferry", func(w http.ResponseWriter, _ *http.Request) { reply(w, 200, list()) }},
		"does not answer":      {"ferry", hangUp},
	} {
		s := newStub(t, test.handle)
		s.token, s.spaces = tokenWith(`{"client_id":"ferry"}`), list()
		b := s.backend(t, func(c *Config) { c.Org = test.org })
		_, err := b.FindInstances(t.Context(), broker.Lookup{Name: "one", Offering: "postgres"})
		said, ok := errors.AsType[broker.UserTexter](err)
		if !ok || !strings.Contains(said.UserText(), says) || strings.Contains(said.UserText(), "secret-org") {
			t.Errorf("%v; want it to say %q", err, says)
		}
	}
}
