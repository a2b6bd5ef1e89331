package cf

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"testing"

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
