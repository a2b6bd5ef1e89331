package cf

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ferry-broker/ferry/internal/broker"
)

// shelf is a Cloud Foundry with rows that a filter finds by name or by GUID, as both kinds of rows are filtered, and
// that notes the questions.
type shelf struct {
	mu    sync.Mutex
	rows  []shelved
	asked []string
}

type shelved struct{ guid, name, space, instance string }

func (h *shelf) answer(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	h.mu.Lock()
	defer h.mu.Unlock()
	h.asked = append(h.asked, "names="+q.Get("names")+" guids="+q.Get("guids"))
	if q.Has("guids") && (q.Get("guids") == "" || len(r.RequestURI) > 8000) {
		reply(w, 414, "<html>")
		return
	}
	var rows, spaces []string
	for _, row := range h.rows {
		byName := !q.Has("names") || strings.EqualFold(q.Get("names"), row.name) // as MySQL does
		byGUID := !q.Has("guids") || slices.Contains(strings.Split(q.Get("guids"), ","), row.guid)
		if byName && byGUID {
			rows = append(rows, fmt.Sprintf(`{"guid":%q,"name":%q,%s,"relationships":{"space":{"data":{"guid":%q}},"service_instance":{"data":{"guid":%q}}}}`,
				row.guid, row.name, ourMarks, row.space, row.instance))
		}
	}
	for _, org := range []string{"org-guid", "other-org"} {
		spaces = append(spaces, korifiSpace("space-of-"+org, org))
	}
	reply(w, 200, `{"pagination":{"next":null},"resources":[`+strings.Join(rows, ",")+`],"included":{"spaces":[`+strings.Join(spaces, ",")+`]}}`)
}

func guidsOf(look broker.Look) (guids []string) {
	for _, r := range look.Rows {
		guids = append(guids, r.GUID)
	}
	return guids
}

// TestRowsAreFoundByGUID (docs/protocol.md 1): whatever they are called now, each once, by a call of its own only when
// the name does not find them; and nothing of another org, or instance.
func TestRowsAreFoundByGUID(t *testing.T) {
	t.Parallel()
	const ours, theirs = "space-of-org-guid", "space-of-other-org"
	h := &shelf{rows: []shelved{
		{"g1", "one", ours, "i"}, {"g2", "renamed", ours, "i"}, {"g3", "ONE", ours, "i"},
		{"g4", "one", theirs, "other"}, {"g5", "renamed", theirs, "other"},
	}}
	s := newStub(t, h.answer)
	b := s.backend(t, nil)
	b.instances.flavors.learn(cloudController)
	for name, find := range map[string]func(...string) (broker.Look, error){
		"instances": func(guids ...string) (broker.Look, error) { return b.FindInstances(t.Context(), "one", guids...) },
		"keys":      func(guids ...string) (broker.Look, error) { return b.FindKeys(t.Context(), "i", "one", guids...) },
	} {
		for _, test := range []struct {
			guids []string
			want  []string
			asked []string
		}{
			{nil, []string{"g1"}, []string{"names=one guids="}},
			{[]string{"g1"}, []string{"g1"}, []string{"names=one guids="}},
			{[]string{"g1", "g2", "g2"}, []string{"g1", "g2"}, []string{"names=one guids=", "names= guids=g2"}},
			{[]string{"g3"}, []string{"g1", "g3"}, []string{"names=one guids="}}, // the database ignores case
			{[]string{"", "gone"}, []string{"g1"}, []string{"names=one guids=", "names= guids=gone"}},
			{[]string{"g4", "g5"}, []string{"g1"}, []string{"names=one guids=", "names= guids=g4,g5"}},
		} {
			h.asked = nil
			look, err := find(test.guids...)
			if diff := cmp.Diff(test.want, guidsOf(look)); err != nil || diff != "" {
				t.Errorf("%s %q: %v (-want +got):\n%s", name, test.guids, err, diff)
			}
			if diff := cmp.Diff(test.asked, h.asked); diff != "" {
				t.Errorf("%s %q asked (-want +got):\n%s", name, test.guids, diff)
			}
		}
	}
}

