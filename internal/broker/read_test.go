package broker_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ferry-broker/ferry/internal/broker"
	"github.com/ferry-broker/ferry/internal/brokertest"
	"github.com/ferry-broker/ferry/internal/lifecycle"
	"github.com/ferry-broker/ferry/internal/osb"
)

func (r *run) fetchInstance() (broker.InstanceBody, error) {
	return r.Broker.FetchInstance(r.t.Context(), broker.FetchRequest{Client: brokertest.Client, InstanceID: "i"})
}

func (r *run) fetchBinding() (broker.BindingBody, error) {
	return r.Broker.FetchBinding(r.t.Context(), broker.FetchRequest{Client: brokertest.Client, InstanceID: "i", BindingID: "b"})
}

// TestFetchWithoutParameters [FB-09, FI-10, FB-02, FB-06]: the parameters are a part that may be missing, whatever the
// reason; the credentials are at hand.
func TestFetchWithoutParameters(t *testing.T) {
	t.Parallel()
	for name, cloud := range map[string]mute{
		"the backing broker refuses":  {err: errors.New("502: " + marked)},
		"nobody answers":              {err: context.DeadlineExceeded},
		"they are not offered":        {err: broker.ErrNotRetrievable},
		"not found, and yet it lives": {err: broker.ErrNotFound},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRun(t, quick())
			log := r.logs()
			r.ready()
			r.bound()
			cloud.Backend = r.Cloud
			r.Backend.Backend = cloud
			binding, err := r.fetchBinding()
			if err != nil || len(binding.Parameters) != 0 || !strings.Contains(string(binding.Credentials), brokertest.SecretOf("")) {
				t.Errorf("binding = %+v, %v; want credentials without parameters", binding, err)
			}
			instance, err := r.fetchInstance()
			if err != nil || len(instance.Parameters) != 0 || instance.PlanID != brokertest.PlanID(brokertest.PlanSmall) {
				t.Errorf("instance = %+v, %v; want it without parameters", instance, err)
			}
			if text := log.String(); strings.Contains(text, marked) || strings.Contains(text, "level=WARN") {
				t.Errorf("the log:\n%s", text)
			}
		})
	}
}

// detailed is a Cloud Foundry that tells these details of every key.
type detailed struct {
	broker.Backend
	details broker.KeyDetails
	err     error
	asked   *int
}

func (d detailed) KeyDetails(context.Context, string, string) (broker.KeyDetails, error) {
	*d.asked++
	return d.details, d.err
}

// TestBindingsWithoutCredentials [BIND-25, BIND-28, FB-07]: volumes and log drains may have none, and what there is
// else is handed on.
func TestBindingsWithoutCredentials(t *testing.T) {
	t.Parallel()
	for name, credentials := range map[string]string{"absent": "", "null": "null", "an empty object": "{}"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newReady(t, quick())
			want := broker.KeyDetails{
				Credentials: json.RawMessage(credentials), SyslogDrainURL: "syslog://drain",
				VolumeMounts: json.RawMessage(`[{"driver":"nfs"}]`), Endpoints: json.RawMessage(`[{"host":"h"}]`),
			}
			asked := 0
			r.Backend.Backend = detailed{Backend: r.Cloud, details: want, asked: &asked}
			made, err := bindWith(sync).send(r)
			if err != nil || made.Outcome != broker.OutcomeCreated {
				t.Fatalf("bind = %+v, %v", made, err)
			}
			again, err := bindWith(sync).send(r)
			if err != nil || again.Outcome != broker.OutcomeExists {
				t.Fatalf("bind again = %+v, %v", again, err)
			}
			fetched, err := r.fetchBinding()
			if err != nil {
				t.Fatal(err)
			}
			for what, got := range map[string]broker.KeyDetails{"made": made.Binding.KeyDetails, "again": again.Binding.KeyDetails, "fetched": fetched.KeyDetails} {
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("%s (-want +got):\n%s", what, diff)
				}
			}
		})
	}
}

