package cf

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/ferry-broker/ferry/internal/broker"
	"github.com/ferry-broker/ferry/internal/lifecycle"
)

// TestLifeOfATokenIsBelievedWithinReason [15]: no value of expires_in makes every call log
// in, nor one token be used after its time.
func TestLifeOfATokenIsBelievedWithinReason(t *testing.T) {
	t.Parallel()
	for expires, test := range map[string]struct {
		used  time.Duration // for as long as this it is used, and no longer
		never bool          // it is replaced when it is refused
	}{
		`"expires_in":599,`:                 {589 * time.Second, false},
		`"expires_in":"600",`:               {590 * time.Second, false},
		`"expires_in":12,`:                  {6 * time.Second, false},
		`"expires_in":1,`:                   {500 * time.Millisecond, false},
		`"expires_in":0,`:                   {0, true},
		`"expires_in":-5,`:                  {0, true},
		`"expires_in":9223372036854775807,`: {0, true},
		``:                                  {0, true},
		`"expires_in":null,`:                {0, true},
	} {
		g := newGate(t, busyCloud, func(n int64, w http.ResponseWriter, _ *http.Request) bool {
			reply(w, 200, fmt.Sprintf(`{"access_token":"token-%d",%s"refresh_token":"r","token_type":"bearer"}`, n, expires))
			return true
		})
		clock := newClock()
		b := g.backend(t, clock.set)
		logins := func() int64 {
			if _, err := b.Job(t.Context(), "j"); err != nil {
				t.Errorf("%s: %v", expires, err)
			}
			return g.logins.Load()
		}
		_ = logins()
		clock.pass(test.used - 1)
		if n := logins(); n != 1 {
			t.Errorf("%s: %d logins before its time", expires, n)
		}
		clock.pass(time.Second)
		want := int64(2)
		if test.never {
			clock.pass(365 * 24 * time.Hour)
			want = 1
		}
		if n := logins(); n != want {
			t.Errorf("%s: %d logins after its time, want %d", expires, n, want)
		}
	}
}

// TestListsEndWhereTheySay [15]: their links lead neither elsewhere nor round in circles,
// and half a list is no absence.
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
		"a link to itself":           {`{"total_pages":9,"next":{"href":"/v3/service_instances?page=1"}}`, true, 1},
		"a link to before":           {`{"total_pages":9,"next":{"href":"/v3/service_instances?page=-3"}}`, true, 1},
		"a link without a page":      {`{"total_pages":9,"next":{"href":"/v3/service_instances?cursor=x"}}`, true, 1},
		"a page beyond all numbers":  {`{"total_pages":9,"next":{"href":"/v3/service_instances?page=99999999999999999999"}}`, true, 1},
		"a link that cannot be read": {`{"total_pages":9,"next":{"href":"%zz"}}`, true, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStub(t, func(w http.ResponseWriter, r *http.Request) {
				q := r.URL.Query()
				if q.Get("names") != "one" || q.Get("organization_guids") != "org-guid" {
					t.Errorf("asked %s", r.URL.RawQuery)
				}
				if q.Get("page") == "2" {
					reply(w, 200, `{"pagination":{"total_pages":2,"next":null},"resources":[{"guid":"g","name":"one",`+ourMarks+`},{"guid":"g2","name":"one",`+ourMarks+`}]}`)
					return
				}
				reply(w, 200, `{"pagination":`+test.pagination+`,"resources":[{"guid":"g","name":"one",`+ourMarks+`}]}`)
			})
			look, err := s.backend(t, nil).FindInstances(t.Context(), "one")
			if (err != nil) != test.fails || !test.fails && len(look.Rows) != test.calls {
				t.Errorf("%d rows, %v; want an error %v, and each row once", len(look.Rows), err, test.fails)
			}
			if n := s.count("GET /v3/service_instances"); n != test.calls {
				t.Errorf("%d calls, want %d", n, test.calls)
			}
		})
	}
}

// TestRowsWithoutAGUIDAreNotBelieved: nothing could be done about them, and a DELETE of an
// empty GUID would be one of the list.
func TestRowsWithoutAGUIDAreNotBelieved(t *testing.T) {
	t.Parallel()
	s := newStub(t, func(w http.ResponseWriter, _ *http.Request) {
		reply(w, 200, `{"pagination":{"next":null},"resources":[{"name":"one",`+ourMarks+`}]}`)
	})
	if look, err := s.backend(t, nil).FindInstances(t.Context(), "one"); err == nil {
		t.Errorf("look %+v; want an error", look)
	}
}

// TestMarksAndAgesWithinReason [15]: a number that no Ferry wrote is no mark, and a date
// before Cloud Foundry's time ages nothing.
func TestMarksAndAgesWithinReason(t *testing.T) {
	t.Parallel()
	for seq, want := range map[string]bool{
		"0": true, "1700000000": true, "999999999999": true,
		"1000000000000": false, "-1": false, "9223372036854775808": false, "1.5": false, "": false, "0x10": false,
	} {
		if _, ok := readSeq(seq); ok != want {
			t.Errorf("ferry-seq %q is a mark: %v, want %v", seq, ok, want)
		}
		loose, ok := readLooseKey("k" + looseMark + "op~" + seq)
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
