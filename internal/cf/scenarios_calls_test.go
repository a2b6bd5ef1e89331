package cf

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ferry-broker/ferry/internal/broker"
	"github.com/ferry-broker/ferry/internal/lifecycle"
)

// The tests named by a scenario follow the list in docs/cf-contract.md 5, as far as the adapter has a part in it: what
// it makes of an answer. What follows from that is decided elsewhere.

const (
	post   = "POST /v3/service_instances"
	patch  = "PATCH /v3/service_instances/g"
	remove = "DELETE /v3/service_instances/g"
	bind   = "POST /v3/service_credential_bindings"
	unbind = "DELETE /v3/service_credential_bindings/k1"
)

// told is an answer to one of the five calls and what it must be taken for.
type told struct {
	scenario string
	call     string
	status   int
	body     string
	want     lifecycle.Reply
	says     string // in the description; all refusals have one, also those for now
	code     string
	stale    bool
}

func provisionScenarios() []told {
	const plan = "Invalid service plan. "
	refused, busy, unknown := lifecycle.ReplyRefused, lifecycle.ReplyBusy, lifecycle.ReplyUnknown
	return []told{
		{"03 502", post, 502, "<html>502</html>", unknown, "", "", false},
		{"03 503", post, 503, "<html>503</html>", unknown, "", "", false},
		{"03 504", post, 504, "<html>504</html>", unknown, "", "", false},
		{"05 the other was first", post, 422, unprocessable("The service instance name is taken: one."), lifecycle.ReplyTaken, "is taken", "", false},
		{"08 a lost race over a failed row", post, 500, cfError(10001, "UnknownError", "An unknown error occurred."), unknown, "", "", false},
		{"09 quota of the space", post, 422, unprocessable("You have exceeded your space's services limit."), refused, "your space's services limit", "", false},
		{"09 quota of the org", post, 422, unprocessable("You have exceeded your organization's services limit."), refused, "your organization's services limit", "", false},
		{"10 paid plans", post, 422, unprocessable("The service instance cannot be created because paid service plans are not allowed."), refused, "paid service plans are not allowed", "", false},
		{"10 paid plans in the space", post, 422, unprocessable("The service instance cannot be created because paid service plans are not allowed for your space."), refused, "for your space", "", false},
		{"11 plan unknown or hidden", post, 422, unprocessable(plan + "Ensure that the service plan exists, is available, and you have access to it."), refused, "Ensure that the service plan exists", "", true},
		{"11 plan removed", post, 422, unprocessable(plan + "The service plan 'P' with guid 'G' has been removed from the service broker's catalog. It is not possible to create new service instances using this plan."), refused, "has been removed", "", true},
		{"11 plan of another space", post, 422, unprocessable(plan + "This could be due to a space-scoped broker which is offering the service plan 'P' with guid 'G' in another space or that the plan is not enabled in this organization."), refused, "not enabled in this organization", "", true},
		{"12 the broker is being read", post, 422, unprocessable("The service instance cannot be created because there is an operation in progress for the service broker."), busy, "operation in progress for the service broker", "", false},
		{"13 feature disabled", post, 403, cfError(330002, "CF-FeatureDisabled", "Feature Disabled: service_instance_creation"), busy, "Feature Disabled", "", false},
		{"13 feature disabled by the operator's own words", post, 403, cfError(330002, "CF-FeatureDisabled", "Come back on Monday"), busy, "Come back on Monday", "", false},
		{"13 no role", post, 403, cfError(10003, "CF-NotAuthorized", "You are not authorized to perform the requested action"), busy, "its operator has to look", "", false},
		{"13 org suspended", post, 403, cfError(10017, "CF-OrgSuspended", "The organization is suspended"), busy, "The organization is suspended", "", false},
		{"13 space suspended", post, 403, cfError(10019, "CF-SpaceSuspended", "The space is suspended"), busy, "The space is suspended", "", false},
		{"13 org being deleted", post, 422, cfError(10020, "CF-ResourceBeingDeleted", "The organization is being deleted"), refused, "The organization is being deleted", "", false},
		{"13 space being deleted", post, 422, cfError(10020, "CF-ResourceBeingDeleted", "The space is being deleted"), busy, "", "", false},
		{"14 parameters", post, 422, unprocessable("Parameters must be an object"), refused, "Parameters must be an object", "", false},
		{"14 metadata", post, 422, unprocessable("Metadata label key error: too long"), refused, "Metadata label key error", "", false},
		{"16 the space is gone", post, 422, unprocessable("Invalid space. Ensure that the space exists and you have access to it."), busy, "", "", false},
	}
}

