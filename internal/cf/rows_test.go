package cf

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ferry-broker/ferry/internal/broker"
	"github.com/ferry-broker/ferry/internal/lifecycle"
)

// TestRows reads one row by each look-up.
func TestRows(t *testing.T) {
	t.Parallel()
	type row = broker.Row
	last := func(verb lifecycle.Verb, state lifecycle.LastState, description string) lifecycle.LastOperation {
		return lifecycle.LastOperation{Verb: verb, State: state, Description: description}
	}
	done := last(lifecycle.Create, lifecycle.LastSucceeded, "")
	const marks = `"annotations":{"ferry-operation":"create-1","ferry-seq":"12","ferry-update":"update-1"}`
	ours := row{Marked: true, Operation: "create-1", Seq: 12, Update: "update-1", Last: done}
	for name, test := range map[string]struct {
		rest string
		want row
	}{
		"our marks":                   {`"metadata":{` + marks + `}`, ours},
		"our marks with our label":    {`"metadata":{"labels":{"ferry-client":"suite"},` + marks + `}`, ours},
		"another client's":            {`"metadata":{"labels":{"ferry-client":"other"},` + marks + `}`, row{Update: "update-1", Last: done}},
		"no metadata":                 {`"metadata":null`, row{Last: done}},
		"half a mark":                 {`"metadata":{"annotations":{"ferry-operation":"create-1"}}`, row{Last: done}},
		"a mark that cannot be read":  {`"metadata":{"annotations":{"ferry-operation":"create-1","ferry-seq":"twelve"}}`, row{Last: done}},
		"a mark without an operation": {`"metadata":{"annotations":{"ferry-operation":null,"ferry-seq":"12"}}`, row{Last: done}},
		"an empty last operation":     {`"last_operation":{}`, row{Last: done}},
		"no last operation":           {`"last_operation":null`, row{Last: done}},
		"an empty state":              {`"last_operation":{"type":"","state":"","description":null}`, row{Last: last(lifecycle.Create, lifecycle.LastInitial, "")}},
		"a failed update": {`"last_operation":{"type":"update","state":"failed","description":"Service broker error: see https://b.example.org/x","updated_at":"2026-01-02T03:04:00Z"}`,
			row{Last: last(lifecycle.Update, lifecycle.LastFailed, "see [address]"), Age: 5 * time.Second}},
		"38 a class for a reason":  {`"last_operation":{"type":"create","state":"failed","description":"` + lastOperationClass + `"}`, row{Last: last(lifecycle.Create, lifecycle.LastFailed, "")}},
		"36 a delete that failed":  {`"last_operation":{"type":"delete","state":"failed","description":"Service instance one: Service broker error: in use"}`, row{Last: last(lifecycle.Delete, lifecycle.LastFailed, "Service instance one: in use")}},
		"written after the answer": {`"last_operation":{"type":"delete","state":"in progress","updated_at":"2026-01-02T03:05:00Z"}`, row{Last: last(lifecycle.Delete, lifecycle.LastInProgress, "")}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStub(t, func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Date", "Fri, 02 Jan 2026 03:04:05 GMT")
				row := `{"guid":"g","name":"one",` + test.rest + `}`
				if r.URL.Path != "/v3/service_instances/g" {
					row = list(row)
				}
				reply(w, 200, row)
			})
			b := s.backend(t, nil)
			test.want.GUID = "g"
			for what, look := range looks(t.Context(), b, "") {
				look, err := look()
				if diff := cmp.Diff([]broker.Row{test.want}, look.Rows); err != nil || diff != "" {
					t.Errorf("%s: %v (-want +got):\n%s", what, err, diff)
				}
			}
		})
	}
}

