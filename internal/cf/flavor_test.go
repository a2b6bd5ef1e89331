package cf

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ferry-broker/ferry/internal/broker"
	"github.com/ferry-broker/ferry/internal/lifecycle"
)

// korifiStub answers as korifi-api does, as far as the adapter can tell it from a Cloud Controller.
type korifiStub struct {
	mu      sync.Mutex
	refused int // filters and fields
	keys    []string
}

func newKorifi(t *testing.T) (*stub, *korifiStub) {
	t.Helper()
	k := &korifiStub{}
	s := newStub(t, k.answer)
	ordinary := s.Config.Handler
	s.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		q := r.URL.Query()
		market := strings.HasPrefix(r.URL.Path, "/v3/service_offerings") || strings.HasPrefix(r.URL.Path, "/v3/service_plans")
		refuses := r.URL.Path == "/v3/service_instances" && q.Has("organization_guids") || q.Has("fields[space]") ||
			market && (q.Has("organization_guids") || q.Has("available")) ||
			r.URL.Path == "/v3/service_credential_bindings" && q.Has("names")
		if refuses {
			k.mu.Lock()
			k.refused++
			k.mu.Unlock()
			reply(w, 400, cfError(10005, "CF-BadQueryParameter", "The query parameter is invalid: Valid parameters are: 'names'"))
			return
		}
		if r.URL.Path == "/v3/spaces" && q.Has("guids") {
			reply(w, 200, list(korifiSpace("s1", "org-guid"), korifiSpace("s2", "other-org")))
			return
		}
		ordinary.ServeHTTP(w, r)
	})
	return s, k
}

func korifiSpace(guid, org string) string {
	return `{"guid":"` + guid + `","relationships":{"organization":{"data":{"guid":"` + org + `"}}}}`
}

func (k *korifiStub) answer(w http.ResponseWriter, r *http.Request) {
	switch r.Method + " " + r.URL.Path {
	case "GET /v3/service_instances":
		row := func(guid, space string) string {
			return `{"guid":"` + guid + `","name":"one","relationships":{"space":{"data":{"guid":"` + space + `"}}},
				"metadata":{"labels":{"ferry-client":"suite"},"annotations":{"ferry-operation":"create-1","ferry-seq":"7"}}}`
		}
		reply(w, 200, list(row("ours", "s1"), row("theirs", "s2"), row("untold", "s3")))
	case "GET /v3/service_credential_bindings":
		k.list(w)
	case "POST /v3/service_credential_bindings":
		k.make(w, r)
	case "GET /v3/service_offerings":
		reply(w, 200, list(`{"guid":"o1","name":"db","available":true}`))
	case "GET /v3/service_plans":
		reply(w, 200, list(`{"guid":"p1","name":"small","available":true,"relationships":{"service_offering":{"data":{"guid":"o1"}}}}`))
	default:
		reply(w, 200, `{"guid":"g"}`)
	}
}

func (k *korifiStub) list(w http.ResponseWriter) {
	k.mu.Lock()
	defer k.mu.Unlock()
	rows := make([]string, len(k.keys))
	for i, name := range k.keys {
		quoted, _ := json.Marshal(name)
		rows[i] = `{"guid":"` + url.PathEscape(name) + `","name":` + string(quoted) + `,"relationships":{"service_instance":{"data":{"guid":"ours"}}}}`
	}
	reply(w, 200, list(rows...))
}

func (k *korifiStub) make(w http.ResponseWriter, r *http.Request) {
	var sent map[string]any
	if json.NewDecoder(r.Body).Decode(&sent) != nil || sent["metadata"] != nil {
		reply(w, 422, unprocessable(`invalid request body: json: unknown field "metadata"`))
		return
	}
	k.mu.Lock()
	k.keys = append(k.keys, sent["name"].(string))
	k.mu.Unlock()
	w.Header().Set("Location", "/v3/jobs/managed_service_binding.create~"+"g")
	w.WriteHeader(202)
}

func (k *korifiStub) refusals() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.refused
}

