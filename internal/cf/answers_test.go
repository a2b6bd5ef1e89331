package cf

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ferry-broker/ferry/internal/broker"
	"github.com/ferry-broker/ferry/internal/ccapi"
	"github.com/ferry-broker/ferry/internal/lifecycle"
)

// cfError is the body of a refusal by Cloud Foundry.
func cfError(code int, title, detail string) string {
	return fmt.Sprintf(`{"errors":[{"code":%d,"title":%q,"detail":%q}]}`, code, title, detail)
}

func unprocessable(detail string) string { return cfError(10008, "CF-UnprocessableEntity", detail) }

// refusalCase is an answer to a call, and the line of the table that it must meet.
type refusalCase struct {
	rule   string
	status int
	router string
	body   string
	reply  lifecycle.Reply
}

// unservedCases are answers of what could not or would not serve the call.
func unservedCases() []refusalCase {
	const busy, unknown = lifecycle.ReplyBusy, lifecycle.ReplyUnknown
	return []refusalCase{
		{"limited", 429, "", cfError(10013, "CF-RateLimitExceeded", "Rate Limit Exceeded"), busy},
		{"limited", 429, "", cfError(10016, "CF-ServiceBrokerRateLimitExceeded", "Service broker concurrent request limit exceeded"), busy},
		{"not Cloud Foundry's answer", 429, "", "<html>too many</html>", unknown},
		{"no route to the API", 404, "unknown_route", "404 Not Found: Requested route ('api.x') does not exist.", busy},
		{"no Cloud Controller runs", 503, "no_endpoints", "Requested route has no available endpoints.", busy},
		{"not Cloud Foundry's answer", 404, "", "<html>not found</html>", unknown},
		{"not Cloud Foundry's answer", 404, "", `{"error":"not found"}`, unknown},
		{"not Cloud Foundry's answer", 404, "", `{"errors":[]}`, unknown},
		{"not Cloud Foundry's answer", 422, "", `{"errors":[{"code":10008,"title":"CF-Unpr`, unknown},
		{"not Cloud Foundry's answer", 422, "", ``, unknown},
		{"not Cloud Foundry's answer", 502, "endpoint_failure (EOF)", "502 Bad Gateway: Registered endpoint failed to handle the request.", unknown},
		{"not Cloud Foundry's answer", 503, "", "API down for maintenance", unknown},
		{"not Cloud Foundry's answer", 504, "", "<html>504</html>", unknown},
		{"not Cloud Foundry's answer", 500, "", "", unknown},
		{"not Cloud Foundry's answer", 307, "", "", unknown},
		{"fault inside Cloud Foundry", 500, "", cfError(10001, "UnknownError", "An unknown error occurred."), unknown},
		{"fault inside Cloud Foundry", 500, "", cfError(10011, "CF-DatabaseError", "Database error"), unknown},
		{"unhandled fault", 502, "", cfError(10001, "CF-ServiceBrokerBadResponse", "The service broker returned an invalid response."), unknown},
		{"cannot serve now", 503, "", cfError(10015, "CF-ServiceUnavailable", "Database connection failure"), busy},
		{"cannot serve now", 502, "", cfError(20004, "CF-UaaUnavailable", "The UAA service is currently unavailable"), busy},
	}
}

