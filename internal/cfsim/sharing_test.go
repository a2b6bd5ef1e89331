package cfsim

import (
	"net/url"
	"strings"
	"testing"
)

// TestSharedInstance has an instance found, and its name taken, in a space that
// it is shared with.
func TestSharedInstance(t *testing.T) {
	t.Parallel()
	c := start(t, quick())
	guid := c.plant("")
	c.must(200, "PATCH", "/__sim/instances/"+guid, `{"shared_with":["demo/other"]}`)
	path := "/v3/service_instances/" + guid
	other := c.must(200, "GET", "/v3/spaces?names=other", "").str("resources", 0, "guid")
	shared := c.must(200, "GET", path+"/relationships/shared_spaces", "")
	if got := shared.str("data", 0, "guid"); got != other || got == "" {
		t.Errorf("shared with %s", shared.body)
	}
	for _, query := range []string{"space_guids=" + other, "organization_guids=" + c.org("demo"), "space_guids=" + c.space("work")} {
		if got := strings.Join(c.do("GET", "/v3/service_instances?"+query, "").names(), " "); got != "it" {
			t.Errorf("%s: %q", query, got)
		}
	}
	body := strings.Replace(c.instanceBody("it", "postgres/small", ""), c.space("work"), other, 1)
	checkAnswer(t, c.do("POST", "/v3/service_instances", body), textTaken)
	checkAnswer(t, c.do("PATCH", path, `{"name":"new"}`), unprocessableText+"Service instances that have been shared cannot be renamed")
	checkAnswer(t, c.do("PATCH", path, `{"name":"it","tags":["a"]}`), "202")
	c.lastOperation(path, "update succeeded")
	for body, status := range map[string]int{`{"shared_with":["nowhere/x"]}`: 400, `{"shared_with":["ferry"]}`: 400, `{"shared_with":["ferry/work"]}`: 409} {
		c.must(status, "PATCH", "/__sim/instances/"+guid, body)
	}
	c.must(200, "PATCH", "/__sim/instances/"+guid, `{"shared_with":[]}`)
	checkAnswer(t, c.do("POST", "/v3/service_instances", body), "202")
	c.must(409, "PATCH", "/__sim/instances/"+guid, `{"shared_with":["demo/other"]}`)
}

// TestTimeFilters has instances and keys made at three moments.
func TestTimeFilters(t *testing.T) {
	t.Parallel()
	var at clock
	o := idle()
	o.Now = at.now
	c := start(t, o)
	for _, name := range []string{"a", "b", "c"} {
		c.must(200, "POST", "/__sim/instances", `{"org":"ferry","space":"work","name":"`+name+`","offering":"postgres","plan":"small","keys":[{"name":"`+name+`"}]}`)
		at.move(1e9)
	}
	tests := map[string]string{
		"created_ats[lt]=2026-03-10T15:49:30Z":                                      "a",
		"created_ats[lte]=2026-03-10T15:49:30Z":                                     "a b",
		"created_ats[gt]=2026-03-10T15:49:30Z":                                      "c",
		"updated_ats[gte]=2026-03-10T15:49:30Z":                                     "b c",
		"created_ats=2026-03-10T15:49:29Z,2026-03-10T15:49:31Z":                     "a c",
		"created_ats[gt]=2026-03-10T15:49:29Z&updated_ats[lt]=2026-03-10T15:49:31Z": "b",
	}
	for query, want := range tests {
		for _, path := range []string{"/v3/service_instances?", "/v3/service_credential_bindings?"} {
			if got := strings.Join(c.must(200, "GET", path+query, "").names(), " "); got != want {
				t.Errorf("%s%s: %q, want %q", path, query, got, want)
			}
		}
	}
	checkAnswer(t, c.do("GET", "/v3/service_instances?updated_ats[lt]="+url.QueryEscape("today"), ""),
		"400 10005 CF-BadQueryParameter: The query parameter is invalid: Updated ats has an invalid timestamp format. Timestamps should be formatted as 'YYYY-MM-DDThh:mm:ssZ'")
}