// TestKorifisFiltersAreLearntOnce, whatever is read first.
func TestKorifisFiltersAreLearntOnce(t *testing.T) {
	t.Parallel()
	market := func(b *Backend) {
		market, err := b.Marketplace(t.Context())
		if err != nil || len(market.Offerings) != 1 || len(market.Offerings[0].Plans) != 1 {
			t.Errorf("marketplace %+v, %v", market, err)
		}
	}
	find := func(b *Backend) {
		look, err := b.FindInstances(t.Context(), broker.Lookup{Name: "one"})
		if diff := cmp.Diff([]string{"ours", "untold"}, guidsOf(look)); err != nil || diff != "" { // and not another org's
			t.Errorf("%v (-want +got):\n%s", err, diff)
		}
	}
	for _, reads := range [][]func(*Backend){{find, find, market}, {market, market, find}} {
		s, k := newKorifi(t)
		b := s.backend(t, nil)
		for _, read := range reads {
			read(b)
		}
		list, err := b.Marked(t.Context())
		if err != nil || len(list) != 2 {
			t.Errorf("marked %+v, %v; want two instances", list, err)
		}
		if n := k.refusals(); n != 2 {
			t.Errorf("%d filters were refused, want the first and the question that it raised", n)
		}
	}
}

func TestKorifisKeysAreNamedByOperation(t *testing.T) {
	t.Parallel()
	s, k := newKorifi(t)
	k.keys = []string{"somebody's", "other~ferry~bind-9~9"}
	b := s.backend(t, nil)
	call := broker.KeyCall{Name: "k", InstanceGUID: "ours", Marks: broker.Marks{Operation: "bind-1", Seq: 7}}
	answer, err := b.CreateKey(t.Context(), call)
	if answer.Reply != lifecycle.ReplyBusy || err == nil || answer.Job != "" {
		t.Fatalf("first try %+v, %v; want busy: Korifi takes no marks", answer, err)
	}
	if answer, err = b.CreateKey(t.Context(), call); answer.Reply != lifecycle.ReplyAccepted || !strings.Contains(answer.Job, "~") {
		t.Fatalf("second try %+v, %v; want accepted", answer, err)
	}
	call.Marks = broker.Marks{Operation: "bind-2", Seq: 8}
	if answer, err = b.CreateKey(t.Context(), call); answer.Reply != lifecycle.ReplyAccepted {
		t.Fatalf("another operation %+v, %v; want accepted", answer, err)
	}
	again := s.backend(t, nil) // as after a restart
	for _, b := range []*Backend{b, again} {
		look, err := b.FindKeys(t.Context(), broker.Lookup{Instance: "ours", Name: "k"})
		want := []broker.Row{
			{GUID: "k~ferry~bind-1~7", Marked: true, Operation: "bind-1", Seq: 7, MarkedByName: true},
			{GUID: "k~ferry~bind-2~8", Marked: true, Operation: "bind-2", Seq: 8, MarkedByName: true},
		}
		for i := range want {
			want[i].Last = lifecycle.LastOperation{Verb: lifecycle.Create, State: lifecycle.LastSucceeded}
		}
		if diff := cmp.Diff(want, look.Rows); err != nil || diff != "" {
			t.Errorf("%v (-want +got):\n%s", err, diff)
		}
	}
	names, err := again.ForeignKeys(t.Context(), "ours")
	if diff := cmp.Diff([]string{"somebody's"}, names); err != nil || diff != "" {
		t.Errorf("foreign keys: %v (-want +got):\n%s", err, diff)
	}
	list, err := again.Marked(t.Context())
	var ids []string
	for _, m := range list {
		ids = append(ids, m.Key.InstanceID+"/"+m.Key.BindingID)
	}
	if diff := cmp.Diff([]string{"one/", "one/", "one/other", "one/k", "one/k"}, ids); err != nil || diff != "" {
		t.Errorf("marked: %v (-want +got):\n%s", err, diff)
	}
}

// TestKorifiIsNotAskedToChange: it would say yes and do nothing.
func TestKorifiIsNotAskedToChange(t *testing.T) {
	t.Parallel()
	for name, call := range map[string]broker.InstanceCall{
		"plan":       {PlanGUID: "p"},
		"version":    {MaintenanceVersion: "2.0.0"},
		"parameters": {Parameters: json.RawMessage(`{}`)},
	} {
		s, _ := newKorifi(t)
		answer, err := s.backend(t, nil).UpdateInstance(t.Context(), "g", call)
		want := broker.Answer{Reply: lifecycle.ReplyRefused, Description: korifiCannot}
		if answer != want || err == nil || loginAtFault(err) {
			t.Errorf("%s: %+v, %v; want %+v", name, answer, err, want)
		}
		if s.count("PATCH /v3/service_instances/g") != 0 {
			t.Errorf("%s: a PATCH was sent", name)
		}
	}
	s, _ := newKorifi(t)
	if answer, err := s.backend(t, nil).UpdateInstance(t.Context(), "g", broker.InstanceCall{}); answer.Reply != lifecycle.ReplyDone {
		t.Errorf("a mark alone: %+v, %v; want done", answer, err)
	}
}