func laterScenarios() []told {
	refused, busy, absent := lifecycle.ReplyRefused, lifecycle.ReplyBusy, lifecycle.ReplyAbsent
	const unique = "The binding name is invalid. Key binding names must be unique. The service instance already has a key binding with "
	return []told{
		{"23 an operation runs", patch, 409, cfError(60016, "CF-AsyncServiceInstanceOperationInProgress", "An operation for service instance one is in progress."), busy, "", "", false},
		{"23 an operation of an app's binding runs", patch, 409, cfError(90008, "CF-AsyncServiceBindingOperationInProgress", "x"), busy, "", "", false},
		{"24 done at once", patch, 200, `{"guid":"g"}`, lifecycle.ReplyDone, "", "", false},
		{"24 a job", patch, 202, "", lifecycle.ReplyAccepted, "", "", false},
		{"25 over a failed create", patch, 404, cfError(60004, "CF-ServiceInstanceNotFound", "The service instance could not be found: one"), absent, "", "", false},
		{"26 plans do not change", patch, 422, unprocessable("The service does not support changing plans."), refused, "does not support changing plans", "", false},
		{"26 a key needs a bindable plan", patch, 422, unprocessable("The service plan is invalid: cannot switch to non-bindable plan when service bindings exist"), refused, "non-bindable", "", false},
		{"26 another version", patch, 422, unprocessable("maintenance_info.version requested is invalid. Please ensure the catalog is up to date and you are providing a version supported by this service plan."), refused, "version requested", "MaintenanceInfoConflict", false},
		{"26 no upgrades", patch, 422, unprocessable("The service broker does not support upgrades for service instances created from this plan."), refused, "does not support upgrades", "MaintenanceInfoConflict", false},
		{"26 an inaccessible plan is policy", patch, 422, unprocessable("Cannot update parameters of a service instance that belongs to inaccessible plan"), refused, "inaccessible plan", "", false},
		{"26 quota", patch, 422, unprocessable("You have exceeded your organization's services limit."), refused, "services limit", "", false},
		{"11 a moved plan in an update", patch, 422, unprocessable("Invalid service plan. Ensure that the service plan exists, is available, and you have access to it."), refused, "Invalid service plan", "", true},
		{"11 a plan of the offering's old row", patch, 400, cfError(1002, "CF-InvalidRelation", "service plan relates to a different service offering"), refused, "different service offering", "", true},
		{"27 no answer", patch, 502, "<html>", lifecycle.ReplyUnknown, "", "", false},
		{"31 absent", remove, 404, cfError(10010, "CF-ResourceNotFound", "Service instance not found"), absent, "", "", false},
		{"31 not a router's 404", remove, 404, "404 Not Found: Requested route ('api.x') does not exist.", lifecycle.ReplyUnknown, "", "", false},
		{"32 an operation runs", remove, 422, unprocessable("There is an operation in progress for the service instance."), busy, "", "", false},
		{"37 the key is there", bind, 422, unprocessable(unique + "name 'k'."), lifecycle.ReplyTaken, "", "", false},
		{"37 the key goes or cannot", bind, 422, unprocessable(unique + "the name 'k' that is getting deleted or its deletion failed."), lifecycle.ReplyTaken, "", "", false},
		{"37 the instance is busy", bind, 422, unprocessable("There is an operation in progress for the service instance"), busy, "", "", false},
		{"37 not bindable", bind, 422, unprocessable("Service plan does not allow bindings."), refused, "does not allow bindings", "", false},
		{"37 quota of keys", bind, 422, unprocessable("You have exceeded your space's limit for service binding of type key."), refused, "of type key", "", false},
		{"37 the instance failed", bind, 422, unprocessable("Service instance not found"), refused, "Service instance not found", "", false},
		{"39 the key is gone", unbind, 404, cfError(10010, "CF-ResourceNotFound", "Service credential binding not found"), absent, "", "", false},
		{"39 the instance is busy", unbind, 422, unprocessable("There is an operation in progress for the service instance."), busy, "", "", false},
		{"39 the key is busy", unbind, 422, unprocessable("There is an operation in progress for the service binding."), busy, "", "", false},
		{"40 a token that is not taken", post, 401, cfError(1000, "CF-InvalidAuthToken", "Invalid Auth Token"), busy, "", "", false},
		{"40 no UAA behind it", post, 502, cfError(20004, "CF-UaaUnavailable", "The UAA service is currently unavailable"), busy, "", "", false},
		{"40 no database", post, 503, cfError(10015, "CF-ServiceUnavailable", "Database connection failure"), busy, "Database connection failure", "", false},
		{"40 maintenance", post, 503, "API down for maintenance", lifecycle.ReplyUnknown, "", "", false},
		{"40 limiter", post, 429, cfError(10013, "CF-RateLimitExceeded", "Rate Limit Exceeded"), busy, "takes no more requests", "", false},
		{"40 limiter of the address", post, 429, cfError(10014, "CF-IPBasedRateLimitExceeded", "x"), busy, "", "", false},
		{"40 limiter of the broker", post, 429, cfError(10016, "CF-ServiceBrokerRateLimitExceeded", "x"), busy, "", "", false},
		{"40 limiter of the UAA", post, 429, cfError(20008, "CF-UaaRateLimited", "x"), busy, "", "", false},
	}
}

