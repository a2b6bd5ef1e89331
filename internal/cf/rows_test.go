package cf

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cloudfoundry/go-cfclient/v3/resource"
	"github.com/google/go-cmp/cmp"

	"github.com/ferry-broker/ferry/internal/broker"
	"github.com/ferry-broker/ferry/internal/lifecycle"
)

func TestRows(t *testing.T) {
	t.Parallel()
	succeeded := lifecycle.LastOperation{Verb: lifecycle.Create, State: lifecycle.LastSucceeded}
	for name, test := range map[string]struct {
		rest string
		want broker.Row
	}{
		"our marks": {`"metadata":{"annotations":{"ferry-operation":"create-1","ferry-seq":"12","ferry-update":"update-1"}}`,
			broker.Row{Marked: true, Operation: "create-1", Seq: 12, Update: "update-1", Last: succeeded}},
		"no metadata":                 {`"metadata":null`, broker.Row{Last: succeeded}},
		"half a mark":                 {`"metadata":{"annotations":{"ferry-operation":"create-1"}}`, broker.Row{Last: succeeded}},
		"a mark that cannot be read":  {`"metadata":{"annotations":{"ferry-operation":"create-1","ferry-seq":"twelve"}}`, broker.Row{Last: succeeded}},
		"a mark without an operation": {`"metadata":{"annotations":{"ferry-operation":null,"ferry-seq":"12"}}`, broker.Row{Last: succeeded}},
		"an empty last operation":     {`"last_operation":{}`, broker.Row{Last: succeeded}},
		"no last operation":           {`"last_operation":null`, broker.Row{Last: succeeded}},
		"an empty state": {`"last_operation":{"type":"","state":"","description":null}`,
			broker.Row{Last: lifecycle.LastOperation{Verb: lifecycle.Create, State: lifecycle.LastInitial}}},
		"a failed update": {`"last_operation":{"type":"update","state":"failed","description":"Service broker error: see https://b.example.org/x","updated_at":"2026-01-02T03:04:00Z","created_at":"2026-01-02T03:04:00Z"}`,
			broker.Row{Last: lifecycle.LastOperation{Verb: lifecycle.Update, State: lifecycle.LastFailed, Description: "see [address]"}, Age: 5 * time.Second}},
		"a class for a reason": {`"last_operation":{"type":"create","state":"failed","description":"` + lastOperationClass + `"}`,
			broker.Row{Last: lifecycle.LastOperation{Verb: lifecycle.Create, State: lifecycle.LastFailed}}},
		"written after the answer": {`"last_operation":{"type":"delete","state":"in progress","updated_at":"2026-01-02T03:05:00Z"}`,
			broker.Row{Last: lifecycle.LastOperation{Verb: lifecycle.Delete, State: lifecycle.LastInProgress}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStub(t, func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Date", "Fri, 02 Jan 2026 03:04:05 GMT")
				row := `{"guid":"g","name":"one",` + test.rest + `}`
				if r.URL.Path == "/v3/service_instances/g" {
					reply(w, 200, row)
					return
				}
				reply(w, 200, `{"pagination":{"next":null},"resources":[`+row+`]}`)
			})
			b := s.backend(t, nil)
			test.want.GUID = "g"
			for what, find := range map[string]func() (broker.Look, error){
				"FindInstances": func() (broker.Look, error) { return b.FindInstances(t.Context(), "one") },
				"FindInstance":  func() (broker.Look, error) { return b.FindInstance(t.Context(), "g") },
				"FindKeys":      func() (broker.Look, error) { return b.FindKeys(t.Context(), "i", "one") },
			} {
				look, err := find()
				if diff := cmp.Diff([]broker.Row{test.want}, look.Rows); err != nil || diff != "" {
					t.Errorf("%s: %v (-want +got):\n%s", what, err, diff)
				}
			}
		})
	}
}

