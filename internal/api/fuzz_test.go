package api

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
)

// FuzzHandler sends anything: no panic gets out or is logged, every refusal is an OSB error, and the request identity
// comes back.
func FuzzHandler(f *testing.F) {
	for _, seed := range []struct{ method, target, version, password, identity, body string }{
		{"GET", "/v2/catalog", "2.17", "pa", "r", ""},
		{"PUT", instanceURL + asynchronous, "2.13", "pa", "r\r\nx: y", goodInstance},
		{"PATCH", instanceURL, "2.17", "pa", "", `{"service_id":"s","parameters":{"a":1,"a":2}}`},
		{"PUT", bindingURL, "2.17", "pa", "r", `{"service_id":"s","plan_id":"p","bind_resource":{"app_guid":null}}`},
		{"DELETE", "/v2/service_instances/%2e%2e/service_bindings/%ff?service_id=%zz", "2", "pa", "r", "{"},
		{"GET", instanceURL + "/last_operation?operation=a;b", "3.0", "pb", "r", ""},
		{"OPTIONS", "//v2/../healthz", "", "", "r", ""},
		{"GET", "/metrics", "2.17", "pa", "r", ""},
	} {
		f.Add(seed.method, seed.target, seed.version, seed.password, seed.identity, seed.body)
	}
	b := newBench(f, func(o *Options) { o.RequestBytes, o.ParametersBytes = 4096, 512 })
	f.Fuzz(func(t *testing.T, method, target, version, password, identity, body string) {
		location, err := url.ParseRequestURI(target)
		if err != nil {
			t.Skip("net/http refuses this request line itself")
		}
		b.log.Reset()
		r := &http.Request{Method: method, URL: location, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(body)), ContentLength: -1}
		r.SetBasicAuth("a", password)
		r.Header.Set("X-Broker-API-Version", version)
		r.Header.Set("X-Broker-API-Request-Identity", identity)
		w := httptest.NewRecorder()
		b.handler.ServeHTTP(w, r)
		judge(t, w, identity)
		if strings.Contains(b.log.String(), `"stack"`) {
			t.Errorf("something panicked: %s", b.log)
		}
	})
}

// judge checks what holds for every answer.
func judge(t *testing.T, w *httptest.ResponseRecorder, identity string) {
	t.Helper()
	got := w.Header().Get("X-Broker-API-Request-Identity")
	if strings.ContainsAny(got, "\r\n\x00") || len(got) > maxEcho {
		t.Errorf("the identity %q is not fit for a header", got)
	}
	if plain := strings.Trim(identity, " \t"); printable(plain) && len(plain) <= maxEcho && got != plain {
		t.Errorf("identity = %q, want %q", got, plain)
	}
	var body struct{ Description string }
	if err := json.Unmarshal(w.Body.Bytes(), &body); err != nil || !strings.HasPrefix(w.Body.String(), "{") {
		t.Fatalf("%d with the body %q: %v", w.Code, w.Body, err)
	}
	if w.Code >= 400 && w.Code != http.StatusGone && body.Description == "" {
		t.Errorf("%d without a description: %s", w.Code, w.Body)
	}
	if w.Code >= 500 {
		t.Errorf("%d: %s", w.Code, w.Body)
	}
}

func printable(text string) bool {
	for _, c := range []byte(text) {
		if c <= ' ' || c > '~' {
			return false
		}
	}
	return true
}
