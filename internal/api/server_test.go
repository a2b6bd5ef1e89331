package api

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// A real server treats some methods and answers in its own way.
func TestOverARealConnection(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(newBench(t).handler)
	defer server.Close()
	for _, test := range []struct {
		method, target, body string
		status               int
		text                 string
	}{
		{"HEAD", "/v2/catalog", "", 405, ""},
		{"GET", "/v2/catalog", "", 200, `{"services":[]}`},
		{"PUT", "/v2/service_instances/a%2Fb?accepts_incomplete=true", goodInstance, 202, `{"operation":"create-1"}`},
		{"PUT", "/v2//service_instances/x", goodInstance, 404, "description"},
		{"PUT", instanceURL, strings.Repeat(" ", 2<<20), 413, "1048576 bytes"},
		{"GET", "/healthz", "", 200, `{"status":"ok"}`},
	} {
		t.Run(test.method+" "+test.target, func(t *testing.T) {
			request, err := http.NewRequestWithContext(t.Context(), test.method, server.URL+test.target, strings.NewReader(test.body))
			if err != nil {
				t.Fatal(err)
			}
			request.SetBasicAuth("a", "pa")
			request.Header.Set("X-Broker-API-Version", "2.14")
			request.Header.Set("X-Broker-API-Request-Identity", "a, b")
			response, err := server.Client().Do(request)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = response.Body.Close() }()
			text, err := io.ReadAll(response.Body)
			if err != nil {
				t.Fatal(err)
			}
			if response.StatusCode != test.status || !strings.Contains(string(text), test.text) {
				t.Errorf("%d %s, want %d with %s", response.StatusCode, text, test.status, test.text)
			}
			if got := response.Header.Get("X-Broker-API-Request-Identity"); got != "a, b" {
				t.Errorf("request identity = %q", got)
			}
		})
	}
}
