package lambda

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/aws/aws-lambda-go/events"
	"github.com/awslabs/aws-lambda-go-api-proxy/httpadapter"

	"github.com/ferry-broker/ferry/internal/broker"
	"github.com/ferry-broker/ferry/internal/sfn"
)

// TestEventsTellALife sends the events that belong together in their order.
func TestEventsTellALife(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	steps := []struct {
		event  string
		status int
		body   string // a part of it
		drive  bool   // lets the workflow end first
	}{
		{"catalog", 200, `"services":[`, false},
		{"unauthorised", 401, `"description":`, false},
		{"provision", 202, `"operation":"create-`, false},
		{"provision-duplicate", 202, `"operation":"create-`, false},
		{"provision-different", 409, `"description":`, false},
		{"last-operation", 200, `"state":"in progress"`, false},
		{"last-operation", 200, `"state":"succeeded"`, true},
		{"provision-duplicate", 200, `{`, false},
		{"bind", 201, `"big":9007199254740993`, false},
		{"bind", 200, `"big":9007199254740993`, false},
		{"update", 202, `"operation":"update-`, true},
		{"last-operation", 200, `"state":"succeeded"`, true},
		{"unbind", 200, `{`, false},
		{"deprovision", 202, `"operation":"delete-`, true},
		{"last-operation", 200, `"state":"succeeded"`, true},
		{"deprovision", 410, `{`, false},
	}
	for _, step := range steps {
		if step.drive {
			r.drive(t)
		}
		answer := r.send(t, step.event)
		if answer.StatusCode != step.status || !strings.Contains(answer.Body, step.body) {
			t.Fatalf("%s: %d %s; want %d and %s; the log: %s", step.event, answer.StatusCode, answer.Body, step.status, step.body, r.log)
		}
	}
	if starts := r.machine.take(); len(starts) != 0 {
		t.Errorf("duplicates started %v", starts)
	}
}

func TestEventsOfOddRequests(t *testing.T) {
	t.Parallel()
	const odd = "shop/db ?%#1"
	tests := map[string]struct {
		status  int
		started string // the instance whose operation began
		header  http.Header
	}{
		"encoded-ids":      {202, odd, nil},
		"decoded-ids":      {202, "shop db ?%#1", nil},
		"base64-body":      {202, "0d5ad2d6-2f2c-4f0e-9d3b-6d2f6a0f0003", nil},
		"repeated-headers": {200, "", http.Header{"X-Broker-Api-Request-Identity": {"first, with a comma,second"}}},
		"unauthorised":     {401, "", http.Header{"Www-Authenticate": {`Basic realm="`}}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			answer := r.send(t, name)
			if answer.StatusCode != test.status {
				t.Fatalf("%d %s, want %d", answer.StatusCode, answer.Body, test.status)
			}
			for key, want := range test.header {
				got := strings.Join(answer.MultiValueHeaders[key], "|")
				if !strings.HasPrefix(got, want[0]) {
					t.Errorf("%s is %q, want %q", key, got, want[0])
				}
			}
			var started string
			for _, s := range r.machine.take() {
				started += s.Key.InstanceID
			}
			if started != test.started {
				t.Errorf("started for %q, want %q", started, test.started)
			}
		})
	}
}

func TestEventsOfTheWorkflow(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	tick := read[sfn.Tick](t, "tick")
	if next, err := r.poller.Handle(t.Context(), tick); err != nil || !next.Done {
		t.Errorf("tick: %+v, %v; want done, since there is no such operation", next, err)
	}
	key, err := tick.Key()
	if want := sfn.NewTick(broker.Start{Key: key, Operation: tick.Operation}); err != nil || want != tick {
		t.Errorf("the event is %+v, the workflow would send %+v (%v)", tick, want, err)
	}
	for _, name := range []string{"schedule", "schedule-audit"} {
		if err := r.janitor.Handle(t.Context(), read[Schedule](t, name)); err != nil {
			t.Errorf("%s: %v; the log: %s", name, err, r.log)
		}
	}
	if text := r.log.String(); !strings.Contains(text, `"msg":"janitor round","restarted":0`) || !strings.Contains(text, `"msg":"audit completed"`) {
		t.Errorf("the log: %s", text)
	}
}

// TestEveryEventIsOne keeps files out of the folder that no test sends.
func TestEveryEventIsOne(t *testing.T) {
	t.Parallel()
	sent := "catalog provision provision-duplicate provision-different bind last-operation update unbind deprovision " +
		"unauthorised encoded-ids decoded-ids repeated-headers base64-body tick schedule schedule-audit"
	files, err := filepath.Glob("../../events/*")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if name := strings.TrimSuffix(filepath.Base(file), ".json"); err != nil || !json.Valid(text) || !strings.Contains(" "+sent+" ", " "+name+" ") {
			t.Errorf("%s: no test sends it, or it is no JSON (%v)", file, err)
		}
	}
	if want := len(strings.Fields(sent)); len(files) != want {
		t.Errorf("%d files, want %d", len(files), want)
	}
}

func TestReadable(t *testing.T) {
	t.Parallel()
	for path, want := range map[string]string{
		"/v2/catalog":          "/v2/catalog",
		"/v2/a%2Fb%3f":         "/v2/a%2Fb%3f",
		"/v2/100%":             "/v2/100%25",
		"/v2/%2":               "/v2/%252",
		"/v2/%zz":              "/v2/%25zz",
		"/v2/a?b#c d":          "/v2/a%3Fb%23c%20d",
		"/v2/größe\n":          "/v2/gr%C3%B6%C3%9Fe%0A",
		"//v2/../x":            "//v2/../x",
		"/v2/a+b&c=d;e@f:g,h!": "/v2/a+b&c=d;e@f:g,h!",
		"":                     "",
	} {
		got, err := readable(events.APIGatewayProxyRequest{Path: path})
		if err != nil || got.Path != want {
			t.Errorf("%q became %q, %v; want %q", path, got.Path, err, want)
		}
	}
	got, err := readable(events.APIGatewayProxyRequest{Body: "/wA=", IsBase64Encoded: true})
	if err != nil || got.Body != "\xff\x00" || got.IsBase64Encoded {
		t.Errorf("body %q, %v", got.Body, err)
	}
	if _, err := readable(events.APIGatewayProxyRequest{Body: "{}", IsBase64Encoded: true}); err == nil {
		t.Error("what is no base64 was decoded")
	}
}

