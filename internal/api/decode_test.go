package api

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ferry-broker/ferry/internal/broker"
	"github.com/ferry-broker/ferry/internal/osb"
)

// HTTP-03 to HTTP-07, PROV-15, UPD-03, BIND-11.
func TestBodiesThatAreRefused(t *testing.T) {
	t.Parallel()
	provision := func(extra string) string { return goodInstance[:len(goodInstance)-1] + "," + extra + "}" }
	for _, test := range []struct {
		name, method, target, body string
		parts                      []string
	}{
		{"no body", "PUT", instanceURL, "", []string{"no body"}},
		{"a cut body", "PUT", instanceURL, "{", []string{"JSON"}},
		{"an array", "PUT", instanceURL, "[]", []string{"object"}},
		{"null", "PUT", instanceURL, "null", []string{"object"}},
		{"a string", "PUT", bindingURL, `"x"`, []string{"object"}},
		{"something after the object", "PUT", instanceURL, goodInstance + "x", []string{"JSON"}},
		{"a second object", "PATCH", instanceURL, goodInstance + "{}", []string{"JSON"}},
		{"text that is not UTF-8", "PUT", instanceURL, provision("\"x\":\"\xff\""), []string{"UTF-8"}},
		{"a key twice", "PUT", instanceURL, provision(`"service_id":"t"`), []string{"service_id", "twice"}},
		{"a key twice deep inside parameters", "PUT", instanceURL, provision(`"parameters":{"a":[{"b":1,"b":2}]}`), []string{"twice"}},
		{"a key twice in what nobody knows", "PATCH", instanceURL, provision(`"x":{"b":1,"b":2}`), []string{"twice"}},
		{"nesting without end", "PUT", instanceURL, provision(`"parameters":{"a":` + strings.Repeat("[", 600) + strings.Repeat("]", 600) + "}"), []string{"nested"}},
		{"service_id is a number", "PUT", instanceURL, `{"service_id":1}`, []string{"service_id must be a string"}},
		{"several wrong types", "PUT", instanceURL, provision(`"context":[],"maintenance_info":"2"`), []string{"context must be an object", "maintenance_info must be an object"}},
		{"parameters are a string", "PUT", instanceURL, provision(`"parameters":"{}"`), []string{"parameters must be an object"}},
		{"parameters are an array", "PATCH", instanceURL, `{"service_id":"s","parameters":[]}`, []string{"parameters must be an object"}},
		{"parameters are a number", "PUT", bindingURL, `{"service_id":"s","plan_id":"p","parameters":1}`, []string{"parameters must be an object"}},
		{"a nested wrong type", "PATCH", instanceURL, `{"service_id":"s","maintenance_info":{"version":2}}`, []string{"maintenance_info.version must be a string"}},
		{"a platform that is no text", "PUT", instanceURL, provision(`"context":{"platform":1}`), []string{"context.platform must be a string"}},
		{"an app that is a number", "PUT", bindingURL, `{"service_id":"s","plan_id":"p","bind_resource":{"app_guid":1}}`, []string{"bind_resource.app_guid must be a string"}},
		{"a predecessor that is a number", "PUT", bindingURL, `{"predecessor_binding_id":1}`, []string{"predecessor_binding_id must be a string"}},
		{"an empty provision", "PUT", instanceURL, "{}", []string{"service_id, plan_id, organization_guid, space_guid"}},
		{"empty strings in a provision", "PUT", instanceURL, `{"service_id":"s","plan_id":"","organization_guid":"","space_guid":null}`, []string{"plan_id, organization_guid, space_guid"}},
		{"names in other letters", "PUT", instanceURL, `{"Service_ID":"s","PLAN_ID":"p","organization_guid":"o","space_guid":"sp"}`, []string{"service_id, plan_id"}},
		{"an update without service_id", "PATCH", instanceURL, `{"plan_id":"p"}`, []string{"service_id"}},
		{"a bind without plan_id", "PUT", bindingURL, `{"service_id":"s"}`, []string{"plan_id"}},
		{"an empty predecessor excuses nothing", "PUT", bindingURL, `{"predecessor_binding_id":""}`, []string{"service_id, plan_id"}},
		{"a deprovision without hints", "DELETE", instanceURL, "", []string{"service_id, plan_id"}},
		{"a deprovision with an empty plan_id", "DELETE", instanceURL + "?service_id=s&plan_id=", "", []string{"plan_id"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			described(t, newBench(t).send(test.method, test.target, test.body), 400, test.parts...)
		})
	}
}

