package api

import (
	"context"
	"strconv"
	"strings"
	"testing"

	"github.com/ferry-broker/ferry/internal/broker"
)

func behind(t *testing.T, path string) func(*Options) {
	t.Helper()
	b, err := ParseBasePath(path)
	if err != nil {
		t.Fatal(err)
	}
	return func(o *Options) { o.BasePath = b }
}

func TestWhatABasePathMayBe(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"": "", "/": "", "//": "", "/broker": "/broker", "/broker/": "/broker", "/broker//": "/broker",
		"/a/b.c~-_": "/a/b.c~-_", "/a%20b": "/a%20b", "/v2": "/v2",
	} {
		if got, err := ParseBasePath(text); err != nil || got.String() != want {
			t.Errorf("%q is %q, %v, want %q", text, got.String(), err, want)
		}
	}
	for _, text := range []string{
		"broker", "//broker", "/a//b", "/a/../b", "/./a", "/%2e%2E", "/a b", "/a?b", "/a#b", "/a%", "/a%4", "/ü", "/a\n", "https://host/broker",
		"/" + strings.Repeat("x", 200),
	} {
		if got, err := ParseBasePath(text); err == nil {
			t.Errorf("%q is taken, as %q", text, got.String())
		} else if !strings.Contains(err.Error(), "no part empty, . or ..") || !strings.Contains(err.Error(), strconv.Itoa(maxBasePath)+" bytes") {
			t.Errorf("%q: the error does not name every rule: %v", text, err)
		}
	}
}

// HTTP-20: OSB is below the base path and nowhere else; who asks elsewhere is told which URL to register.
func TestTheBasePathStandsBeforeEverything(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		base, method, target string
		status               int
		tells                string
	}{
		{"/broker", "GET", "/broker/v2/catalog", 200, ""},
		{"/broker/", "GET", "/broker/v2/catalog", 200, ""},
		{"/broker", "GET", "/%62roker/v2/catalog", 200, ""},
		{"/a%20b/c", "GET", "/a%20b/%63/v2/catalog", 200, ""},
		{"/v2", "GET", "/v2/v2/catalog", 200, ""},
		{"/broker", "PUT", "/broker/v2/service_instances/a%2Fb" + asynchronous, 202, ""},
		{"/broker", "GET", "/v2/catalog", 404, "followed by /broker, without /v2"},
		{"/broker", "GET", "/other/v2/catalog", 404, "followed by /broker, without /v2"},
		{"/broker", "GET", "/BROKER/v2/catalog", 404, "followed by /broker"},
		{"/broker", "GET", "/brokers/v2/catalog", 404, "followed by /broker"},
		{"/broker", "GET", "/broker%2Fv2/catalog", 404, "followed by /broker"},
		{"/broker", "GET", "/broker//v2/catalog", 404, "followed by /broker"},
		{"/broker", "GET", "//broker/v2/catalog", 404, "followed by /broker"},
		{"/broker", "GET", "/broker", 404, "followed by /broker"},
		{"/broker", "GET", "/broker/", 404, "followed by /broker"},
		{"/broker", "GET", "/broker/v2/nope", 404, "followed by /broker"},
		{"/v2", "GET", "/v2/catalog", 404, "followed by /v2, without /v2"},
		{"", "GET", "/broker/v2/catalog", 404, "without /broker and without /v2"},
		{"", "GET", "/broker/v2/catalog", 404, "--base-path /broker"},
		{"", "GET", "/a%20b/v2/catalog", 404, "by its URL without /v2"},
		{"", "GET", "/$(x)/v2/catalog", 404, "by its URL without /v2"},
		{"/broker", "GET", "/healthz", 200, ""},
		{"/broker", "GET", "/broker/healthz", 200, ""},
		{"/broker", "GET", "/readyz", 200, ""},
		{"/broker", "GET", "/broker/readyz", 200, ""},
		{"/broker", "GET", "/broker/metrics", 404, "followed by /broker"},
		{"/broker", "GET", "/other/healthz", 404, "followed by /broker"},
	} {
		t.Run(test.base+" "+test.target, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, behind(t, test.base))
			id := ""
			b.broker.provision = func(_ context.Context, r broker.ProvisionRequest) (broker.Result, error) {
				id = r.InstanceID
				return accepted("create-1"), nil
			}
			w := b.send(test.method, test.target, goodInstance)
			if w.Code != test.status {
				t.Fatalf("status = %d, want %d; body %s", w.Code, test.status, w.Body)
			}
			if test.tells != "" {
				described(t, w, test.status, test.tells)
			}
			if test.method == "PUT" && id != "a/b" {
				t.Errorf("the instance id arrives as %q", id)
			}
		})
	}
}

// AUTH-01: what is below the base path is for those who log in, what is not is nobody's, and only the former counts as
// a request.
func TestTheBasePathOpensNothing(t *testing.T) {
	t.Parallel()
	r := &recorder{}
	b := newBench(t, behind(t, "/broker"), func(o *Options) { o.Observer = r })
	described(t, b.send("GET", "/broker/v2/nope", "", without("Authorization")), 401)
	described(t, b.send("GET", "/v2/catalog", "", without("Authorization")), 404)
	if len(r.events) != 1 || r.events[0].Status != 401 {
		t.Errorf("observed %v, want the request below the base path", r.events)
	}
}
