package api

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/ferry-broker/ferry/internal/broker"
	"github.com/ferry-broker/ferry/internal/osb"
)

// handler answers every request. Its fields are fixed once New returned, but for what documents holds.
type handler struct {
	Options
	shares shares
	// platforms knows who may send OSB requests, scrapers who may read the metrics.
	platforms, scrapers *guard
	// documents has the *documentHeader of the catalog that each client, by its name, was last served.
	documents sync.Map
}

// exchange is one request on its way through the checks, which fill it in.
type exchange struct {
	request *http.Request
	started time.Time
	// path is the decoded path, segment by segment, never empty; wellFormed says whether each segment is one that a
	// route could have.
	path       []string
	wellFormed bool
	// osb: the path is below /v2, behind the base path.
	osb bool
	// identity is the request identity in the form in which it may be echoed.
	identity string
	client   Client
	// place is the request's among those at once.
	place place
	route route
	// ids of the path; bindingID is empty on the routes of instances.
	instanceID, bindingID string
	// originator is the originating identity; badOriginator says that nobody can read it.
	originator    string
	originatorID  string
	badOriginator bool
	// values is the query once somebody asked for it, if it has to be decoded.
	values url.Values
	// observed: the observer was told.
	observed bool
}

// ServeHTTP answers one request: dispatch decides, conclude writes and logs.
func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	both := &struct {
		exchange
		response
	}{exchange{request: r, started: h.Now(), identity: echo(r.Header)}, response{ResponseWriter: w}}
	e, out := &both.exchange, &both.response
	defer func() {
		if value := recover(); value != nil {
			h.conclude(out, e, answer{}, broker.Recovered(value))
		}
	}()
	a, err := h.dispatch(e)
	h.conclude(out, e, a, err)
}

// dispatch separates OSB, which is below the base path alone, from what stands beside it. Those who ask for health come
// from inside, where the prefix of a gateway is not known, or through the gateway; whoever reads metrics is inside.
func (h *handler) dispatch(e *exchange) (answer, error) {
	e.path, e.wellFormed = segments(e.request.URL.EscapedPath())
	below := h.BasePath.cut(e.path)
	if below != nil && below[0] == "v2" {
		e.path, e.osb = below, true
		return h.serveOSB(e)
	}
	name := ""
	switch {
	case !e.wellFormed:
	case len(e.path) == 1:
		name = e.path[0]
	case len(below) == 1 && below[0] != "metrics":
		name = below[0]
	}
	switch name {
	case "healthz":
		return h.health(e)
	case "readyz":
		return h.readiness(e)
	case "metrics":
		return h.metrics(e)
	}
	return answer{}, h.notFound(e)
}

// serveOSB is the one place that decides the order of checks (docs/osb-choices.md): a request that fails several of
// them hears of the first. Logins come before the places for requests, so that strangers take none. What follows them
// is the route's own: body size and syntax, types, mandatory fields (withBody in body.go), and then the use case, which
// judges the catalog and the state.
func (h *handler) serveOSB(e *exchange) (answer, error) {
	if err := h.authenticate(e); err != nil {
		return answer{}, err
	}
	var err error
	if e.place, err = h.shares.enter(e.client.Name); err != nil {
		return answer{}, err
	}
	defer e.place.leave()
	checks := [...]func(*exchange) error{
		checkVersion,
		h.findRoute,
		checkIDs,
	}
	for _, check := range checks {
		if err := check(e); err != nil {
			return answer{}, err
		}
	}
	noteOriginator(e)
	ctx, cancel := h.budget(e)
	defer cancel()
	return e.route.serve(h, broker.WithWaiter(ctx, &e.place), e)
}

// version is the release of the specification that Ferry was written for.
const version = "2.17"