func TestAFormTypeIsNamedOnlyWhenTheBodyCannotBeRead(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	form := with("Content-Type", "application/x-www-form-urlencoded")
	if w := b.send("PUT", instanceURL, goodInstance, form); w.Code != 202 {
		t.Errorf("perfect JSON with curl's default type = %d, want 202", w.Code)
	}
	described(t, b.send("PUT", instanceURL, "service_id=s", form), 400, "Content-Type")
	w := b.send("PUT", instanceURL, "{", with("Content-Type", "application/json; charset=utf-8"))
	described(t, w, 400)
	if strings.Contains(w.Body.String(), "Content-Type") {
		t.Errorf("the right Content-Type is blamed: %s", w.Body)
	}
}

type broken struct{}

func (broken) Read([]byte) (int, error) { return 0, errors.New("S3CRET of the connection") }

func TestBodySizes(t *testing.T) {
	t.Parallel()
	b := newBench(t, func(o *Options) { o.RequestBytes, o.ParametersBytes = 200, 40 })
	exact := goodInstance + strings.Repeat(" ", 200-len(goodInstance))
	if w := b.send("PUT", instanceURL, exact); w.Code != 202 {
		t.Errorf("a body of the limit = %d, want 202", w.Code)
	}
	unknownLength := func(r *http.Request) { r.ContentLength = -1 }
	described(t, b.send("PUT", instanceURL, exact+" "), 413, "200 bytes")
	described(t, b.send("PUT", instanceURL, exact+" ", unknownLength), 413, "200 bytes")
	announced := func(r *http.Request) { r.ContentLength, r.Body = 201, unread{t} }
	described(t, b.send("PUT", instanceURL, "", announced), 413, "200 bytes")
	parameters := func(n int) string {
		return `{"service_id":"s","parameters":{"a":"` + strings.Repeat("x", n-len(`{"a":""}`)) + `"}}`
	}
	if w := b.send("PATCH", instanceURL, parameters(40)); w.Code != 202 {
		t.Errorf("parameters of the limit = %d, want 202", w.Code)
	}
	described(t, b.send("PATCH", instanceURL, parameters(41)), 400, "parameters", "40 bytes")
	w := b.send("PUT", instanceURL, "", unknownLength, func(r *http.Request) { r.Body = io.NopCloser(broken{}) })
	described(t, w, 400, "to its end")
	if all := w.Body.String() + b.log.String(); strings.Contains(all, "S3CRET") {
		t.Errorf("the reader's error shows: %s", all)
	}
}