// refusalCases are answers of a Cloud Controller that looked at the call.
func refusalCases() []refusalCase {
	const busy, refused = lifecycle.ReplyBusy, lifecycle.ReplyRefused
	return []refusalCase{
		{"not logged in", 401, "", cfError(1000, "CF-InvalidAuthToken", "Invalid Auth Token"), busy},
		{"not logged in", 401, "", cfError(10002, "CF-NotAuthenticated", "Authentication error"), busy},
		{"no valid login", 403, "", cfError(10002, "CF-NotAuthenticated", "Authentication error"), busy},
		{"absent", 404, "", cfError(10010, "CF-ResourceNotFound", "Service instance not found"), lifecycle.ReplyAbsent},
		{"absent", 404, "", cfError(60004, "CF-ServiceInstanceNotFound", "The service instance could not be found: x"), lifecycle.ReplyAbsent},
		{"no such call", 404, "", cfError(10000, "CF-NotFound", "Unknown request"), busy},
		{"too slow", 408, "", cfError(10099, "CF-Timeout", "too slow"), busy},
		{"operation in progress", 409, "", cfError(60016, "CF-AsyncServiceInstanceOperationInProgress", "An operation for service instance x is in progress."), busy},
		{"operation in progress", 409, "", cfError(90008, "CF-AsyncServiceBindingOperationInProgress", "An operation is in progress."), busy},
		{"instance name taken", 422, "", unprocessable("The service instance name is taken: x."), lifecycle.ReplyTaken},
		{"instance name taken", 422, "", cfError(10016, "CF-UniquenessError", "The service instance name is taken: x"), lifecycle.ReplyTaken},
		{"instance name taken", 422, "", cfError(60002, "CF-ServiceInstanceNameTaken", "The service instance name is taken: x"), lifecycle.ReplyTaken},
		{"key name taken", 422, "", unprocessable("The binding name is invalid. Key binding names must be unique. The service instance already has a key binding with name 'N'."), lifecycle.ReplyTaken},
		{"key name taken", 422, "", unprocessable("The binding name is invalid. Key binding names must be unique. The service instance already has a key binding with the name 'N' that is getting deleted or its deletion failed."), lifecycle.ReplyTaken},
		{"key name taken, Korifi", 422, "", unprocessable("Service binding already exists: App:  Service Instance: G Service Binding: N"), lifecycle.ReplyTaken},
		{"name taken, older code", 400, "", cfError(360001, "CF-ServiceKeyNameTaken", "The service key name is taken: N"), lifecycle.ReplyTaken},
		{"operation in progress, 422", 422, "", unprocessable("There is an operation in progress for the service instance."), busy},
		{"operation in progress, 422", 422, "", unprocessable("There is an operation in progress for the service binding."), busy},
		{"broker is being read", 422, "", unprocessable("The service instance cannot be created because there is an operation in progress for the service broker."), busy},
		{"space gone", 422, "", unprocessable("Invalid space. Ensure that the space exists and you have access to it."), busy},
		{"space going", 422, "", cfError(10020, "CF-ResourceBeingDeleted", "The space is being deleted"), busy},
		{"lost a race for metadata", 422, "", cfError(10016, "CF-UniquenessError", "Label or annotation exists"), busy},
		{"other version wanted", 422, "", unprocessable("maintenance_info.version requested is invalid. Please ensure the catalog is up to date."), refused},
		{"no upgrades", 422, "", unprocessable("The service broker does not support upgrades for service instances created from this plan."), refused},
		{"refused", 422, "", unprocessable("You have exceeded your organization's services limit."), refused},
		{"plan gone or hidden", 422, "", unprocessable("Invalid service plan. Ensure that the service plan exists, is available, and you have access to it."), refused},
		{"refused", 422, "", unprocessable("The service instance cannot be created because paid service plans are not allowed."), refused},
		{"refused", 422, "", unprocessable("Parameters must be an object"), refused},
		{"refused", 422, "", unprocessable("The service does not support changing plans."), refused},
		{"refused", 422, "", cfError(10020, "CF-ResourceBeingDeleted", "The organization is being deleted"), refused},
		{"plan of another offering", 400, "", cfError(1002, "CF-InvalidRelation", "service plan relates to a different service offering"), refused},
		{"not allowed", 403, "", cfError(330002, "CF-FeatureDisabled", "Feature Disabled: service_instance_creation"), busy},
		{"not allowed", 403, "", cfError(10003, "CF-NotAuthorized", "You are not authorized to perform the requested action"), busy},
		{"not allowed", 403, "", cfError(10017, "CF-OrgSuspended", "The organization is suspended"), busy},
		{"shared with others", 422, "", cfError(390002, "CF-ServiceInstanceDeletionSharesExists", "Service instances must be unshared before they can be deleted."), busy},
	}
}