func TestLooksReadAllPages(t *testing.T) {
	t.Parallel()
	s := newStub(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("names") != "one" {
			t.Errorf("page asked for with %s", r.URL.RawQuery)
		}
		if r.URL.Query().Get("page") == "2" {
			reply(w, 200, `{"pagination":{"next":null},"resources":[{"guid":"g2","name":"one"}]}`)
			return
		}
		// The link names another host: only its query may be used.
		reply(w, 200, `{"pagination":{"next":{"href":"http://192.0.2.1/v3/x?names=one&page=2"}},
			"resources":[{"guid":"g1","name":"one"},{"guid":"g0","name":"ONE"}]}`)
	})
	look, err := s.backend(t, nil).FindInstances(t.Context(), "one")
	if err != nil || len(look.Rows) != 2 || look.Rows[0].GUID != "g1" || look.Rows[1].GUID != "g2" {
		t.Errorf("look %+v, %v; want g1 and g2", look.Rows, err)
	}
}

// TestWhatIsNoListIsUnknown: nothing but Cloud Foundry's own list makes absence.
func TestWhatIsNoListIsUnknown(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		status int
		body   string
	}{
		"a page of HTML":         {200, "<html>"},
		"an empty body":          {200, ""},
		"an object without rows": {200, `{"pagination":{"next":null}}`},
		"null rows":              {200, `{"pagination":{"next":null},"resources":null}`},
		"rows without pages":     {200, `{"resources":[]}`},
		"an array":               {200, `[]`},
		"accepted":               {202, `{"pagination":{"next":null},"resources":[]}`},
		"no content":             {204, ``},
		"a router's 404":         {404, "Requested route does not exist"},
		"Cloud Foundry's 404":    {404, cfError(10000, "CF-NotFound", "Unknown request")},
		"a fault":                {500, cfError(10001, "UnknownError", "An unknown error occurred.")},
		"a broken next page":     {200, `{"pagination":{"next":{"href":"http://[::1/%zz"}},"resources":[]}`},
		"a next page of nothing": {200, `{"pagination":{"next":{"href":"/v3/service_instances"}},"resources":[]}`},
		"a second page that fails": {200,
			`{"pagination":{"next":{"href":"/v3/service_instances?page=2"}},"resources":[]}`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStub(t, func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Query().Get("page") == "2" {
					hangUp(w, r)
				}
				w.WriteHeader(test.status)
				_, _ = fmt.Fprint(w, test.body)
			})
			b := s.backend(t, nil)
			if look, err := b.FindInstances(t.Context(), "one"); err == nil {
				t.Errorf("FindInstances = %+v without an error", look)
			}
			if look, err := b.FindKeys(t.Context(), "g", "one"); err == nil {
				t.Errorf("FindKeys = %+v without an error", look)
			}
		})
	}
}

func TestOnlyCloudFoundrysWordMakesAbsence(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		status int
		body   string
		absent bool
	}{
		"10010":             {404, cfError(10010, "CF-ResourceNotFound", "Service instance not found"), true},
		"60004":             {404, cfError(60004, "CF-ServiceInstanceNotFound", "not found"), true},
		"10000":             {404, cfError(10000, "CF-NotFound", "Unknown request"), false},
		"a router":          {404, "Requested route does not exist", false},
		"10010 with a 422":  {422, cfError(10010, "CF-ResourceNotFound", "x"), false},
		"another's answer":  {200, `{"guid":"other"}`, false},
		"an answer of none": {200, `{}`, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStub(t, func(w http.ResponseWriter, _ *http.Request) { reply(w, test.status, test.body) })
			look, err := s.backend(t, nil).FindInstance(t.Context(), "g")
			if (err == nil) != test.absent || len(look.Rows) != 0 {
				t.Errorf("look %+v, %v; absent %v", look.Rows, err, test.absent)
			}
		})
	}
}

func TestRowsSharedIntoTheOrgAreLeftOut(t *testing.T) {
	t.Parallel()
	row := func(guid, space string) string {
		return `{"guid":"` + guid + `","name":"one","relationships":{"space":{"data":{"guid":"` + space + `"}}}}`
	}
	space := func(guid, org string) string {
		return `{"guid":"` + guid + `","relationships":{"organization":{"data":{"guid":"` + org + `"}}}}`
	}
	s := newStub(t, func(w http.ResponseWriter, _ *http.Request) {
		reply(w, 200, `{"pagination":{"next":null},
			"resources":[`+row("ours", "s1")+`,`+row("shared", "s2")+`,`+row("untold", "s3")+`],
			"included":{"spaces":[`+space("s1", "org-guid")+`,`+space("s2", "other-org")+`]}}`)
	})
	look, err := s.backend(t, nil).FindInstances(t.Context(), "one")
	if err != nil || len(look.Rows) != 2 || look.Rows[0].GUID != "ours" || look.Rows[1].GUID != "untold" {
		t.Errorf("look %+v, %v; want ours and the one whose space is not told", look.Rows, err)
	}
}

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

