package api

import (
	"net/http"
	"net/url"
	"time"

	"github.com/ferry-broker/ferry/internal/broker"
)

// handler is the whole border. Its fields are fixed once New returned.
type handler struct {
	Options
	shares      shares
	routes      table
	doors       *guard
	metricsDoor *guard
}

// exchange is one request on its way through the checks, which fill it in.
type exchange struct {
	request *http.Request
	started time.Time
	// path is the decoded path, segment by segment, never empty; wellFormed says
	// whether each segment is one that a route could have.
	path       []string
	wellFormed bool
	// osb: the path is below /v2, behind the base path.
	osb bool
	// identity is the request identity in the form in which it may be echoed.
	identity string
	client   Client
	route    route
	// ids of the path; bindingID is empty on the routes of instances.
	instanceID, bindingID string
	// originator is the originating identity; badOriginator says that nobody can
	// read it.
	originator    string
	originatorID  string
	badOriginator bool
	// values is the query once somebody asked for it.
	values url.Values
	// observed: the observer was told.
	observed bool
}

// ServeHTTP answers one request: dispatch decides, conclude writes and logs.
func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	e := &exchange{request: r, started: h.Now(), identity: echo(r.Header)}
	out := &response{ResponseWriter: w}
	defer func() {
		if value := recover(); value != nil {
			h.conclude(out, e, answer{}, broker.Recovered(value))
		}
	}()
	a, err := h.dispatch(e)
	h.conclude(out, e, a, err)
}

// dispatch separates OSB, which is below the base path alone, from what stands beside
// it. Those who ask for health come from inside, where the prefix of a gateway is not
// known, or through the gateway; whoever reads metrics is inside.
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

// serveOSB is the one place that decides the order of checks (osb-choices C3): a
// request that fails several of them hears of the first. Logins come before the places
// for requests, so that strangers take none. What follows them is the
// route's own: body size and syntax, types, mandatory fields (withBody in body.go),
// and then the use case, which judges the catalog and the state.
func (h *handler) serveOSB(e *exchange) (answer, error) {
	if err := h.authenticate(e); err != nil {
		return answer{}, err
	}
	place, err := h.shares.enter(e.client.Name)
	if err != nil {
		return answer{}, err
	}
	defer place.leave()
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
	return e.route.serve(h, broker.WithWaiting(ctx, place.wait), e)
}