// TestRefusals looks which line of the table each kind of answer meets. Each line must be met.
func TestRefusals(t *testing.T) {
	t.Parallel()
	met := map[string]bool{}
	for _, test := range append(unservedCases(), refusalCases()...) {
		e := answered(t, test.status, test.router, test.body)
		if r := ruleFor(e); r.name != test.rule || r.reply != test.reply {
			t.Errorf("status %d %s met rule %q (%s), want %q (%s)", test.status, test.body, r.name, r.reply, test.rule, test.reply)
		}
		met[test.rule] = true
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

// answered makes the error of an answer.
func answered(t *testing.T, status int, router, body string) *ccapi.Error {
	t.Helper()
	s := newStub(t, func(w http.ResponseWriter, _ *http.Request) {
		if router != "" {
			w.Header().Set("X-Cf-RouterError", router)
		}
		reply(w, status, body)
	})
	_, err := s.backend(t, nil).places.api.Send(t.Context(), ccapi.Request{Method: http.MethodPost, Path: "/v3/x", What: "test"})
	e, ok := errors.AsType[*ccapi.Error](err)
	if !ok {
		t.Fatalf("status %d %s: %v", status, body, err)
	}
	return e
}

// TestCallAnswers checks whole answers to a call, successes included.
func TestCallAnswers(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		status   int
		location string
		body     string
		want     broker.Answer
	}{
		"a job is accepted":                     {202, "https://api.example.org/v3/jobs/j-1", "", broker.Answer{Reply: lifecycle.ReplyAccepted, Job: "j-1"}},
		"a job of Korifi is accepted":           {202, "/v3/jobs/managed_service_instance.create~g-1", "", broker.Answer{Reply: lifecycle.ReplyAccepted, Job: "managed_service_instance.create~g-1", GUID: "g-1"}},
		"accepted without a job is unknown":     {202, "", "", broker.Answer{Reply: lifecycle.ReplyUnknown}},
		"accepted with another link is unknown": {202, "https://api.example.org/v3/apps/j-1", "", broker.Answer{Reply: lifecycle.ReplyUnknown}},
		"accepted with an empty job is unknown": {202, "https://api.example.org/v3/jobs/", "", broker.Answer{Reply: lifecycle.ReplyUnknown}},
		"the resource is done":                  {200, "", `{"guid":"g-1"}`, broker.Answer{Reply: lifecycle.ReplyDone, GUID: "g-1"}},
		"a new resource is done":                {201, "", `{"guid":"g-1"}`, broker.Answer{Reply: lifecycle.ReplyDone, GUID: "g-1"}},
		"200 with a page is unknown":            {200, "", `<html>welcome</html>`, broker.Answer{Reply: lifecycle.ReplyUnknown}},
		"200 with another object is unknown":    {200, "", `{"ok":true}`, broker.Answer{Reply: lifecycle.ReplyUnknown}},
		"200 with half an object is unknown":    {200, "", `{"guid":"g-1","na`, broker.Answer{Reply: lifecycle.ReplyUnknown}},
		"an empty 204 to a POST is unknown":     {204, "", ``, broker.Answer{Reply: lifecycle.ReplyUnknown}},
		"206 is unknown":                        {206, "", `{"guid":"g-1"}`, broker.Answer{Reply: lifecycle.ReplyUnknown}},
		"a redirect is unknown":                 {307, "/v3/jobs/j-1", ``, broker.Answer{Reply: lifecycle.ReplyUnknown}},
		"a refusal explains itself without addresses": {422, "", unprocessable("You have exceeded it, see https://cf.example.org/quota now."),
			broker.Answer{Reply: lifecycle.ReplyRefused, Description: "Cloud Foundry refused the service instance: You have exceeded it, see [address] now."}},
		"a version conflict has its word": {422, "", unprocessable("maintenance_info.version requested is invalid."),
			broker.Answer{Reply: lifecycle.ReplyRefused, Code: "MaintenanceInfoConflict", Description: "Cloud Foundry refused the service instance: maintenance_info.version requested is invalid."}},
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
			if answer != test.want {
				t.Errorf("answer %+v, want %+v (%v)", answer, test.want, err)
			}
			success := test.want.Reply == lifecycle.ReplyAccepted || test.want.Reply == lifecycle.ReplyDone
			if (err == nil) != success {
				t.Errorf("error %v with reply %s", err, answer.Reply)
			}
			if n := s.count("POST /v3/service_instances"); n != 1 {
				t.Errorf("%d POSTs, want 1", n)
			}
		})
	}
}