// looks are the three look-ups, of the instance "one" with the GUID "g" and of the key "one" of the instance "i", all
// of the offering.
func looks(ctx context.Context, b *Backend, offering string) map[string]func() (broker.Look, error) {
	return map[string]func() (broker.Look, error){
		"FindInstances": func() (broker.Look, error) {
			return b.FindInstances(ctx, broker.Lookup{Name: "one", Offering: offering})
		},
		"FindInstance": func() (broker.Look, error) { return b.FindInstance(ctx, "g", offering) },
		"FindKeys": func() (broker.Look, error) {
			return b.FindKeys(ctx, broker.Lookup{Instance: "i", Name: "one", Offering: offering})
		},
	}
}

func TestRowsOfInstancesHaveMore(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		body string
		want broker.Row
	}{
		"all of it": {wholeInstance, broker.Row{
			PlanGUID: "p", MaintenanceVersion: "1.0.0", DashboardURL: "https://d.example.org",
			Provided: &lifecycle.Provided{Labels: map[string]string{"a": "b"}, Attributes: map[string]string{"c": "d"}},
		}},
		"null":  {`{"guid":"g","dashboard_url":null,"broker_provided_metadata":null,"maintenance_info":null}`, broker.Row{}},
		"empty": {`{"guid":"g","broker_provided_metadata":{"labels":{},"attributes":{}},"maintenance_info":{}}`, broker.Row{}},
	} {
		s := newStub(t, func(w http.ResponseWriter, _ *http.Request) { reply(w, 200, test.body) })
		look, err := s.backend(t, nil).FindInstance(t.Context(), "g", "")
		if err != nil || len(look.Rows) != 1 {
			t.Fatalf("%s: %+v, %v", name, look, err)
		}
		r := look.Rows[0]
		got := broker.Row{PlanGUID: r.PlanGUID, MaintenanceVersion: r.MaintenanceVersion, DashboardURL: r.DashboardURL, Provided: r.Provided}
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// TestMarksAndAgesWithinReason: a number that no Ferry wrote is no mark, and a date before Cloud Foundry's time ages
// nothing.
func TestMarksAndAgesWithinReason(t *testing.T) {
	t.Parallel()
	for seq, want := range map[string]bool{
		"0": true, "1700000000": true, "999999999999": true,
		"1000000000000": false, "-1": false, "9223372036854775808": false, "1.5": false, "": false, "0x10": false,
	} {
		if _, ok := readSeq(seq); ok != want {
			t.Errorf("ferry-seq %q is a mark: %v, want %v", seq, ok, want)
		}
		if key, ok := readKeyName("k" + marksBegin + "op~" + seq); ok != want {
			t.Errorf("the key's name with %q is a mark: %+v, want %v", seq, key, want)
		}
	}
	header := http.Header{"Date": {"Fri, 02 Jan 2026 03:04:05 GMT"}}
	for written, want := range map[string]time.Duration{
		`"2026-01-02T03:04:00Z"`: 5 * time.Second,
		`"1970-01-01T00:00:00Z"`: 0,
		`"0001-01-01T00:00:00Z"`: 0,
		`"2099-01-01T00:00:00Z"`: 0,
		`"yesterday"`:            0,
		`1767323040`:             0,
		`null`:                   0,
	} {
		var last lastOperation
		if err := json.Unmarshal([]byte(`{"state":"failed","updated_at":`+written+`}`), &last); err != nil {
			t.Fatal(err)
		}
		if got := ageOf(&last, header); got != want || ageOf(&last, nil) != 0 {
			t.Errorf("written at %s: an age of %v, want %v, and none without a date", written, got, want)
		}
	}
}

// TestOnlyCloudFoundrysWordMakesAbsence: scenarios 31 and 40. Anything but an empty list, or its own 404, is an error.
func TestOnlyCloudFoundrysWordMakesAbsence(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		status int
		body   string
		absent string // the look-ups that find nothing by it
	}{
		"an empty list":    {200, list(), "FindInstances FindKeys"},
		"10010":            {404, notFound("Service instance not found"), "FindInstance"},
		"60004":            {404, cfError(60004, "CF-ServiceInstanceNotFound", "not found"), "FindInstance"},
		"10000":            {404, cfError(10000, "CF-NotFound", "Unknown request"), ""},
		"a router":         {404, "404 Not Found: Requested route ('api.x') does not exist.", ""},
		"10010 with a 422": {422, notFound("x"), ""},
		"no database":      {503, cfError(10015, "CF-ServiceUnavailable", "Database connection failure"), ""},
		"maintenance":      {503, "API down for maintenance", ""},
		"nginx limits":     {429, "<html>429</html>", ""},
		"another's answer": {200, `{"guid":"other"}`, ""},
		"of nobody":        {200, `{}`, ""},
		"a list of null":   {200, `{"pagination":{"next":null},"resources":null}`, ""},
		"accepted":         {202, list(), ""},
	} {
		s := newStub(t, func(w http.ResponseWriter, _ *http.Request) { reply(w, test.status, test.body) })
		for what := range looks(t.Context(), nil, "") {
			b := s.backend(t, nil)
			b.instances.flavors.learn(cloudController)
			look, err := looks(t.Context(), b, "postgres")[what]()
			if absent := slices.Contains(strings.Fields(test.absent), what); (err == nil) != absent || len(look.Rows) != 0 {
				t.Errorf("%s, %s: %+v, %v; want absent %v", name, what, look.Rows, err, absent)
			}
		}
	}
}

