package deployed

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/ferry-broker/ferry/internal/sfn"
)

// gate lies between the functions and the stand-in for AWS: every call of theirs goes through it, is written down, and
// can be disturbed at that very moment. A call that was let through takes effect even when its sender has died, as on
// AWS.
type gate struct {
	t         testing.TB
	server    *httptest.Server
	target    *url.URL
	transport *http.Transport
	closing   chan struct{}

	mu     sync.Mutex
	root   int // whose descendants may be killed
	faults []*ordered
	asked  []*call
	names  map[string]string // function by access key
}

// call is one call of a function.
type call struct {
	// Action is as in DynamoDB.PutItem, StepFunctions.StartExecution or SecretsManager.GetSecretValue; empty for what
	// is no call of an API.
	Action string
	// From is the name of the function that sent it; empty where nobody can tell.
	From string
	// About holds the ids in the call: of instances, bindings, operations, secrets.
	About []string
	Body  []byte
	// Met is the fault that the call met, if any.
	Met *ordered
	// Refusal is the kind of error that the stand-in answered, if any.
	Refusal string
}

// newGate opens a gate to the address of the stand-in, until the test has ended.
func newGate(t testing.TB, target string) *gate {
	t.Helper()
	to, err := url.Parse(target)
	if err != nil {
		t.Fatal(err)
	}
	// The stand-in loses answers when connections are kept.
	transport := &http.Transport{DisableCompression: true, DisableKeepAlives: true}
	g := &gate{t: t, target: to, transport: transport, closing: make(chan struct{}), root: ownProcess(), names: map[string]string{}}
	g.server = httptest.NewServer(g)
	t.Cleanup(func() {
		close(g.closing)
		g.server.Close()
		transport.CloseIdleConnections()
	})
	return g
}

// URL is what the functions are told that AWS is.
func (g *gate) URL() string { return g.server.URL }

// guard narrows what may be killed to the descendants of a process.
func (g *gate) guard(root int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.root = root
}

// calls returns, in order, what was asked about an id; of everything with "".
func (g *gate) calls(about string) []call {
	g.mu.Lock()
	defer g.mu.Unlock()
	var found []call
	for _, c := range g.asked {
		if about == "" || slices.Contains(c.About, about) {
			found = append(found, *c)
		}
	}
	return found
}

// ServeHTTP lets one call through, or does with it what was ordered.
func (g *gate) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		panic(http.ErrAbortHandler) // the sender died within it: it never arrives
	}
	p := &passage{gate: g, w: w, r: r, body: body}
	p.call = &call{Action: actionOf(r), Body: body}
	if p.call.Action != "" {
		p.call.About, p.call.From = idsOf(p.call.Action, body), g.sender(r)
	}
	o := g.note(p.call)
	if o == nil {
		p.pass()
		return
	}
	p.ordered = o
	o.do(p)
}

// note writes a call down and returns the first fault that is meant for it.
func (g *gate) note(c *call) *ordered {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, o := range g.faults {
		if o.takes(*c) {
			c.Met = o
			break
		}
	}
	g.asked = append(g.asked, c)
	return c.Met
}

// passage is a call on its way.
type passage struct {
	gate    *gate
	w       http.ResponseWriter
	r       *http.Request
	body    []byte
	call    *call
	ordered *ordered
}

// pass carries the call over and its answer back.
func (p *passage) pass() {
	header, status, body := p.over()
	p.gate.refused(p.call, status, body)
	maps.Copy(p.w.Header(), header)
	p.w.WriteHeader(status)
	_, _ = p.w.Write(body) // the sender may have died
}

