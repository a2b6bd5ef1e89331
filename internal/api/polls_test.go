package api

import (
	"context"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ferry-broker/ferry/internal/broker"
	"github.com/ferry-broker/ferry/internal/osb"
)

// LOI-01 to LOI-26, LOB-01 to LOB-17.
func TestPolls(t *testing.T) {
	t.Parallel()
	no := false
	client := func(name string) option { return as(name, "p"+name) }
	failed := broker.Poll{State: osb.Failed, Description: "why", InstanceUsable: &no, UpdateRepeatable: &no, RetryAfter: 9}
	for _, test := range []struct {
		name, target     string
		client           string
		poll             broker.Poll
		status           int
		want, retryAfter string
	}{
		{"in progress", instanceURL, "a", broker.Poll{State: osb.InProgress, RetryAfter: 5}, 200, `{"state":"in progress"}`, "5"},
		{"in progress with much to say", instanceURL, "a", broker.Poll{State: osb.InProgress, Description: "half", RetryAfter: 999, InstanceUsable: &no}, 200, `{"state":"in progress","description":"half"}`, "300"},
		{"succeeded", instanceURL, "a", broker.Poll{State: osb.Succeeded, RetryAfter: 9}, 200, `{"state":"succeeded"}`, ""},
		{"a failed instance", instanceURL, "a", failed, 200, `{"state":"failed","description":"why","instance_usable":false,"update_repeatable":false}`, ""},
		{"a failed binding", bindingURL, "a", failed, 200, `{"state":"failed","description":"why"}`, ""},
		{"a finished delete", instanceURL, "a", broker.Poll{State: osb.Succeeded, DeleteDone: true}, 200, `{"state":"succeeded"}`, ""},
		{"a finished delete for a client with the quirk", instanceURL, "b", broker.Poll{State: osb.Succeeded, DeleteDone: true}, 410, `{}`, ""},
		{"a finished unbind for a client with the quirk", bindingURL, "b", broker.Poll{State: osb.Succeeded, DeleteDone: true}, 410, `{}`, ""},
		{"a finished create for a client with the quirk", instanceURL, "b", broker.Poll{State: osb.Succeeded}, 200, `{"state":"succeeded"}`, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			b.broker.poll = func(context.Context, broker.PollRequest) (broker.Poll, error) { return test.poll, nil }
			w := b.send("GET", test.target+"/last_operation", "", client(test.client))
			object(t, w)
			if got := strings.TrimSpace(w.Body.String()); w.Code != test.status || got != test.want {
				t.Errorf("%d %s, want %d %s", w.Code, got, test.status, test.want)
			}
			if got := w.Header().Get("Retry-After"); got != test.retryAfter {
				t.Errorf("Retry-After = %q, want %q", got, test.retryAfter)
			}
		})
	}
}

func TestAPollPassesItsOperationAndNothingElse(t *testing.T) {
	t.Parallel()
	for target, want := range map[string]broker.PollRequest{
		instanceURL + "/last_operation":                                         {Client: "alpha", InstanceID: "i1"},
		instanceURL + "/last_operation?operation=a%2Bb%20c&service_id=&plan_id": {Client: "alpha", InstanceID: "i1", Operation: "a+b c"},
		bindingURL + "/last_operation?operation=x&operation=y":                  {Client: "alpha", InstanceID: "i1", BindingID: "b1", Operation: "x"},
	} {
		b := newBench(t)
		var got broker.PollRequest
		b.broker.poll = func(_ context.Context, r broker.PollRequest) (broker.Poll, error) {
			got = r
			return broker.Poll{State: osb.Succeeded}, nil
		}
		w := b.send("GET", target, "")
		if diff := cmp.Diff(want, got); w.Code != 200 || diff != "" {
			t.Errorf("%s: status %d, request (-want +got):\n%s", target, w.Code, diff)
		}
	}
}