// TestCredentialsThatAreNone: what is no JSON object cannot be handed on, and trying again does not help; the answer
// says so at once.
func TestCredentialsThatAreNone(t *testing.T) {
	t.Parallel()
	for name, says := range map[string]error{"in the backend's words": told{broker.ErrCredentials}, "without any": broker.ErrCredentials} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newReady(t, quick())
			asked := 0
			r.Backend.Backend = detailed{Backend: r.Cloud, err: says, asked: &asked}
			answers := map[string]error{}
			_, answers["bind"] = bindWith(sync).send(r)
			_, answers["bind again"] = bindWith(sync).send(r)
			_, answers["fetch"] = r.fetchBinding()
			for what, err := range answers {
				e, ok := errors.AsType[*broker.Error](err)
				if !ok || e.Code != broker.CodeBackend || !strings.Contains(e.Description, "not a JSON object") {
					t.Errorf("%s: %v; want the reason", what, err)
				}
			}
			if asked != 3 {
				t.Errorf("%d reads of the details for 3 requests", asked)
			}
		})
	}
}

// told is an error with words for users.
type told struct{ error }

func (t told) Unwrap() error { return t.error }

func (told) UserText() string { return "They are a list and not a JSON object." }

// TestWhatVanishedIsNotFound [FI-06, FB-05]: instance and binding agree about what is gone in Cloud Foundry. What
// nobody confirms is not gone.
func TestWhatVanishedIsNotFound(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		look error
		want string
	}{
		"confirmed":                      {nil, "NotFound"},
		"a look-up that is not answered": {errors.New("no answer"), ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newReady(t, quick())
			r.Cloud.Vanish("i")
			if test.look != nil {
				r.unanswered(test.look)
			}
			before := r.dump()
			_, err := r.fetchInstance()
			if got := codeOrNone(err); got != test.want {
				t.Errorf("GET of the instance: %q (%v), want %q", got, err, test.want)
			}
			r.unchanged(before)
		})
	}
}

func codeOrNone(err error) string {
	if err == nil {
		return ""
	}
	return string(broker.CodeOf(err))
}

// TestAbsentElsewhereIsNotGone (docs/protocol.md 3.2): the client was pointed at another org since.
func TestAbsentElsewhereIsNotGone(t *testing.T) {
	t.Parallel()
	var cancel context.CancelFunc // what waits has waited long enough
	o := quick()
	o.Configure = func(o *broker.Options) {
		sleep := o.Sleep
		o.Sleep = func(ctx context.Context, d time.Duration) error {
			if cancel != nil {
				cancel()
			}
			return sleep(ctx, d)
		}
	}
	r := newReady(t, o)
	r.bound()
	for _, key := range []broker.Key{instanceKey(), bindingKey()} {
		rec := r.record(key)
		rec.Lifecycle.Place = r.place()
		r.store(rec)
	}
	r.Backend.Backend = brokertest.NewFakeCloud(brokertest.CloudOptions{
		Now: r.Now, Place: broker.Place{API: "https://elsewhere.example", OrgGUID: "org"},
	})
	if _, err := r.fetchInstance(); err != nil {
		t.Errorf("GET of the instance: %v, want what the record says", err)
	}
	ctx, end := context.WithCancel(t.Context())
	defer end()
	cancel = end
	if _, err := r.fetchBinding(); broker.CodeOf(err) != broker.CodeUnavailable {
		t.Errorf("GET of the binding: %v, want it unavailable", err)
	}
	if _, err := bindWith(sync)(ctx, r.Broker); broker.CodeOf(err) == broker.CodeBackend {
		t.Errorf("the duplicate of a bind: %v, want no word of what is absent elsewhere", err)
	}
}