func TestWhatTheBrokerReceives(t *testing.T) {
	t.Parallel()
	raw := func(text string) json.RawMessage { return json.RawMessage(text) }
	ask := broker.Call{Client: "alpha", AcceptsIncomplete: true, OriginatingIdentity: "kubernetes e30="}
	for _, test := range []struct {
		name, method, target, body string
		want                       any
	}{
		{
			"a provision", "PUT", instanceURL + asynchronous,
			`{"service_id":"s","plan_id":"p","organization_guid":"o","space_guid":"sp","context":{"platform":"kubernetes", "namespace":"n"},
			"parameters":{"big": 9007199254740993, "b":"<&>"},"maintenance_info":{"version":"1.0.0","description":7},"Parameters":1,"x":[]}`,
			broker.ProvisionRequest{Call: ask, InstanceID: "i1", Body: osb.ProvisionRequest{
				ServiceID: "s", PlanID: "p", OrganizationGUID: "o", SpaceGUID: "sp",
				Context:         raw(`{"platform":"kubernetes", "namespace":"n"}`),
				Parameters:      raw(`{"big": 9007199254740993, "b":"<&>"}`),
				MaintenanceInfo: &osb.MaintenanceInfo{Version: "1.0.0"},
			}},
		},
		{
			"a provision full of nulls, as Korifi sends it", "PUT", instanceURL + asynchronous,
			`{"service_id":"s","plan_id":"p","organization_guid":"o","space_guid":"sp","context":null,"parameters":null,"maintenance_info":null}`,
			broker.ProvisionRequest{Call: ask, InstanceID: "i1", Body: osb.ProvisionRequest{ServiceID: "s", PlanID: "p", OrganizationGUID: "o", SpaceGUID: "sp"}},
		},
		{
			"an update", "PATCH", instanceURL + asynchronous,
			`{"service_id":"s","parameters":{},"maintenance_info":{},"previous_values":{"plan_id":7}}`,
			broker.UpdateRequest{Call: ask, InstanceID: "i1", Body: osb.UpdateRequest{ServiceID: "s", Parameters: raw(`{}`), PreviousValues: raw(`{"plan_id":7}`)}},
		},
		{
			"a bind", "PUT", bindingURL + asynchronous,
			`{"service_id":"s","plan_id":"p","app_guid":"","bind_resource":{"app_guid":"g","route":null,"app_annotations":1}}`,
			broker.BindRequest{Call: ask, InstanceID: "i1", BindingID: "b1", Body: osb.BindRequest{
				ServiceID: "s", PlanID: "p", BindResource: &osb.BindResource{AppGUID: "g"}}},
		},
		{
			"a rotation with nothing but its predecessor", "PUT", bindingURL + asynchronous,
			`{"predecessor_binding_id":"b0"}`,
			broker.BindRequest{Call: ask, InstanceID: "i1", BindingID: "b1", Body: osb.BindRequest{PredecessorBindingID: "b0"}},
		},
		{
			"a deprovision, whose body means nothing", "DELETE", instanceURL + asynchronous + "&service_id=s%2F1&plan_id=p&service_id=t", "{",
			broker.DeleteRequest{Call: ask, InstanceID: "i1", ServiceID: "s/1", PlanID: "p"},
		},
		{
			"an unbind without hints", "DELETE", bindingURL + asynchronous, "",
			broker.DeleteRequest{Call: ask, InstanceID: "i1", BindingID: "b1"},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			got := record(b.broker)
			w := b.send(test.method, test.target, test.body, with("X-Broker-API-Originating-Identity", "kubernetes e30="))
			if diff := cmp.Diff(test.want, *got); w.Code != 202 || diff != "" {
				t.Errorf("status %d, request (-want +got):\n%s", w.Code, diff)
			}
		})
	}
}

// record keeps the last changing request that f receives.
func record(f *fakeBroker) *any {
	var last any
	f.provision = func(_ context.Context, r broker.ProvisionRequest) (broker.Result, error) {
		last = r
		return accepted("o"), nil
	}
	f.update = func(_ context.Context, r broker.UpdateRequest) (broker.Result, error) {
		last = r
		return accepted("o"), nil
	}
	f.bind = func(_ context.Context, r broker.BindRequest) (broker.Result, error) {
		last = r
		return accepted("o"), nil
	}
	f.deprovision = func(_ context.Context, r broker.DeleteRequest) (broker.Result, error) {
		last = r
		return accepted("o"), nil
	}
	f.unbind = f.deprovision
	return &last
}

// ASY-16, HTTP-22.
func TestOnlyTheLiteralTrueAcceptsIncomplete(t *testing.T) {
	t.Parallel()
	for query, want := range map[string]bool{
		"?accepts_incomplete=true":                          true,
		"?accepts_incomplete=true&accepts_incomplete=false": true,
		"?x=%zz&accepts_incomplete=true":                    true,
		"?accepts_incomplete=false&accepts_incomplete=true": false,
		"?accepts_incomplete=True":                          false,
		"?accepts_incomplete=1":                             false,
		"?accepts_incomplete":                               false,
		"?accepts%5Fincomplete=%74rue":                      true,
		"?&&=&accepts_incomplete=true":                      true,
		"?accepts_incomplete;=true":                         false,
		"?accepts_incomplete=true+":                         false,
		"?Accepts_Incomplete=true":                          false,
		"?x=accepts_incomplete=true":                        false,
		"":                                                  false,
	} {
		b := newBench(t)
		got := record(b.broker)
		b.send("PUT", instanceURL+query, goodInstance)
		if r := (*got).(broker.ProvisionRequest); r.AcceptsIncomplete != want {
			t.Errorf("%q: AcceptsIncomplete = %v, want %v", query, r.AcceptsIncomplete, want)
		}
	}
}

// endless is a body without a length, of which somebody counts what is read.
type endless struct{ read int64 }