// checkVersion applies spec "API Version Header": any 2.x is welcome, because minor releases only add (HDR-04). An
// empty value counts as none (HDR-05).
func checkVersion(e *exchange) error {
	value := strings.TrimSpace(e.request.Header.Get(osb.VersionHeader))
	if value == "" {
		return missingVersion(e.client)
	}
	major, minor, found := strings.Cut(value, ".")
	if !found || !digits(major) || !digits(minor) {
		return badRequest("The header %s must be MAJOR.MINOR, two numbers. Send %s.", osb.VersionName, version)
	}
	if strings.TrimLeft(major, "0") != "2" {
		return unsupportedVersion()
	}
	return nil
}

// missingVersion answers as the client's quirk says: the text of the specification has 400, its test suites want 412
// (docs/osb-choices.md).
func missingVersion(c Client) error {
	err := badRequest("The header %s is missing. Send it with the value %s.", osb.VersionName, version)
	if c.MissingVersion == http.StatusPreconditionFailed {
		err.status = http.StatusPreconditionFailed
	}
	err.word = "MissingVersion"
	return err
}

func unsupportedVersion() error {
	return &refusal{
		status:      http.StatusPreconditionFailed,
		word:        "UnsupportedVersion",
		description: "This broker speaks version 2 of the Open Service Broker API, not the one in " + osb.VersionName + ". Set the platform to " + version + ".",
	}
}

func digits(s string) bool {
	return s != "" && strings.Trim(s, "0123456789") == ""
}

// maxIDBytes is the longest instance or binding id; stores have limits for keys.
const maxIDBytes = 900

// action carries out a request that passed the checks before it.
type action func(h *handler, ctx context.Context, e *exchange) (answer, error)

// route is one method on one path. Verb is its name in logs and metrics.
type route struct {
	method string
	verb   string
	serve  action
}

// The routes by the shape of their path.
var (
	catalogRoutes = []route{
		{http.MethodGet, "catalog", (*handler).catalog},
	}
	instanceRoutes = []route{
		{http.MethodGet, "fetch_instance", (*handler).fetchInstance},
		{http.MethodPut, "provision", withBody(readProvision, (*handler).provision)},
		{http.MethodPatch, "update", withBody(readUpdate, (*handler).update)},
		{http.MethodDelete, "deprovision", (*handler).deprovision},
	}
	bindingRoutes = []route{
		{http.MethodGet, "fetch_binding", (*handler).fetchBinding},
		{http.MethodPut, "bind", withBody(readBind, (*handler).bind)},
		{http.MethodDelete, "unbind", (*handler).unbind},
	}
	pollRoutes = []route{
		{http.MethodGet, "last_operation", (*handler).lastOperation},
	}
)

// match returns what may be done on the path, and the ids in it; no routes when OSB has no such path. Ids may hold any
// character, so only the number of segments and the fixed ones among them count.
func match(path []string) (routes []route, instanceID, bindingID string) {
	const instances, bindings, poll = "service_instances", "service_bindings", "last_operation"
	switch {
	case len(path) == 2 && path[1] == "catalog":
		return catalogRoutes, "", ""
	case len(path) < 3 || path[1] != instances:
		return nil, "", ""
	case len(path) == 3:
		return instanceRoutes, path[2], ""
	case len(path) == 4 && path[3] == poll:
		return pollRoutes, path[2], ""
	case len(path) == 5 && path[3] == bindings:
		return bindingRoutes, path[2], path[4]
	case len(path) == 6 && path[3] == bindings && path[5] == poll:
		return pollRoutes, path[2], path[4]
	}
	return nil, "", ""
}

// findRoute refuses paths that OSB does not have (404) and methods that the path does not have (405), HEAD and OPTIONS
// among them.
func (h *handler) findRoute(e *exchange) error {
	if !e.wellFormed {
		return h.notFound(e)
	}
	routes, instanceID, bindingID := match(e.path)
	if routes == nil {
		return h.notFound(e)
	}
	e.instanceID, e.bindingID = instanceID, bindingID
	for _, r := range routes {
		if r.method == e.request.Method {
			e.route = r
			return nil
		}
	}
	return methodNotAllowed(methodsOf(routes)...)
}