// TestTheOtherVerbsOnWhatVanished is the row of docs/osb-choices.md: they answer from the record, and their operations
// end with the reason.
func TestTheOtherVerbsOnWhatVanished(t *testing.T) {
	t.Parallel()
	vanished := func(t *testing.T) *run {
		r := newReady(t, quick())
		r.bound()
		r.Cloud.Vanish("i")
		return r
	}
	t.Run("PUT same", func(t *testing.T) {
		t.Parallel()
		if got := vanished(t).outcome(putOf(same)); got != "exists" {
			t.Errorf("%s, want it to exist", got)
		}
	})
	t.Run("PATCH", func(t *testing.T) {
		t.Parallel()
		r := vanished(t)
		op := r.accepted(r.patch(brokertest.PlanLarge))
		r.drive(op)
		if p, err := r.polled(op); err != nil || p.InstanceUsable == nil || p.UpdateRepeatable == nil {
			t.Errorf("%+v, %v; want it failed, the instance unusable", p, err)
		}
	})
	t.Run("a new bind", func(t *testing.T) {
		t.Parallel()
		r := vanished(t)
		if got := r.outcome(bindWith(func(q *broker.BindRequest) { sync(q); q.BindingID = "new" })); got != string(broker.CodeBackend) {
			t.Errorf("%s, want the refusal of Cloud Foundry", got)
		}
	})
	t.Run("a bind again", func(t *testing.T) {
		t.Parallel()
		if got := vanished(t).outcome(bindWith(sync)); got != string(broker.CodeBackend) {
			t.Errorf("%s, want to hear that the credentials do not exist", got)
		}
	})
	t.Run("DELETE", func(t *testing.T) {
		t.Parallel()
		r := vanished(t)
		r.drive(r.accepted(r.remove()))
		if s := r.record(instanceKey()).Lifecycle.State; s != lifecycle.Gone {
			t.Errorf("the instance is %q", s)
		}
	})
}

// TestBindingsOfWhatIsGoneExpire [8]: the records of bindings do not outlive their instance for ever, however they came
// to be left.
func TestBindingsOfWhatIsGoneExpire(t *testing.T) {
	t.Parallel()
	for name, given := range map[string]func(*run){
		"of an instance that vanished": func(r *run) {
			r.drive(r.accepted(r.bind()))
			r.Cloud.Vanish("i")
			r.drive(r.accepted(r.remove()))
		},
		"whose unbind had failed": func(r *run) {
			r.drive(r.accepted(r.bind()))
			r.failed(r.accepted(r.unbind()))
			r.drive(r.accepted(r.remove()))
		},
		"claimed while it was being deleted": func(r *run) {
			late := r.Reach(r.bind(), "Put")
			gone := r.accepted(r.remove())
			r.step(gone)
			op := r.accepted(late)
			r.drive(op)
			r.drive(gone)
		},
		"claimed when it was gone": func(r *run) {
			late := r.Reach(r.bind(), "Put")
			r.drive(r.accepted(r.remove()))
			r.drive(r.accepted(late))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newReady(t, brokertest.ScheduleOptions{})
			given(r)
			r.left(0)
			if _, err := r.Store.Get(t.Context(), bindingKey()); err != nil {
				t.Errorf("the binding is forgotten at once: %v; its polls need it", err)
			}
			r.Advance(193 * time.Hour)
			if all := r.Store.All(); len(all) != 0 {
				t.Errorf("eight days later the store holds %s of %v", all[0].Lifecycle.State, all[0].Key)
			}
		})
	}
}

// place is where the cloud says that it is.
func (r *run) place() broker.Place {
	r.t.Helper()
	place, err := r.Cloud.Place(r.t.Context())
	if err != nil {
		r.t.Fatal(err)
	}
	return place
}

// TestFetchWhileCloudFoundryIsBusy: FI-08; a row that is in progress behind our back is no outage.
func TestFetchWhileCloudFoundryIsBusy(t *testing.T) {
	t.Parallel()
	r := newReady(t, brokertest.ScheduleOptions{})
	r.Backend.Backend = mute{Backend: r.Cloud, err: fmt.Errorf("409: %w", broker.ErrBusy)}
	_, err := r.fetchInstance()
	if broker.CodeOf(err) != broker.CodeConcurrency {
		t.Errorf("fetch: %v; want %s", err, broker.CodeConcurrency)
	}
}