// TestNothingIsChangedWhileTheFlavorIsUnknown: not knowing it is no licence.
func TestNothingIsChangedWhileTheFlavorIsUnknown(t *testing.T) {
	t.Parallel()
	s := newStub(t, accept)
	ordinary := s.Config.Handler
	s.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/v3/service_instances" {
			reply(w, 502, "<html>")
			return
		}
		ordinary.ServeHTTP(w, r)
	})
	answer, err := s.backend(t, nil).UpdateInstance(t.Context(), "g", testCall())
	if answer.Reply != lifecycle.ReplyBusy || err == nil || s.count("PATCH /v3/service_instances/g") != 0 {
		t.Errorf("answer %+v, %v; want busy and nothing sent", answer, err)
	}
}

// TestOldCloudControllerIsNoKorifi: it knows fewer filters too, but changes what it is asked to.
func TestOldCloudControllerIsNoKorifi(t *testing.T) {
	t.Parallel()
	s := newStub(t, func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Query().Has("fields[space]"):
			reply(w, 400, cfError(10005, "CF-BadQueryParameter", "The query parameter is invalid: Unknown query parameter(s): 'fields'"))
		case r.Method == http.MethodGet:
			reply(w, 200, list(`{"guid":"g","name":"one"}`))
		default:
			accept(w, r)
		}
	})
	b := s.backend(t, nil)
	if look, err := b.FindInstances(t.Context(), broker.Lookup{Name: "one"}); err != nil || len(look.Rows) != 1 {
		t.Errorf("look %+v, %v; want the row", look.Rows, err)
	}
	if answer, err := b.UpdateInstance(t.Context(), "g", testCall()); answer.Reply != lifecycle.ReplyAccepted {
		t.Errorf("answer %+v, %v; want accepted", answer, err)
	}
}

// TestFlavorIsLearntByManyAtOnce runs under the race detector.
func TestFlavorIsLearntByManyAtOnce(t *testing.T) {
	t.Parallel()
	s, _ := newKorifi(t)
	b := s.backend(t, nil)
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			if look, err := b.FindInstances(t.Context(), broker.Lookup{Name: "one"}); err != nil || len(look.Rows) != 2 {
				t.Errorf("look %+v, %v", look.Rows, err)
			}
		})
		group.Go(func() {
			if answer, _ := b.UpdateInstance(t.Context(), "g", testCall()); answer.Reply != lifecycle.ReplyRefused {
				t.Errorf("answer %+v, want refused", answer)
			}
		})
	}
	group.Wait()
	if b.instances.flavors.known() != korifi {
		t.Error("nobody learnt that it is Korifi")
	}
}

func TestFlavorShowsInJobs(t *testing.T) {
	t.Parallel()
	for job, want := range map[string]flavor{"j-1": cloudController, "managed_service_instance.create~g": korifi} {
		var f flavors
		if f.learnFromJob(job); f.known() != want {
			t.Errorf("job %s: flavor %d, want %d", job, f.known(), want)
		}
		f.learn(korifi)
		if f.learn(cloudController); f.known() != korifi {
			t.Error("Korifi was unlearnt")
		}
	}
}

// TestKorifisInstancesMayBeGone: its API does not know the call for parameters, so that the answer to it does not tell
// whether there is an instance.
func TestKorifisInstancesMayBeGone(t *testing.T) {
	t.Parallel()
	s := newStub(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case instancesRoute + "/there":
			reply(w, 200, `{"guid":"there","name":"one"}`)
		case instancesRoute + "/gone":
			reply(w, 404, notFound("Service Instance not found. Ensure it exists and you have access to it."))
		case instancesRoute + "/unclear":
			reply(w, 502, "<html>")
		default:
			reply(w, 404, cfError(10000, "CF-NotFound", "Unknown request"))
		}
	})
	b := s.backend(t, nil)
	for guid, want := range map[string]error{"there": broker.ErrNotRetrievable, "gone": broker.ErrNotFound, "unclear": broker.ErrNotRetrievable} {
		if _, err := b.InstanceParameters(t.Context(), guid); !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", guid, err, want)
		}
	}
}
