package cf

import (
	"fmt"
	"net/http"
	"testing"
	"time"

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