func testCall() broker.InstanceCall {
	return broker.InstanceCall{
		Name: "one", Offering: "postgres", PlanGUID: "plan-guid",
		Parameters: []byte(`{"a": 1.0e0, "big":9007199254740993, "t":"<&> "}`),
		Marks:      broker.Marks{Client: "suite", Operation: "create-1", Seq: 12},
	}
}

func TestDeleteAnswersNoContent(t *testing.T) {
	t.Parallel()
	s := newStub(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })
	answer, err := s.backend(t, nil).DeleteInstance(t.Context(), "g")
	if answer.Reply != lifecycle.ReplyDone || err != nil {
		t.Errorf("answer %+v, %v; want done", answer, err)
	}
}

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

// TestRefusalsForNowSayWhy [16]: what an operator of that Cloud Foundry has to put right stands in the answer, for its
// users to read, and ends nothing for good.
func TestRefusalsForNowSayWhy(t *testing.T) {
	t.Parallel()
	for body, test := range map[string]struct {
		status int
		says   string
	}{
		cfError(10003, "CF-NotAuthorized", "You are not authorized to perform the requested action"):                                {403, "lacks a role"},
		cfError(10017, "CF-OrgSuspended", "The organization is suspended"):                                                          {403, "for now: The organization is suspended"},
		cfError(10019, "CF-SpaceSuspended", "The space is suspended"):                                                               {403, "for now: The space is suspended"},
		cfError(330002, "CF-FeatureDisabled", "Feature Disabled: see https://cf.example.org"):                                       {403, "for now: Feature Disabled: see [address]"},
		cfError(390002, "CF-ServiceInstanceDeletionSharesExists", "Service instances must be unshared before they can be deleted."): {422, "must be unshared"},
		unprocessable("There is an operation in progress for the service instance."):                                                {422, "operation in progress"},
		cfError(10013, "CF-RateLimitExceeded", "Rate Limit Exceeded"):                                                               {429, "takes no more requests"},
		cfError(10015, "CF-ServiceUnavailable", "Database connection failure"):                                                      {503, "Database connection failure"},
		cfError(1000, "CF-InvalidAuthToken", "Invalid Auth Token"):                                                                  {401, "cannot log in"},
	} {
		for request := range everyCall(t.Context(), nil) {
			s := newStub(t, func(w http.ResponseWriter, _ *http.Request) { reply(w, test.status, body) })
			b := s.backend(t, nil)
			b.instances.flavors.learn(cloudController)
			answer, err := everyCall(t.Context(), b)[request]()
			if answer.Reply != lifecycle.ReplyBusy || !strings.Contains(answer.Description, test.says) || err == nil {
				t.Errorf("%s answered %s: %+v, %v; want busy that says %q", request, body, answer, err, test.says)
			}
		}
	}
}