// TestIDsComeBack takes ids through the metadata of a create and back.
func TestIDsComeBack(t *testing.T) {
	t.Parallel()
	s := newStub(t, accept)
	b := s.backend(t, nil)
	for _, id := range []string{"a", "a,b", " a", "a ", "\xff\xfe", "tab\t", "", strings.Repeat("x", 1000), nameOf("")} {
		metadata := b.instances.rows.createMetadata(id, broker.Marks{Operation: "create-1", Seq: 1})
		for _, name := range []string{nameOf(id), "renamed"} {
			if got, byName, ok := idOf(name, metadata); (got != id || byName || !ok) && (id != "" || name != "renamed") {
				t.Errorf("id %q of a row called %q comes back as %q, %v, %v", id, name, got, byName, ok)
			}
		}
	}
	endless := strings.Repeat("x", maxAnnotation+1)
	if got, _, ok := idOf(nameOf(endless), b.instances.rows.createMetadata(endless, broker.Marks{})); ok {
		t.Errorf("an id that cannot be noted comes back as %q", got)
	}
	// Rows of before carry no id that can be a name.
	if got, byName, ok := idOf("a", resource.NewMetadata()); got != "a" || !byName || !ok {
		t.Errorf("%q, %v, %v; want the name, said to be one", got, byName, ok)
	}
}

// TestMarkedKnowsTrueIDs (docs/protocol.md 1): also of what was renamed; and what only a name tells is said to.
func TestMarkedKnowsTrueIDs(t *testing.T) {
	t.Parallel()
	const marks = `"labels":{"ferry-client":"suite"},"annotations":{"ferry-operation":"op","ferry-seq":"7"`
	instance := func(guid, name, more string) string {
		return `{"guid":"` + guid + `","name":"` + name + `","metadata":{` + marks + more + `}}}`
	}
	key := func(guid, name, of, more string) string {
		return `{"guid":"` + guid + `","name":"` + name + `","metadata":{` + marks + more + `}},
			"relationships":{"service_instance":{"data":{"guid":"` + of + `"}}}}`
	}
	s := newStub(t, func(w http.ResponseWriter, r *http.Request) {
		rows := []string{
			instance("g1", "one", ""), instance("g2", nameOf(" a"), `,"ferry-id":"+a"`), instance("g3", nameOf("lost"+" "), ""),
			`{"guid":"g4","name":"somebody's"}`, instance("g5", "renamed", `,"ferry-id":"five"`),
		}
		if r.URL.Path == "/v3/service_credential_bindings" {
			if got := r.URL.Query().Get("service_instance_guids"); got != "g1,g2,g5" {
				t.Errorf("asked for the keys of %s", got)
			}
			rows = []string{
				key("k1", "k", "g1", ""), key("k2", nameOf("\xff"), "g2", `,"ferry-id":"%FF"`), key("k3", nameOf("x "), "g2", ""),
				`{"guid":"k4","name":"theirs","relationships":{"service_instance":{"data":{"guid":"g1"}}}}`,
				key("k5", "k~ferry~bind-1~7", "g1", ""), // no Korifi: the name is all id
				key("k6", "other", "g5", `,"ferry-id":"six"`), key("k7", "k", "g5", ""),
			}
		}
		reply(w, 200, `{"pagination":{"next":null},"resources":[`+strings.Join(rows, ",")+`]}`)
	})
	var log bytes.Buffer
	b := s.backend(t, func(c *Config) { c.Logger = slog.New(slog.NewJSONHandler(&log, nil)) })
	got, err := b.Marked(t.Context())
	entry := func(instance, binding, guid string, byName bool) broker.Marked {
		return broker.Marked{Key: broker.Key{InstanceID: instance, BindingID: binding}, GUID: guid, ByName: byName, Operation: "op", Seq: 7}
	}
	want := []broker.Marked{
		entry("one", "", "g1", true), entry(" a", "", "g2", false), entry("five", "", "g5", false),
		entry("one", "k", "k1", true), entry(" a", "\xff", "k2", false), entry("one", "k~ferry~bind-1~7", "k5", true),
		entry("five", "six", "k6", false), entry("five", "k", "k7", true),
	}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	lines := strings.Count(log.String(), `"level":"INFO"`)
	if lines != 2 || !strings.Contains(log.String(), "g3") || !strings.Contains(log.String(), "k3") {
		t.Errorf("%d lines of log, want one for g3 and one for k3:\n%s", lines, log.String())
	}
	if n := s.count("GET /v3/service_credential_bindings"); n != 1 {
		t.Errorf("%d calls for the keys, want 1", n)
	}
}