// refused keeps what the stand-in would not do.
func (g *gate) refused(c *call, status int, body []byte) {
	var problem struct {
		Type string `json:"__type"`
	}
	if status < http.StatusBadRequest || json.Unmarshal(body, &problem) != nil {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	c.Refusal = problem.Type
}

// over carries the call over. When the stand-in has no answer, neither has the sender.
func (p *passage) over() (http.Header, int, []byte) {
	to := *p.gate.target
	to.Path, to.RawPath, to.RawQuery = p.r.URL.Path, p.r.URL.RawPath, p.r.URL.RawQuery
	ctx := context.WithoutCancel(p.r.Context())
	req, err := http.NewRequestWithContext(ctx, p.r.Method, to.String(), bytes.NewReader(p.body))
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	req.Header = p.r.Header.Clone()
	req.Host = p.r.Host // it is signed
	resp, err := p.gate.transport.RoundTrip(req)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	return resp.Header, resp.StatusCode, body
}

// sender is the function that sent the request. All processes of one version of a function have one access key, so that
// one of them has to be looked at.
func (g *gate) sender(r *http.Request) string {
	key := accessKeyOf(r)
	g.mu.Lock()
	name, known := g.names[key]
	g.mu.Unlock()
	if known {
		return name
	}
	name = functionAt(r.RemoteAddr, g.server.Listener.Addr().String())
	if name != "" && key != "" {
		g.mu.Lock()
		g.names[key] = name
		g.mu.Unlock()
	}
	return name
}

func accessKeyOf(r *http.Request) string {
	_, after, _ := strings.Cut(r.Header.Get("Authorization"), "Credential=")
	key, _, _ := strings.Cut(after, "/")
	return key
}

// actionOf reads which action of which service a request asks for.
func actionOf(r *http.Request) string {
	service, action, ok := strings.Cut(r.Header.Get("X-Amz-Target"), ".")
	switch {
	case !ok:
		return ""
	case strings.HasPrefix(service, "DynamoDB"):
		return "DynamoDB." + action
	case service == "AWSStepFunctions":
		return "StepFunctions." + action
	case service == "secretsmanager":
		return "SecretsManager." + action
	default:
		return service + "." + action
	}
}

// idsOf reads which ids a call is about; none when it is about no single one.
func idsOf(action string, body []byte) []string {
	service, _, _ := strings.Cut(action, ".")
	switch service {
	case "DynamoDB":
		return idsOfItem(body)
	case "StepFunctions":
		return idsOfExecution(body)
	case "SecretsManager":
		var secret struct{ SecretID string }
		_ = json.Unmarshal(body, &secret)
		return []string{secret.SecretID}
	default:
		return nil
	}
}

// idsOfItem reads the keys of an item (internal/dynamo), wherever a call names them.
func idsOfItem(body []byte) []string {
	type attributes map[string]struct{ B []byte }
	var in struct {
		Key, Item, ExpressionAttributeValues attributes
		RequestItems                         map[string]struct{ Keys []attributes }
	}
	if json.Unmarshal(body, &in) != nil {
		return nil
	}
	keys := [][]byte{
		in.Key["pk"].B, in.Item["pk"].B, in.ExpressionAttributeValues[":pk"].B, in.Key["sk"].B, in.Item["sk"].B,
	}
	for _, many := range in.RequestItems {
		for _, key := range many.Keys {
			keys = append(keys, key["pk"].B, key["sk"].B)
		}
	}
	var ids []string
	for _, key := range keys {
		if _, id, ok := bytes.Cut(key, []byte("#")); ok {
			ids = append(ids, string(id))
		}
	}
	return ids
}

// idsOfExecution reads the execution's name, and what its input says.
func idsOfExecution(body []byte) []string {
	var in struct{ Name, Input string }
	if json.Unmarshal(body, &in) != nil {
		return nil
	}
	ids := []string{in.Name}
	var tick sfn.Tick
	if json.Unmarshal([]byte(in.Input), &tick) != nil {
		return ids
	}
	ids = append(ids, tick.Operation)
	if key, err := tick.Key(); err == nil {
		ids = append(ids, key.InstanceID, key.BindingID)
	}
	return ids
}
