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
	"time"

	"github.com/aws/aws-lambda-go/events"
	"github.com/awslabs/aws-lambda-go-api-proxy/httpadapter"

	"github.com/ferry-broker/ferry/internal/secrets"
	"github.com/ferry-broker/ferry/internal/sfn"
)

// TestEventsTellALife sends the events that belong together in their order.
func TestEventsTellALife(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
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
			h.drive(t.Context(), t)
		}
		answer := h.send(t, step.event)
		if answer.StatusCode != step.status || !strings.Contains(answer.Body, step.body) {
			t.Fatalf("%s: %d %s; want %d and %s; the log: %s", step.event, answer.StatusCode, answer.Body, step.status, step.body, h.log)
		}
	}
	if starts := h.machine.take(); len(starts) != 0 {
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
			h := newHarness(t)
			answer := h.send(t, name)
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
			for _, s := range h.machine.take() {
				started += s.Key.InstanceID
			}
			if started != test.started {
				t.Errorf("started for %q, want %q", started, test.started)
			}
		})
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

// FuzzReadable: whatever a path holds, the adapter makes a request of it and the broker answers.
func FuzzReadable(f *testing.F) {
	for _, path := range []string{"", "/", "/v2/catalog", "%", "/v2/%zz/\x00", "//", "/v2/é", "http://x", ":", "/a\x7f"} {
		f.Add(path)
	}
	f.Fuzz(func(t *testing.T, path string) {
		event, err := readable(events.APIGatewayProxyRequest{Path: path, HTTPMethod: "GET"})
		if err != nil {
			t.Fatal(err)
		}
		echo := httpadapter.New(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = w.Write([]byte(r.URL.EscapedPath())) }))
		answer, err := echo.ProxyWithContext(t.Context(), event)
		if err != nil || answer.StatusCode != http.StatusOK {
			t.Errorf("path %q as %q: %d, %v", path, event.Path, answer.StatusCode, err)
		}
	})
}

// TestTheBasePathOfADomain: API Gateway keeps the base path of a domain's mapping in the path of the event. At the
// API's own address there is none.
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
			answer := newHarness(t).send(t, "catalog", func(event *events.APIGatewayProxyRequest) {
				event.Path, event.StageVariables = test.path, map[string]string{"logRole": "existing", basePath: test.variable}
			})
			if answer.StatusCode != test.status || test.status == 404 && !strings.Contains(answer.Body, "Register this broker by its URL without ") {
				t.Errorf("%d %.300s, want %d", answer.StatusCode, answer.Body, test.status)
			}
		})
	}
}

// TestAnAnswerThatLambdaCannotCarryIsRefused: 6 MB of the answer as an event, in which each quote takes two bytes.
// Nothing of a long answer gets into the log.
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

// TestHealth: without a configuration the process lives, and is not ready.
func TestHealth(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	for _, step := range []struct {
		trouble func()
		status  map[string]int
		body    string
	}{
		{func() {}, map[string]int{"/healthz": 200, "/readyz": 200, "/v2/catalog": 200}, ""},
		{func() { h.table.set(errDown, nil) }, map[string]int{"/healthz": 200, "/readyz": 503}, "store"},
		{func() { h.configure(nil, errDown) }, map[string]int{"/healthz": 200, "/readyz": 503, "/v2/catalog": 503}, "configuration"},
	} {
		step.trouble()
		for path, want := range step.status {
			answer := h.send(t, "catalog", func(event *events.APIGatewayProxyRequest) { event.Path = path })
			if answer.StatusCode != want || want == 503 && !strings.Contains(answer.Body, step.body) {
				t.Errorf("%s: %d %s; want %d and %s", path, answer.StatusCode, answer.Body, want, step.body)
			}
			if step.body == "configuration" && (answer.Headers["Retry-After"] != "") != (want == 503) {
				t.Errorf("%s: Retry-After %q", path, answer.Headers["Retry-After"])
			}
		}
	}
}

func TestAPanicIsAnsweredAndTheEnvironmentSurvives(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	if answer := h.send(t, "provision"); answer.StatusCode != 202 {
		t.Fatalf("%d %s", answer.StatusCode, answer.Body)
	}
	tick := sfn.NewTick(h.machine.take()[0])
	h.table.set(nil, "s3cr3t")
	if answer := h.send(t, "last-operation"); answer.StatusCode != 500 || strings.Contains(answer.Body, "s3cr3t") {
		t.Errorf("api: %d %s", answer.StatusCode, answer.Body)
	}
	_, err := h.poller.Handle(t.Context(), tick)
	if _, ok := errors.AsType[*TickPanicked](err); !ok {
		t.Errorf("poller: %v, want *TickPanicked", err)
	}
	err = h.janitor.Handle(t.Context(), Schedule{})
	if _, ok := errors.AsType[*JanitorFailed](err); !ok {
		t.Errorf("janitor: %v, want *JanitorFailed", err)
	}
	h.table.set(nil, nil)
	if answer := h.send(t, "last-operation"); answer.StatusCode != 200 {
		t.Errorf("afterwards: %d %s", answer.StatusCode, answer.Body)
	}
	h.api.core.configuration = func(context.Context) (secrets.Copy, error) { panic("s3cr3t") }
	if answer := h.send(t, "catalog"); answer.StatusCode != 500 || !strings.HasPrefix(answer.Body, `{"description":`) {
		t.Errorf("around the handler: %d %s", answer.StatusCode, answer.Body)
	}
	if text := h.log.String(); strings.Count(text, `"stack":`) != 4 || strings.Contains(text, "s3cr3t") {
		t.Errorf("the log: %s", text)
	}
}

func TestCatalogsAreFetchedByTheJanitorAndReadByTheAPI(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	before := h.send(t, "catalog")
	h.control(t, "marketplace", `{"hide":["postgres/large"]}`)
	if err := h.janitor.Handle(t.Context(), Schedule{}); err != nil {
		t.Fatal(err)
	}
	if answer := h.send(t, "catalog"); answer.Body != before.Body {
		t.Error("the store was read within the minute")
	}
	h.pass(reloadEvery)
	if answer := h.send(t, "catalog"); answer.Body == before.Body {
		t.Error("what the janitor stored was not taken over")
	}
	if h.janitor.due("demo", 5*time.Minute) {
		t.Error("the catalog is fetched again before its time")
	}
	h.pass(4 * time.Minute)
	if !h.janitor.due("demo", 5*time.Minute) {
		t.Error("the catalog is not fetched again")
	}
}

func TestTheBudgetEndsBeforeLambdaDoes(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.send(t, "provision")
	h.drive(t.Context(), t)
	h.control(t, "faults", `{"method":"POST","route":"/v3/service_credential_bindings","when":"before","action":"delay","delay_ms":60000}`)
	h.pass(time.Since(h.now())) // the runtime sets the deadline by the real clock
	deadline := time.Now().Add(1500 * time.Millisecond)
	ctx, cancel := context.WithDeadline(t.Context(), deadline)
	defer cancel()
	answer, err := h.api.Handle(ctx, readEvent(t, "bind"))
	if err != nil || answer.StatusCode != 500 || !time.Now().Before(deadline) {
		t.Errorf("%d %s, %v, %v after the deadline; want an answer of our own before it", answer.StatusCode, answer.Body, err, time.Since(deadline))
	}
}