// rowStore is a Cloud Foundry with rows that a filter finds by name or by GUID, as both kinds of rows are filtered, and
// that notes the questions.
type rowStore struct {
	mu    sync.Mutex
	rows  []storedRow
	asked []string
	// pages, if not zero, is the size of pages, whatever was asked for. What is called lost is on none of them where
	// there is more than one.
	pages int
	lost  string
	// answering, if not nil, is called when an answer has been made, before it is sent.
	answering func()
	// fails answers a question with a fault.
	fails func(asked string) bool
}

type storedRow struct{ guid, name, space, instance string }

// wants reports whether a filter lets a value through: values are separated by commas, each is encoded, and a database
// ignores their case.
func wants(q url.Values, filter, value string) bool {
	return !q.Has(filter) || slices.ContainsFunc(strings.Split(q.Get(filter), ","), func(one string) bool {
		one, _ = url.QueryUnescape(one)
		return strings.EqualFold(one, value)
	})
}

func (h *rowStore) answer(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	asked := "names=" + q.Get("names") + " guids=" + q.Get("guids")
	guid, get := strings.CutPrefix(r.URL.Path, instancesRoute+"/")
	if get {
		asked = guid
	}
	h.mu.Lock()
	h.asked = append(h.asked, asked)
	status, body := 414, "<html>"
	switch {
	case get:
		status, body = 404, notFound("Service instance not found")
		for _, row := range h.rows {
			if row.guid == guid {
				status, body = 200, fmt.Sprintf(`{"guid":%q,"name":%q,%s}`, row.guid, row.name, ourMarks)
			}
		}
	case h.fails != nil && h.fails(asked):
		status = 502
	case q.Has("guids") && q.Get("guids") == "" || len("http://"+r.Host+r.RequestURI) > 8000:
	default:
		status, body = 200, h.page(q)
	}
	answering := h.answering
	h.mu.Unlock()
	if answering != nil {
		answering()
	}
	reply(w, status, body)
}