// TestCallScenarios has each answer given to its call, which must be sent once.
func TestCallScenarios(t *testing.T) {
	t.Parallel()
	refusedReplies := []lifecycle.Reply{lifecycle.ReplyRefused, lifecycle.ReplyBusy, lifecycle.ReplyTaken}
	for _, test := range append(provisionScenarios(), laterScenarios()...) {
		t.Run("scenario_"+test.scenario, func(t *testing.T) {
			t.Parallel()
			s := newStub(t, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Location", "/v3/jobs/j")
				reply(w, test.status, test.body)
			})
			answer, err := everyCall(t.Context(), s.backend(t, nil))[test.call]()
			if answer.Reply != test.want || answer.Code != test.code || answer.StalePlan != test.stale {
				t.Errorf("answer %+v, %v; want %s, code %q, stale %v", answer, err, test.want, test.code, test.stale)
			}
			if !strings.Contains(answer.Description, test.says) || (answer.Description == "") == slices.Contains(refusedReplies, answer.Reply) {
				t.Errorf("description %q, want %q in it", answer.Description, test.says)
			}
			once := 1
			if test.status == http.StatusUnauthorized {
				once = 2 // with a new token; the first was not looked at
			}
			if n := s.count(test.call); n != once {
				t.Errorf("%s was sent %d times, want %d", test.call, n, once)
			}
		})
	}
}

// TestLostAnswer loses the answer of a call that was carried out.
func TestLostAnswer(t *testing.T) {
	t.Parallel()
	for scenario, test := range map[string]struct {
		call string
		find func(context.Context, *Backend) (broker.Look, error)
		mark string
	}{
		"scenario_02_of_a_create": {post, func(ctx context.Context, b *Backend) (broker.Look, error) { return b.FindInstances(ctx, "one") },
			`"annotations":{"ferry-operation":"create-1","ferry-seq":"12"}`},
		"scenario_27_of_an_update": {patch, func(ctx context.Context, b *Backend) (broker.Look, error) { return b.FindInstance(ctx, "g") },
			`"annotations":{"ferry-operation":"create-1","ferry-seq":"12","ferry-update":"update-1"}`},
	} {
		t.Run(scenario, func(t *testing.T) {
			t.Parallel()
			row := `{"guid":"g","name":"one","last_operation":{"type":"create","state":"initial"},"metadata":{` + test.mark + `}}`
			s := newStub(t, func(w http.ResponseWriter, r *http.Request) {
				switch {
				case r.Method != http.MethodGet:
					hangUp(w, r)
				case r.URL.Path == "/v3/service_instances/g":
					reply(w, 200, row)
				default:
					reply(w, 200, `{"pagination":{"next":null},"resources":[`+row+`]}`)
				}
			})
			b := s.backend(t, nil)
			if answer, err := everyCall(t.Context(), b)[test.call](); answer.Reply != lifecycle.ReplyUnknown || err == nil {
				t.Errorf("answer %+v, %v; want unknown", answer, err)
			}
			look, err := test.find(t.Context(), b)
			if err != nil || len(look.Rows) != 1 || !look.Rows[0].Marked || look.Rows[0].Operation != "create-1" {
				t.Errorf("look %+v, %v; want our mark", look.Rows, err)
			}
			if s.count(test.call) != 1 {
				t.Error("the call was repeated")
			}
		})
	}
}

// TestScenario40Wait: each limiter says how long, wherever it stands.
func TestScenario40Wait(t *testing.T) {
	t.Parallel()
	s := newStub(t, accept)
	s.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/uaa/oauth/token" {
			w.Header().Set("Retry-After", "11")
			reply(w, 429, "429 - Too Many Request")
			return
		}
		s.ServeHTTP(w, r)
	})
	answer, err := s.backend(t, nil).CreateInstance(t.Context(), testCall())
	if answer.Reply != lifecycle.ReplyBusy || answer.RetryAfter != 11*time.Second || loginAtFault(err) {
		t.Errorf("answer %+v, %v; want busy for 11 s", answer, err)
	}
}
