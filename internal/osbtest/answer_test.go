package osbtest

import (
	"encoding/json"
	"net/http"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestFaultsAreSeen shows that each check made of every answer can fail.
func TestFaultsAreSeen(t *testing.T) {
	t.Parallel()
	const instance, binding = "PUT /v2/service_instances/i?accepts_incomplete=true", "PUT /v2/service_instances/i/service_bindings/b"
	const poll, fetch = "GET /v2/service_instances/i/last_operation", "GET /v2/service_instances/i"
	for name, test := range map[string]struct {
		request string
		status  int
		body    string
		header  []string // name and value
		want    []string
	}{
		"a good refusal":       {request: instance, status: 409, body: `{"error":"Conflict","description":"d","ferry_details":"e"}`},
		"a good 202":           {request: instance, status: 202, body: `{"operation":"o"}`, header: []string{"Retry-After", "2"}},
		"a good poll":          {request: poll, status: 200, body: `{"state":"failed","description":"d","instance_usable":false}`},
		"410 has nothing":      {request: poll, status: 410, body: `{}`},
		"304 has no body":      {request: "GET /v2/catalog", status: 304},
		"no path of OSB's":     {request: "GET /metrics", status: 200, body: "x"},
		"parameters are told":  {request: fetch, status: 200, body: `{"parameters":` + Marked + `}`},
		"a challenge with 401": {request: fetch, status: 401, body: `{"error":"Unauthorized","description":"d"}`, header: []string{"Www-Authenticate", `Basic realm="x"`}},

		"an HTML page": {request: fetch, status: 200, body: "<html>", header: []string{"Content-Type", "text/html"},
			want: []string{"no JSON object", "not said to be JSON: text/html"}},
		"304 with a body":          {request: "GET /v2/catalog", status: 304, body: "{}", want: []string{"304 with a body"}},
		"202 without Retry-After":  {request: instance, status: 202, body: `{"operation":"o"}`, want: []string{"no Retry-After"}},
		"202 without operation":    {request: instance, status: 202, body: `{}`, header: []string{"Retry-After", "2"}, want: []string{"202 with the operation "}},
		"an operation with blanks": {request: instance, status: 202, body: `{"operation":"a b"}`, header: []string{"Retry-After", "2"}, want: []string{"202 with the operation a b"}},
		"an operation with 200":    {request: instance, status: 200, body: `{"operation":"o"}`, want: []string{"an operation without 202", "the field operation"}},
		"a date to retry after": {request: fetch, status: 200, body: `{}`, header: []string{"Retry-After", "Mon, 30 Nov 2026 10:00:00 GMT"},
			want: []string{"Retry-After Mon, 30 Nov 2026 10:00:00 GMT"}},
		"an hour to retry after":    {request: fetch, status: 200, body: `{}`, header: []string{"Retry-After", "3600"}, want: []string{"Retry-After 3600"}},
		"an empty description":      {request: poll, status: 200, body: `{"state":"succeeded","description":""}`, want: []string{"an empty description"}},
		"a secret":                  {request: instance, status: 409, body: `{"error":"Conflict","description":"` + Secret + `"}`, want: []string{"a secret"}},
		"a field of another answer": {request: binding, status: 201, body: `{"credentials":{},"parameters":{}}`, want: []string{"the field parameters"}},
		"201 of an instance":        {request: instance, status: 201, body: `{}`, want: []string{"201"}},
		"credentials with 202": {request: binding + "?accepts_incomplete=true", status: 202, body: `{"operation":"o","credentials":{}}`, header: []string{"Retry-After", "2"},
			want: []string{"the field credentials"}},
		"a state that is none":        {request: poll, status: 200, body: `{"state":"done"}`, want: []string{"the state done"}},
		"a failure without a reason":  {request: poll, status: 200, body: `{"state":"failed"}`, want: []string{"failed without a description"}},
		"instance_usable of success":  {request: poll, status: 200, body: `{"state":"succeeded","instance_usable":true}`, want: []string{"instance_usable true"}},
		"in progress and no hurry":    {request: poll, status: 200, body: `{"state":"in progress"}`, want: []string{"no Retry-After"}},
		"an error without a word":     {request: fetch, status: 400, body: `{"description":"d"}`, want: []string{"no OSB error body"}},
		"an error of two words":       {request: fetch, status: 400, body: `{"error":"bad request","description":"d"}`, want: []string{"no OSB error body"}},
		"update_repeatable of PUT":    {request: instance, status: 400, body: `{"error":"Bad","description":"d","update_repeatable":false}`, want: []string{"update_repeatable"}},
		"a reserved word":             {request: instance, status: 409, body: `{"error":"MaintenanceInfoConflict","description":"d"}`, want: []string{"MaintenanceInfoConflict without 422"}},
		"a reserved word's own text":  {request: instance, status: 422, body: `{"error":"AsyncRequired","description":"d"}`, want: []string{"other words than platforms compare for AsyncRequired"}},
		"401 without a challenge":     {request: fetch, status: 401, body: `{"error":"Unauthorized","description":"d"}`, want: []string{"a challenge that is missing, or out of place"}},
		"405 without a list":          {request: fetch, status: 405, body: `{"error":"MethodNotAllowed","description":"d"}`, want: []string{"Allow "}},
		"both words for an update":    {request: "PATCH /v2/service_instances/i", status: 422, body: `{"error":"Bad","description":"d","instance_usable":true,"update_repeatable":false}`},
		"usable of an unbind is none": {request: "DELETE /v2/service_instances/i/service_bindings/b", status: 500, body: `{"error":"Bad","description":"d","instance_usable":false}`, want: []string{"instance_usable"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := Answer{T: t, Request: test.request, Status: test.status, Body: test.body, Header: http.Header{"Content-Type": {"application/json"}}}
			if test.header != nil {
				a.Header.Set(test.header[0], test.header[1])
			}
			_ = json.Unmarshal([]byte(test.body), &a.Fields) // some are none
			got := a.Faults()
			slices.Sort(got)
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("faults (-want +got):\n%s", diff)
			}
		})
	}
}

// TestWhatWasSentCounts: two checks need the request.
func TestWhatWasSentCounts(t *testing.T) {
	t.Parallel()
	sent, err := http.NewRequest(http.MethodPut, "http://broker/v2/service_instances/i?accepts_incomplete=false&accepts_incomplete=true", nil)
	if err != nil {
		t.Fatal(err)
	}
	sent.Header.Set("X-Broker-API-Request-Identity", "one")
	a := Answer{T: t, Request: "PUT /v2/service_instances/i?accepts_incomplete=false&accepts_incomplete=true", Status: 202, Body: `{"operation":"o"}`,
		Header: http.Header{"Content-Type": {"application/json"}, "Retry-After": {"1"}}, Fields: map[string]json.RawMessage{"operation": json.RawMessage(`"o"`)}, sent: sent}
	want := []string{"another request identity: ", "202 without accepts_incomplete"}
	if diff := cmp.Diff(want, a.Faults()); diff != "" {
		t.Errorf("faults (-want +got):\n%s", diff)
	}
}