func (e *endless) Read(p []byte) (int, error) {
	if e.read > 1<<26 {
		return 0, io.EOF // whoever reads all of it has long lost
	}
	e.read += int64(len(p))
	for i := range p {
		p[i] = ' '
	}
	return len(p), nil
}

// A body that does not say how long it is, is read to the limit and no further, before it is parsed or kept.
func TestAChunkedBodyIsNotReadBeyondTheLimit(t *testing.T) {
	t.Parallel()
	const limit = 1000
	b := newBench(t, func(o *Options) { o.RequestBytes = limit })
	body := &endless{}
	w := b.send("PUT", instanceURL, "", func(r *http.Request) { r.Body, r.ContentLength = io.NopCloser(body), -1 })
	described(t, w, 413, "1000 bytes")
	if body.read > limit+1 {
		t.Errorf("%d bytes were read, want at most one above the limit of %d", body.read, limit)
	}
}

// RID-02, RID-04.
func TestTheRequestIdentityComesBack(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name   string
		values []string
		want   string
	}{
		{"a plain one", []string{"4f0e-1"}, "4f0e-1"},
		{"commas and spaces", []string{"a, b,c"}, "a, b,c"},
		{"one that a gateway split at its comma", []string{"a", "b"}, "a,b"},
		{"one that would end the header", []string{"a\r\nSet-Cookie: x=1\x00\x7f"}, "aSet-Cookie: x=1"},
		{"one that is not ASCII", []string{"é\xff"}, "é\xff"},
		{"a very long one", []string{strings.Repeat("x", 5000)}, strings.Repeat("x", maxEcho)},
		{"an empty one", []string{""}, ""},
		{"none", nil, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			w := b.send("GET", "/v2/catalog", "", func(r *http.Request) {
				r.Header["X-Broker-Api-Request-Identity"] = test.values
			})
			if got := w.Header().Get("X-Broker-API-Request-Identity"); got != test.want {
				t.Errorf("identity = %q, want %q", got, test.want)
			}
		})
	}
}

// OID-01 to OID-11, case AUT-08.
func TestOriginatingIdentities(t *testing.T) {
	t.Parallel()
	encoded := func(text string) string { return base64.StdEncoding.EncodeToString([]byte(text)) }
	huge := "kubernetes " + encoded(`{"a":"`+strings.Repeat("x", maxOriginator)+`"}`)
	for _, test := range []struct {
		name, value  string
		passed, note bool
	}{
		{"Cloud Foundry's", "cloudfoundry " + encoded(`{"user_id":"683"}`), true, false},
		{"an unknown platform's", "nomad " + encoded(`{}`), true, false},
		{"without padding", "kubernetes " + strings.TrimRight(encoded(`{"u":"1"}`), "="), true, false},
		{"none", "", true, false},
		{"no base64", "cloudfoundry !!!", true, true},
		{"no JSON", "cloudfoundry " + encoded("MARKED"), true, true},
		{"no object", "cloudfoundry " + encoded("null"), true, true},
		{"one word", "cloudfoundry", true, true},
		{"three words", "cloudfoundry " + encoded("{}") + " x", true, true},
		{"too large to be kept", huge, false, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			got := record(b.broker)
			w := b.send("PUT", instanceURL, goodInstance, with("X-Broker-API-Originating-Identity", test.value))
			want := test.value
			if !test.passed {
				want = ""
			}
			if r := (*got).(broker.ProvisionRequest); w.Code != 202 || r.OriginatingIdentity != want {
				t.Errorf("status %d, passed on %d bytes, want %d", w.Code, len(r.OriginatingIdentity), len(want))
			}
			lines := b.lines(t)
			if _, noted := lines[0]["originating_identity"]; len(lines) != 1 || noted != test.note || lines[0]["level"] != "INFO" {
				t.Errorf("log %v, want one INFO line, noted: %v", lines, test.note)
			}
			if test.value != "" && strings.Contains(b.log.String(), test.value) {
				t.Error("the identity is in the log")
			}
		})
	}
}

func TestAnUnreadableOriginatorIsNotedOnPollsToo(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.broker.poll = func(context.Context, broker.PollRequest) (broker.Poll, error) {
		return broker.Poll{State: "succeeded"}, nil
	}
	b.send("GET", instanceURL+"/last_operation", "", with("X-Broker-API-Originating-Identity", "x"))
	if b.lines(t)[0]["originating_identity"] != "unreadable" {
		t.Errorf("log %s", b.log)
	}
}
