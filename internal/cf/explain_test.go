package cf

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/ferry-broker/ferry/internal/broker"
	"github.com/ferry-broker/ferry/internal/lifecycle"
)

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