func methodsOf(routes []route) []string {
	methods := make([]string, 0, len(routes))
	for _, r := range routes {
		methods = append(methods, r.method)
	}
	return methods
}

func checkIDs(e *exchange) error {
	if len(e.instanceID) > maxIDBytes {
		return badRequest("The instance id in the path is longer than the limit of %d bytes. Use a shorter one.", maxIDBytes)
	}
	if len(e.bindingID) > maxIDBytes {
		return badRequest("The binding id in the path is longer than the limit of %d bytes. Use a shorter one.", maxIDBytes)
	}
	return nil
}

// segments splits a path at its literal slashes and decodes each part once, so that %2F belongs to an id. It is not ok
// when a part is empty, "." or "..", encoded or not: net/http's mux would redirect those, and no OSB client follows
// that with a PUT's body.
func segments(escaped string) (path []string, ok bool) {
	parts := strings.Split(strings.TrimPrefix(escaped, "/"), "/")
	ok = true
	for i, part := range parts {
		decoded, err := url.PathUnescape(part)
		if err != nil || decoded == "" || decoded == "." || decoded == ".." {
			ok = false
		}
		parts[i] = decoded
	}
	return parts, ok
}

// answerMargin is kept free before a deadline that somebody else set, to encode and send the answer: Lambda ends a
// function at its deadline, whatever it does.
const answerMargin = 500 * time.Millisecond

// budget returns the context that a use case runs under. It does not end when the platform hangs up: a request that
// stops half way would leave work that nobody asks for again. It ends with the time budget, before the deadline of the
// request's own context, and when the process is told to stop.
func (h *handler) budget(e *exchange) (context.Context, context.CancelFunc) {
	parent := e.request.Context()
	now := h.Now()
	left := h.RequestBudget - now.Sub(e.started) // a login may have waited to be checked
	if deadline, ok := parent.Deadline(); ok {
		left = min(left, deadline.Sub(now)-answerMargin)
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(parent), left)
	if h.Stop != nil {
		go func() {
			select {
			case <-h.Stop:
				cancel()
			case <-ctx.Done():
			}
		}()
	}
	return ctx, cancel
}

// BasePath is what stands before /v2 in the paths that reach this broker: a gateway or an ingress in front of it may
// keep the prefix under which platforms know it. The zero value is none. Make others with [ParseBasePath].
type BasePath struct {
	text string
	// segments are decoded, as those of a request.
	segments []string
}

// maxBasePath bounds a base path, which descriptions repeat.
const maxBasePath = 200

// pathText is what may stand in a path, "%" only before two hexadecimal digits.
var pathText = regexp.MustCompile(`^(?:/(?:[A-Za-z0-9._~!$&'()*+,;=:@-]|%[0-9A-Fa-f]{2})+)+$`)

var errBasePath = errors.New("must be a path such as /broker: a slash before each part, no part empty, . or .., percent-encoded, 200 bytes at most")

// ParseBasePath reads a base path. Slashes at its end do not count; "" and "/" are none. The error says what it must
// be, without a name before it.
func ParseBasePath(text string) (BasePath, error) {
	trimmed := strings.TrimRight(text, "/")
	if trimmed == "" {
		return BasePath{}, nil
	}
	parts, ok := segments(trimmed)
	if !ok || len(trimmed) > maxBasePath || !pathText.MatchString(trimmed) {
		return BasePath{}, errBasePath
	}
	return BasePath{text: trimmed, segments: parts}, nil
}

// String returns the path as it stands in URLs, with a slash before and none behind it; "" for none.
func (b BasePath) String() string { return b.text }

// cut returns what follows the base path in a request's path, nil when the request is for another place or nothing
// follows.
func (b BasePath) cut(path []string) []string {
	n := len(b.segments)
	if len(path) <= n || !slices.Equal(path[:n], b.segments) {
		return nil
	}
	return path[n:]
}

// plainPath is what a description repeats of a path that somebody else wrote.
var plainPath = regexp.MustCompile(`^(?:/[A-Za-z0-9._~-]+)+$`)

