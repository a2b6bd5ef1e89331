package cf

import (
	"net/http"
	"testing"
	"time"

	"github.com/ferry-broker/ferry/internal/broker"
	"github.com/ferry-broker/ferry/internal/lifecycle"
)

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
