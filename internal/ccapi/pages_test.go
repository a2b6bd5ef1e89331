package ccapi

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

type row struct {
	Identity
	Name string           `json:"name"`
	Note Optional[string] `json:"note"`
}

var rowsNamed = Request{Path: "/v3/rows", What: "list rows", Query: url.Values{"names": {Filter("a b", "c,d")}}}

// TestListsEndWhereTheySay: their links lead neither elsewhere nor round in circles, half a list is no list, and a row
// that moved to the next page meanwhile counts once.
func TestListsEndWhereTheySay(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		pagination string // of the first page
		fails      bool
		calls      int
	}{
		"one page":                   {`{"total_pages":1,"next":null}`, false, 1},
		"an empty list":              {`{"total_pages":0,"next":null}`, false, 1},
		"a second page":              {`{"total_pages":2,"next":{"href":"https://elsewhere.example.org/v3/other?names=x&page=2"}}`, false, 2},
		"its end is missing":         {`{"total_pages":2,"next":null}`, true, 1},
		"its end is no link":         {`{"total_pages":2,"next":{"href":""}}`, true, 1},
		"a link to itself":           {`{"total_pages":9,"next":{"href":"/v3/rows?page=1"}}`, true, 1},
		"a link to before":           {`{"total_pages":9,"next":{"href":"/v3/rows?page=-3"}}`, true, 1},
		"a link without a page":      {`{"total_pages":9,"next":{"href":"/v3/rows?cursor=x"}}`, true, 1},
		"a page beyond all numbers":  {`{"total_pages":9,"next":{"href":"/v3/rows?page=99999999999999999999"}}`, true, 1},
		"a link that cannot be read": {`{"total_pages":9,"next":{"href":"%zz"}}`, true, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStub(t, func(w http.ResponseWriter, r *http.Request) {
				q := r.URL.Query()
				if got, want := q.Get("names"), "a%20b,c%2Cd"; got != want {
					t.Errorf("asked for %s, want %s", got, want)
				}
				if q.Get("page") == "2" {
					reply(w, 200, `{"pagination":{"total_pages":2,"next":null},"resources":[{"guid":"g1"},{"guid":"g2"}]}`)
					return
				}
				reply(w, 200, `{"pagination":`+test.pagination+`,"resources":[{"guid":"g1","name":"one"}]}`)
			})
			rows, err := List[row](t.Context(), s.client(t, nil), rowsNamed)
			if (err != nil) != test.fails || !test.fails && len(rows) != test.calls {
				t.Errorf("%d rows, %v; want an error %v, and each row once", len(rows), err, test.fails)
			}
			if n := s.count("GET /v3/rows"); n != test.calls {
				t.Errorf("%d calls, want %d", n, test.calls)
			}
		})
	}
}

// TestWhatIsNoListIsNoAbsence: anything but whole pages of a list is an error.
func TestWhatIsNoListIsNoAbsence(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		status int
		body   string
	}{
		"no rows":                     {200, `{"pagination":{"next":null}}`},
		"null rows":                   {200, `{"pagination":{"next":null},"resources":null}`},
		"no pagination":               {200, `{"resources":[]}`},
		"an array":                    {200, `[]`},
		"a page of HTML":              {200, `<html>`},
		"nothing":                     {200, ``},
		"accepted":                    {202, `{"pagination":{"next":null},"resources":[]}`},
		"no content":                  {204, ``},
		"a router's 404":              {404, `Requested route does not exist`},
		"a fault":                     {500, cfError(10001, "UnknownError", "An unknown error occurred.")},
		"a second page that fails":    {200, `{"pagination":{"next":{"href":"?page=2"}},"resources":[]}`},
		"a row without a GUID":        {200, `{"pagination":{"next":null},"resources":[{"name":"one"}]}`},
		"a row with another name":     {200, `{"pagination":{"next":null},"resources":[{"guid":"g","name":7}]}`},
		"included that is not as was": {200, `{"pagination":{"next":null},"resources":[{"guid":"g"}],"included":{"spaces":7}}`},
	} {
		s := newStub(t, func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Query().Has("page") {
				hangUp(w, r)
			}
			reply(w, test.status, test.body)
		})
		err := Pages(t.Context(), s.client(t, nil), rowsNamed, func(p Page[row]) error {
			return p.DecodeIncluded(&struct {
				Spaces []row `json:"spaces"`
			}{})
		})
		if e := failure(t, err); e.Call != "list rows" {
			t.Errorf("%s: %v; want an error of the call", name, err)
		}
	}
}

// TestPagesHandOnWhatTheyHold: the header of each answer, and what is included, where there is any. What is optional
// and not as documented counts as not told.
func TestPagesHandOnWhatTheyHold(t *testing.T) {
	t.Parallel()
	s := newStub(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Date", "Fri, 02 Jan 2026 03:04:05 GMT")
		if r.URL.Query().Has("page") {
			reply(w, 200, `{"pagination":{"next":null},"resources":[{"guid":"g2","note":7}]}`)
			return
		}
		reply(w, 200, `{"pagination":{"next":{"href":"?page=2"}},"resources":[{"guid":"g1","note":"n"}],"included":{"spaces":[{"guid":"s"}]}}`)
	})
	var got []string
	err := Pages(t.Context(), s.client(t, nil), Request{Path: "/v3/rows", What: "list rows"}, func(p Page[row]) error {
		var included struct {
			Spaces []row `json:"spaces"`
		}
		got = append(got, fmt.Sprint(p.Resources[0].GUID, p.Resources[0].Note.Value, p.Header.Get("Date"), p.DecodeIncluded(&included), included.Spaces))
		return nil
	})
	const date = "Fri, 02 Jan 2026 03:04:05 GMT"
	want := []string{fmt.Sprint("g1", "n", date, nil, []row{{Identity: Identity{"s"}}}), fmt.Sprint("g2", "", date, nil, []row(nil))}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
}

func TestAListThatDoesNotEnd(t *testing.T) {
	t.Parallel()
	s := newStub(t, func(w http.ResponseWriter, r *http.Request) {
		var page int
		_, _ = fmt.Sscan(r.URL.Query().Get("page"), &page)
		reply(w, 200, fmt.Sprintf(`{"pagination":{"next":{"href":"?page=%d"}},"resources":[]}`, max(page, 1)+1))
	})
	if _, err := List[row](t.Context(), s.client(t, nil), rowsNamed); err == nil || !strings.Contains(err.Error(), "does not end") {
		t.Errorf("%v; want that the list does not end", err)
	}
}

// TestFilterValuesSurvive takes a filter apart as a Cloud Controller does: split at commas, then decode each part.
func TestFilterValuesSurvive(t *testing.T) {
	t.Parallel()
	values := []string{"a,b", "a+b", "a b", "100%", "%2C", "ä", "a&b=c"}
	parts := strings.Split(Filter(values...), ",")
	if len(parts) != len(values) {
		t.Fatalf("%d parts, want %d: %q", len(parts), len(values), parts)
	}
	for i, part := range parts {
		form, err := url.QueryUnescape(part)
		path, pathErr := url.PathUnescape(part)
		if form != values[i] || path != values[i] || err != nil || pathErr != nil {
			t.Errorf("%q arrives as %q or %q", values[i], form, path)
		}
	}
}