// registration says by which URL to register this broker, for whom has sent a request to a path that is not its own,
// still encoded.
func (b BasePath) registration(escaped string) string {
	if b.text != "" {
		return "Register this broker by the URL of its host followed by " + b.text + ", without /v2, and percent-encode ids in paths."
	}
	prefix, _, found := strings.Cut(escaped, "/v2/")
	if _, err := ParseBasePath(prefix); !found || err != nil || !plainPath.MatchString(prefix) {
		return "Register this broker by its URL without /v2, and percent-encode ids in paths."
	}
	return "Register this broker by its URL without " + prefix + " and without /v2. Where a gateway keeps " + prefix +
		" in the path, its operator sets that as the base path (ferry serve --base-path " + prefix + "; on AWS the parameter BasePath)."
}

// shares bounds the requests under /v2 at once. Without it a burst would hold one body, one connection to the store and
// one goroutine for each request.
//
// There are two pools, because two kinds of request get in each other's way: those that wait for Cloud Foundry, for
// seconds when it is slow, and those that are answered from the store. A request begins in the second pool, and moves
// to the first when its use case says that it is about to wait (broker.BeginWaiting).
type shares struct {
	waiting, quick *pool
}

// newShares divides the limit: half of it is for what waits. Each client's own limit, where it has one, is divided in
// the same way.
func newShares(limit int, clients []Client) shares {
	own := map[string]int{}
	for _, c := range clients {
		if c.ConcurrentRequests > 0 {
			own[c.Name] = c.ConcurrentRequests
		}
	}
	half := func(n int) int { return max(1, n/2) }
	rest := func(n int) int { return max(1, n-n/2) }
	return shares{
		waiting: newPool(half(limit), len(clients), own, half),
		quick:   newPool(rest(limit), len(clients), own, rest),
	}
}

// pool is a number of places, half of them reserved for the clients in equal parts, so that none of them can keep
// another out, and at least one for each; who comes first has the others.
type pool struct {
	reserved int
	own      map[string]int

	mu     sync.Mutex
	common int
	used   map[string]int
}

func newPool(size, clients int, own map[string]int, part func(int) int) *pool {
	clients = max(1, clients)
	p := &pool{reserved: max(1, size/2/clients), own: map[string]int{}, used: map[string]int{}}
	p.common = max(0, size-p.reserved*clients)
	for client, n := range own {
		p.own[client] = part(n)
	}
	return p
}

// enter takes a place, if there is one for this client.
func (p *pool) enter(client string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	used := p.used[client]
	if most, limited := p.own[client]; limited && used >= most {
		return false
	}
	if used >= p.reserved {
		if p.common == 0 {
			return false
		}
		p.common--
	}
	p.used[client]++
	return true
}

// leave gives a place back, first one of those that everybody may have.
func (p *pool) leave(client string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.used[client] > p.reserved {
		p.common++
	}
	p.used[client]--
}

// place is where one request is. It is used by one goroutine.
type place struct {
	shares shares
	client string
	in     *pool
}

// enter begins a request. The error is the answer of one that has no place.
func (s shares) enter(client string) (place, error) {
	if !s.quick.enter(client) {
		return place{}, tooBusy("This broker is at its limit of requests at once, for all clients or for this one, and nothing of this one was carried out.", 1)
	}
	return place{shares: s, client: client, in: s.quick}, nil
}

// BeginWaiting implements broker.Waiter: it moves the request to those that wait for Cloud Foundry. The error is the
// answer of one that may not.
func (p *place) BeginWaiting() error {
	if p.in == p.shares.waiting {
		return nil
	}
	if !p.shares.waiting.enter(p.client) {
		return tooBusy("As many requests wait for Cloud Foundry as may at once, for all clients or for this one, and nothing of this one was carried out.", 5)
	}
	p.in.leave(p.client)
	p.in = p.shares.waiting
	return nil
}

// leave ends the request.
func (p *place) leave() { p.in.leave(p.client) }