// TestManyGUIDsFitIntoAddresses: proxies refuse addresses of more than 8 KB.
func TestManyGUIDsFitIntoAddresses(t *testing.T) {
	t.Parallel()
	h := &shelf{}
	var guids []string
	for i := range 500 {
		guid := fmt.Sprintf("%08d-0000-4000-8000-000000000000", i)
		guids = append(guids, guid)
		h.rows = append(h.rows, shelved{guid, "renamed", "space-of-org-guid", "i"})
	}
	s := newStub(t, h.answer)
	b := s.backend(t, nil)
	b.instances.flavors.learn(cloudController)
	for name, find := range map[string]func(context.Context) (broker.Look, error){
		"instances": func(ctx context.Context) (broker.Look, error) { return b.FindInstances(ctx, "one", guids...) },
		"keys":      func(ctx context.Context) (broker.Look, error) { return b.FindKeys(ctx, "i", "one", guids...) },
	} {
		if look, err := find(t.Context()); err != nil || len(look.Rows) != len(guids) {
			t.Errorf("%s: %d rows, %v; want %d", name, len(look.Rows), err, len(guids))
		}
	}
}

// TestKorifisRowsAreFoundByGUID (docs/protocol.md 1): it is asked for each, and lists all keys of an instance anyway.
func TestKorifisRowsAreFoundByGUID(t *testing.T) {
	t.Parallel()
	s, k := newKorifi(t)
	k.keys = []string{"k~ferry~bind-1~7", "other"}
	ordinary := s.handle
	s.handle = func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/v3/service_instances/renamed":
			reply(w, 200, `{"guid":"renamed","name":"other",`+ourMarks+`,"relationships":{"space":{"data":{"guid":"s1"}}}}`)
		case "/v3/service_instances/elsewhere":
			reply(w, 200, `{"guid":"elsewhere","name":"other",`+ourMarks+`,"relationships":{"space":{"data":{"guid":"s2"}}}}`)
		case "/v3/service_instances/gone":
			reply(w, 404, cfError(10010, "CF-ResourceNotFound", "Service instance not found"))
		default:
			ordinary(w, r)
		}
	}
	b := s.backend(t, nil)
	look, err := b.FindInstances(t.Context(), "one", "renamed", "elsewhere", "gone", "ours")
	if diff := cmp.Diff([]string{"ours", "untold", "renamed"}, guidsOf(look)); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	before := len(s.requests)
	look, err = b.FindKeys(t.Context(), "ours", "k", "other", "gone")
	if diff := cmp.Diff([]string{"k~ferry~bind-1~7", "other"}, guidsOf(look)); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	if asked := s.requests[before:]; len(asked) != 1 {
		t.Errorf("keys took %q, want one call", asked)
	}
}

// TestAJobNamesItsRow (docs/protocol.md 1): so that the GUID is recorded before anybody sees the row.
func TestAJobNamesItsRow(t *testing.T) {
	t.Parallel()
	const korifis = "managed_service_binding.create~k-1"
	for job, test := range map[string]struct{ links, want string }{
		"j-1":                     {`{"self":{"href":"https://api/v3/jobs/j-1"},"service_instances":{"href":"https://api/v3/service_instances/g-1"}}`, "g-1"},
		"j-2":                     {`{"service_instance":{"href":"/v3/service_instances/g-2"},"service_credential_bindings":null}`, "g-2"},
		"j-3":                     {`{"service_credential_binding":{"href":"/v3/service_credential_bindings/k-3"}}`, "k-3"},
		"j-4":                     {`{"service_instances":{"href":"/v3/service_instances/g/credentials"}}`, ""},
		"j-5":                     {`null`, ""},
		korifis:                   {`{"self":{"href":"/v3/jobs/` + korifis + `"}}`, "k-1"},
		"service_broker.create~b": {`{}`, ""},
	} {
		for _, state := range []string{"PROCESSING", "COMPLETE", "FAILED"} {
			s := newStub(t, func(w http.ResponseWriter, _ *http.Request) {
				reply(w, 200, `{"guid":"`+job+`","state":"`+state+`","links":`+test.links+`}`)
			})
			sight, err := s.backend(t, nil).Job(t.Context(), job)
			if err != nil || sight.GUID != test.want || string(sight.State) != state {
				t.Errorf("%s: %+v, %v; want %s of %q", job, sight, err, state, test.want)
			}
		}
	}
}

// TestKeysWithoutAnInstanceAreNotLookedFor: a filter without a value would find all.
func TestKeysWithoutAnInstanceAreNotLookedFor(t *testing.T) {
	t.Parallel()
	s := newStub(t, busyCloud)
	if look, err := s.backend(t, nil).FindKeys(t.Context(), "", "k"); err == nil || len(s.requests) != 0 {
		t.Errorf("%+v after %q; want an error and no call", look, s.requests)
	}
}