// page returns the page of the list that was asked for.
func (h *rowStore) page(q url.Values) string {
	var rows, spaces []string
	add := func(row storedRow) {
		instance := `null`
		if row.instance != "" {
			instance = fmt.Sprintf(`{"data":{"guid":%q}}`, row.instance)
		}
		rows = append(rows, fmt.Sprintf(`{"guid":%q,"name":%q,%s,"relationships":{"space":{"data":{"guid":%q}},"service_instance":%s}}`,
			row.guid, row.name, ourMarks, row.space, instance))
	}
	var found []storedRow
	for _, row := range h.rows {
		if wants(q, "names", row.name) && wants(q, "guids", row.guid) {
			found = append(found, row)
		}
	}
	next := "null"
	if total := len(found); h.pages > 0 && total > h.pages {
		found = slices.DeleteFunc(found, func(row storedRow) bool { return row.guid == h.lost })
		number, _ := strconv.Atoi(q.Get("page"))
		number = max(number, 1)
		if number*h.pages < total {
			next = fmt.Sprintf(`{"href":"https://api/?page=%d"}`, number+1)
		}
		found = found[min(len(found), (number-1)*h.pages):min(len(found), number*h.pages)]
	}
	for _, row := range found {
		add(row)
	}
	for _, org := range []string{"org-guid", "other-org"} {
		spaces = append(spaces, korifiSpace("space-of-"+org, org))
	}
	return `{"pagination":{"next":` + next + `},"resources":[` + strings.Join(rows, ",") + `],"included":{"spaces":[` + strings.Join(spaces, ",") + `]}}`
}

func guidsOf(look broker.Look) (guids []string) {
	for _, r := range look.Rows {
		guids = append(guids, r.GUID)
	}
	return guids
}

// TestRowsAreFoundByGUID (docs/protocol.md 1): whatever they are called now, each once, by a call of its own only when
// the name does not find them; and nothing of another org, or instance. A space of whose org nobody tells counts as
// ours.
func TestRowsAreFoundByGUID(t *testing.T) {
	t.Parallel()
	const ours, theirs, untold = "space-of-org-guid", "space-of-other-org", "space-of-nobody"
	h := &rowStore{rows: []storedRow{
		{"g1", "one", ours, "i"}, {"g2", "renamed", untold, "i"}, {"g3", "ONE", ours, "i"},
		{"g4", "one", theirs, "other"}, {"g5", "renamed", theirs, "other"},
	}}
	s := newStub(t, h.answer)
	b := s.backend(t, nil)
	b.instances.flavors.learn(cloudController)
	for name, find := range map[string]func(...string) (broker.Look, error){
		"instances": func(guids ...string) (broker.Look, error) {
			return b.FindInstances(t.Context(), broker.Lookup{Name: "one", GUIDs: guids})
		},
		"keys": func(guids ...string) (broker.Look, error) {
			return b.FindKeys(t.Context(), broker.Lookup{Instance: "i", Name: "one", GUIDs: guids})
		},
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
	h := &rowStore{}
	var guids []string
	for i := range 500 {
		guid := fmt.Sprintf("%08d-0000-4000-8000-000000000000", i)
		guids = append(guids, guid)
		h.rows = append(h.rows, storedRow{guid, "renamed", "space-of-org-guid", "i"})
	}
	s := newStub(t, h.answer)
	b := s.backend(t, nil)
	b.instances.flavors.learn(cloudController)
	for name, find := range map[string]func(context.Context) (broker.Look, error){
		"instances": func(ctx context.Context) (broker.Look, error) {
			return b.FindInstances(ctx, broker.Lookup{Name: "one", GUIDs: guids})
		},
		"keys": func(ctx context.Context) (broker.Look, error) {
			return b.FindKeys(ctx, broker.Lookup{Instance: "i", Name: "one", GUIDs: guids})
		},
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
			reply(w, 404, notFound("Service instance not found"))
		default:
			ordinary(w, r)
		}
	}
	b := s.backend(t, nil)
	look, err := b.FindInstances(t.Context(), broker.Lookup{Name: "one", GUIDs: []string{"renamed", "elsewhere", "gone", "ours"}})
	if diff := cmp.Diff([]string{"ours", "untold", "renamed"}, guidsOf(look)); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	before := len(s.requests)
	look, err = b.FindKeys(t.Context(), broker.Lookup{Instance: "ours", Name: "k", GUIDs: []string{"other", "gone"}})
	if diff := cmp.Diff([]string{"k~ferry~bind-1~7", "other"}, guidsOf(look)); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	if asked := s.requests[before:]; len(asked) != 1 {
		t.Errorf("keys took %q, want one call", asked)
	}
}