func TestStrangeIDIsNotedInTheCreate(t *testing.T) {
	t.Parallel()
	s := newStub(t, accept)
	call := testCall()
	call.Name = "a\x00b"
	_, _ = s.backend(t, nil).CreateInstance(t.Context(), call)
	var sent struct{ Metadata resource.Metadata }
	if err := json.Unmarshal([]byte(s.lastBody("POST /v3/service_instances")), &sent); err != nil {
		t.Fatal(err)
	}
	if got := annotation(&sent.Metadata, markID); got != "a%00b" {
		t.Errorf("ferry-id %q, want the id percent-encoded", got)
	}
}

// TestMarksAndAgesWithinReason [15]: a number that no Ferry wrote is no mark, and a date before Cloud Foundry's time
// ages nothing.
func TestMarksAndAgesWithinReason(t *testing.T) {
	t.Parallel()
	for seq, want := range map[string]bool{
		"0": true, "1700000000": true, "999999999999": true,
		"1000000000000": false, "-1": false, "9223372036854775808": false, "1.5": false, "": false, "0x10": false,
	} {
		if _, ok := readSeq(seq); ok != want {
			t.Errorf("ferry-seq %q is a mark: %v, want %v", seq, ok, want)
		}
		loose, ok := readKeyName("k" + marksBegin + "op~" + seq)
		if ok != want {
			t.Errorf("the key's name with %q is a mark: %+v, want %v", seq, loose, want)
		}
	}
	const date = "Fri, 02 Jan 2026 03:04:05 GMT"
	for written, want := range map[string]time.Duration{
		`"2026-01-02T03:04:00Z"`: 5 * time.Second,
		`"1970-01-01T00:00:00Z"`: 0,
		`"0001-01-01T00:00:00Z"`: 0,
		`"2099-01-01T00:00:00Z"`: 0,
		`"yesterday"`:            0,
		`1767323040`:             0,
		`null`:                   0,
	} {
		s := newStub(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Date", date)
			reply(w, 200, `{"guid":"g","name":"one","last_operation":{"type":"create","state":"failed","updated_at":`+written+`}}`)
		})
		look, err := s.backend(t, nil).FindInstance(broker.WithOffering(t.Context(), "postgres"), "g")
		if err != nil || len(look.Rows) != 1 || look.Rows[0].Age != want || look.Rows[0].Last.State != lifecycle.LastFailed {
			t.Errorf("written at %s: %+v, %v; want an age of %v", written, look, err, want)
		}
	}
}

// TestPollingDurationsWithinReason [15].
func TestPollingDurationsWithinReason(t *testing.T) {
	t.Parallel()
	for seconds, want := range map[string]time.Duration{
		`60`: time.Minute, `60.0`: time.Minute, `0`: 0, `-1`: 0, `1e300`: 0, `9223372036854775807`: 0, `"60"`: 0, `null`: 0, `31622400`: 366 * 24 * time.Hour, `31622401`: 0,
	} {
		s := newStub(t, func(w http.ResponseWriter, r *http.Request) {
			rows := `{"guid":"o","name":"db","available":true}`
			if r.URL.Path == "/v3/service_plans" {
				rows = `{"guid":"p","name":"small","available":true,"broker_catalog":{"maximum_polling_duration":` + seconds + `},"relationships":{"service_offering":{"data":{"guid":"o"}}}}`
			}
			reply(w, 200, `{"pagination":{"next":null},"resources":[`+rows+`]}`)
		})
		market, err := s.backend(t, nil).Marketplace(t.Context())
		if err != nil || len(market.Offerings) != 1 || market.Offerings[0].Plans[0].MaximumPollingDuration != want {
			t.Errorf("%s: %+v, %v; want %v", seconds, market, err, want)
		}
	}
}