// FuzzReadable: whatever a path holds, the adapter makes a request of it and the
// broker answers.
func FuzzReadable(f *testing.F) {
	for _, path := range []string{"", "/", "/v2/catalog", "%", "/v2/%zz/\x00", "//", "/v2/é", "http://x", ":", "/a\x7f"} {
		f.Add(path)
	}
	f.Fuzz(func(t *testing.T, path string) {
		event, err := readable(events.APIGatewayProxyRequest{Path: path, HTTPMethod: "GET"})
		if err != nil {
			t.Fatal(err)
		}
		answer, err := newEcho().ProxyWithContext(t.Context(), event)
		if err != nil || answer.StatusCode != http.StatusOK {
			t.Errorf("path %q as %q: %d, %v", path, event.Path, answer.StatusCode, err)
		}
	})
}

// TestTheBasePathOfADomain: API Gateway keeps the base path of a domain's mapping in the
// path of the event. At the API's own address there is none.
func TestTheBasePathOfADomain(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		variable, path string
		status         int
	}{
		"below the base path":              {"/ferry", "/ferry/v2/catalog", 200},
		"a domain without a base path":     {"", "/v2/catalog", 200},
		"the own address goes on":          {"/ferry", "/v2/catalog", 200},
		"its health too":                   {"/ferry", "/healthz", 200},
		"health below the base path":       {"/ferry", "/ferry/healthz", 200},
		"nothing behind the base path":     {"/ferry", "/ferry", 404},
		"something alike":                  {"/ferry", "/ferryman/v2/catalog", 404},
		"a base path that nobody told us":  {"", "/ferry/v2/catalog", 404},
		"another one than we were told of": {"/broker", "/ferry/v2/catalog", 404},
		"the base path twice":              {"/ferry", "/ferry/ferry/v2/catalog", 404},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			event := readEvent(t, "catalog")
			event.Path, event.StageVariables = test.path, map[string]string{"logRole": "existing", basePath: test.variable}
			answer, _ := newRig(t).api.Handle(t.Context(), event)
			if answer.StatusCode != test.status || test.status == 404 && !strings.Contains(answer.Body, "Register this broker by its URL without ") {
				t.Errorf("%d %.300s, want %d", answer.StatusCode, answer.Body, test.status)
			}
		})
	}
}

// TestAnAnswerThatLambdaCannotCarryIsRefused: 6 MB of the answer as an event, in which
// each quote takes two bytes. Nothing of a long answer gets into the log.
func TestAnAnswerThatLambdaCannotCarryIsRefused(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		body   string
		status int
	}{
		"a common answer":                       {`{"services":[]}`, 200},
		"one of 5 MB":                           {strings.Repeat("s3cr3t", 5<<20/6), 200},
		"one of 3 MB that is mostly quotes":     {strings.Repeat(`"`, 3<<20), 500},
		"one of more than 6 MB":                 {strings.Repeat("s3cr3t", 6<<20/6+1), 500},
		"one of 4 MB with signs of HTML":        {strings.Repeat("<", 4<<20), 200},
		"one that is only just short enough":    {strings.Repeat("x", maxAnswer-1000), 200},
		"one that its frame makes too long":     {strings.Repeat("x", maxAnswer-10), 500},
		"one of 2 MB of what has to be escaped": {strings.Repeat("\x01", 2<<20), 500},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			log := &logged{}
			adapter := httpadapter.New(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(test.body)) }))
			p := proxy{logger: slog.New(newLines(log)), ready: func(context.Context) (*httpadapter.HandlerAdapter, error) { return adapter, nil }}
			event := readEvent(t, "catalog")
			event.QueryStringParameters = map[string]string{"q": "s3cr3t"}
			answer := p.handle(t.Context(), event)
			if answer.StatusCode != test.status {
				t.Fatalf("%d %.200s, want %d", answer.StatusCode, answer.Body, test.status)
			}
			if refused := test.status == 500; refused != strings.Contains(log.String(), `"msg":"the answer is too long for Lambda"`) ||
				refused && !strings.HasPrefix(answer.Body, `{"description":"The answer has `) || strings.Contains(log.String(), "s3cr3t") {
				t.Errorf("%.300s; the log: %.500s", answer.Body, log)
			}
		})
	}
}

// TestHealthWithoutAConfiguration: the process lives; it is not ready.
func TestHealthWithoutAConfiguration(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.configure(nil, errors.New("no such secret"))
	for path, want := range map[string]int{"/healthz": http.StatusOK, "/readyz": http.StatusServiceUnavailable, "/v2/catalog": http.StatusServiceUnavailable} {
		answer, err := r.api.Handle(t.Context(), events.APIGatewayProxyRequest{HTTPMethod: http.MethodGet, Path: path})
		if err != nil || answer.StatusCode != want {
			t.Errorf("%s: %d %s, %v; want %d", path, answer.StatusCode, answer.Body, err, want)
		}
		if (answer.Headers["Retry-After"] != "") != (want == http.StatusServiceUnavailable) {
			t.Errorf("%s: Retry-After %q", path, answer.Headers["Retry-After"])
		}
	}
}