// TestBrokersWordIsSaidOnce [30]: where the platform is a Cloud Foundry it puts the same words before ours.
func TestBrokersWordIsSaidOnce(t *testing.T) {
	t.Parallel()
	s := newStub(t, func(w http.ResponseWriter, r *http.Request) {
		const text = "Service broker error: Service broker error: no room"
		if r.Method != http.MethodGet {
			reply(w, 422, cfError(10009, unable, "update could not be completed: "+text))
			return
		}
		if r.URL.Path == "/v3/jobs/j" {
			reply(w, 200, failedWith(10009, unable, "provision could not be completed: "+text))
			return
		}
		reply(w, 200, rowWith(`{"type":"create","state":"failed","description":"`+text+`"}`))
	})
	b := s.backend(t, nil)
	b.instances.flavors.learn(cloudController)
	job, err := b.Job(t.Context(), "j")
	if err != nil || job.Description != "no room" || !job.FromBackingBroker {
		t.Errorf("job %+v, %v; want the broker's word alone", job, err)
	}
	look, err := b.FindInstance(t.Context(), "g")
	if err != nil || len(look.Rows) != 1 || look.Rows[0].Last.Description != "no room" {
		t.Errorf("row %+v, %v; want the broker's word alone", look, err)
	}
	answer, _ := b.UpdateInstance(t.Context(), "g", testCall())
	if !answer.FromBackingBroker || answer.Reply != lifecycle.ReplyRefused || !strings.HasSuffix(answer.Description, ": no room") {
		t.Errorf("answer %+v; want a refusal on the broker's word", answer)
	}
}

// TestLookUpErrorsSpeakToUsers: an operation that waits for the operator says so, and tells nothing of where things
// are.
func TestLookUpErrorsSpeakToUsers(t *testing.T) {
	t.Parallel()
	for says, test := range map[string]struct {
		org, spaces string
		handle      http.HandlerFunc
	}{
		"does not see its org": {"secret-org", "", busyCloud},
		"lacks a role":         {"ferry", emptyList, lists(emptyList)},
		"does not answer":      {"ferry", "", hangUp},
	} {
		s := newStub(t, test.handle)
		s.token, s.spaces = tokenWith(`{"client_id":"ferry"}`), test.spaces
		b := s.backend(t, func(c *Config) { c.Org = test.org })
		_, err := b.FindInstances(broker.WithOffering(t.Context(), "postgres"), "one")
		said, ok := errors.AsType[broker.UserTexter](err)
		if !ok || !strings.Contains(said.UserText(), says) || strings.Contains(said.UserText(), "secret-org") {
			t.Errorf("%v; want it to say %q", err, says)
		}
	}
}

// lists answers every list, and nothing else.
func lists(body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { reply(w, 200, body) }
}

// everyCall makes each of the five calls once.
func everyCall(ctx context.Context, b *Backend) map[string]func() (broker.Answer, error) {
	key := broker.KeyCall{Name: "k", InstanceGUID: "g", Marks: testCall().Marks}
	return map[string]func() (broker.Answer, error){
		"POST /v3/service_instances":                func() (broker.Answer, error) { return b.CreateInstance(ctx, testCall()) },
		"PATCH /v3/service_instances/g":             func() (broker.Answer, error) { return b.UpdateInstance(ctx, "g", testCall()) },
		"DELETE /v3/service_instances/g":            func() (broker.Answer, error) { return b.DeleteInstance(ctx, "g") },
		"POST /v3/service_credential_bindings":      func() (broker.Answer, error) { return b.CreateKey(ctx, key) },
		"DELETE /v3/service_credential_bindings/k1": func() (broker.Answer, error) { return b.DeleteKey(ctx, "k1") },
	}
}

// TestNothingIsRepeated has the server read each call and hang up, on connections that were used before, which is when
// net/http repeats what it may.
func TestNothingIsRepeated(t *testing.T) {
	t.Parallel()
	s := newStub(t, hangUp)
	for request := range everyCall(t.Context(), nil) {
		b := s.backend(t, nil)
		if _, err := b.places.space(t.Context(), "postgres"); err != nil { // warms the connection
			t.Fatal(err)
		}
		answer, err := everyCall(t.Context(), b)[request]()
		if answer.Reply != lifecycle.ReplyUnknown || err == nil {
			t.Errorf("%s: answer %+v, %v; want unknown with an error", request, answer, err)
		}
		if n := s.count(request); n != 1 {
			t.Errorf("%s was sent %d times, want once", request, n)
		}
	}
}