// TestPolls: OSB "Polling Last Operation", and "Deletes and polls" in docs/osb-choices.md.
func TestPolls(t *testing.T) {
	t.Parallel()
	r := newRun(t, brokertest.ScheduleOptions{})
	poll := func(operation string) string {
		p, err := r.Broker.LastOperation(t.Context(), broker.PollRequest{Client: brokertest.Client, InstanceID: "i", Operation: operation})
		if err != nil {
			return string(broker.CodeOf(err))
		}
		if (p.State == osb.InProgress) != (p.RetryAfter > 0) || (p.State == osb.Succeeded) != (p.Description == "") {
			t.Errorf("poll of %q = %+v: Retry-After while in progress, a description until it has succeeded", operation, p)
		}
		if p.DeleteDone {
			return "deleted"
		}
		return string(p.State)
	}
	expect := func(when string, want map[string]string) {
		t.Helper()
		for operation, state := range want {
			if got := poll(operation); got != state {
				t.Errorf("%s: poll of %q = %s, want %s", when, operation, got, state)
			}
		}
	}
	expect("never seen", map[string]string{"": "NotFound", "create-1": "NotFound", "delete-1": "Gone"})
	created := r.accepted(r.put())
	expect("creating", map[string]string{"": "in progress", created: "in progress", "invented": "in progress"})
	gone := r.accepted(r.remove())
	expect("cancelled", map[string]string{"": "in progress", created: "failed", gone: "in progress", "invented": "in progress"})
	r.drive(gone)
	expect("gone", map[string]string{"": "deleted", created: "failed", gone: "deleted", "invented": "deleted"})
	made := r.ready()
	expect("made again", map[string]string{"": "succeeded", made: "succeeded", "invented": "succeeded", gone: "deleted"})
	r.failed(r.accepted(r.patch(brokertest.PlanLarge)))
	expect("update failed", map[string]string{"": "failed", made: "succeeded"})
	r.drive(r.accepted(r.remove()))
	r.Advance(193 * time.Hour)
	expect("forgotten", map[string]string{"": "NotFound", made: "NotFound", gone: "Gone"})
}

// TestFetch: what a GET answers in each state ("Deletes and polls" in docs/osb-choices.md).
func TestFetch(t *testing.T) {
	t.Parallel()
	for state, want := range map[string]string{
		"absent": "NotFound", "creating": "NotFound", "ready": "found", "updating": "ConcurrencyError", "deleting": "ConcurrencyError",
		"create failed": "NotFound", "update failed": "found", "delete failed": "found", "gone": "NotFound",
	} {
		t.Run(state, func(t *testing.T) {
			t.Parallel()
			r := newRun(t, brokertest.ScheduleOptions{})
			states()[state](r)
			body, err := r.fetchInstance()
			got := "found"
			if err != nil {
				got = string(broker.CodeOf(err))
			}
			if got != want {
				t.Errorf("got %s, want %s", got, want)
			}
			if got == "found" && (body.PlanID != brokertest.PlanID(brokertest.PlanSmall) || string(body.Parameters) != `{"size": 1}`) {
				t.Errorf("body = %+v", body)
			}
		})
	}
}

func TestFetchOfABinding(t *testing.T) {
	t.Parallel()
	r := newRun(t, brokertest.ScheduleOptions{})
	missing := func(when string) {
		t.Helper()
		if _, err := r.fetchBinding(); broker.CodeOf(err) != broker.CodeNotFound {
			t.Errorf("%s: %v, want it not found", when, err)
		}
	}
	r.ready()
	missing("absent")
	bound := r.accepted(r.bind())
	missing("while it is made")
	r.drive(bound)
	body, err := r.fetchBinding()
	if err != nil || !strings.Contains(string(body.Credentials), brokertest.SecretOf("")) {
		t.Errorf("ready: %+v, %v", body, err)
	}
	gone := r.accepted(r.unbind())
	missing("while it is deleted")
	r.drive(gone)
	missing("gone")
	r.drive(r.accepted(r.bind()))
	r.Cloud.Vanish("b")
	missing("when its key has vanished")
}
