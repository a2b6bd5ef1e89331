package api

import (
	"context"
	"net/http"
	"net/url"
	"strings"
)

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

// table holds the routes by the shape of their path.
type table struct {
	catalog, instance, binding, poll []route
}

func newTable() table {
	return table{
		catalog: []route{
			{http.MethodGet, "catalog", (*handler).catalog},
		},
		instance: []route{
			{http.MethodGet, "fetch_instance", (*handler).fetchInstance},
			{http.MethodPut, "provision", withBody(readProvision, (*handler).provision)},
			{http.MethodPatch, "update", withBody(readUpdate, (*handler).update)},
			{http.MethodDelete, "deprovision", (*handler).deprovision},
		},
		binding: []route{
			{http.MethodGet, "fetch_binding", (*handler).fetchBinding},
			{http.MethodPut, "bind", withBody(readBind, (*handler).bind)},
			{http.MethodDelete, "unbind", (*handler).unbind},
		},
		poll: []route{
			{http.MethodGet, "last_operation", (*handler).lastOperation},
		},
	}
}

// match returns what may be done on the path, and the ids in it; no routes when OSB
// has no such path. Ids may hold any character, so only the number of segments and
// the fixed ones among them count.
func (t table) match(path []string) (routes []route, instanceID, bindingID string) {
	const instances, bindings, poll = "service_instances", "service_bindings", "last_operation"
	switch {
	case len(path) == 2 && path[1] == "catalog":
		return t.catalog, "", ""
	case len(path) < 3 || path[1] != instances:
		return nil, "", ""
	case len(path) == 3:
		return t.instance, path[2], ""
	case len(path) == 4 && path[3] == poll:
		return t.poll, path[2], ""
	case len(path) == 5 && path[3] == bindings:
		return t.binding, path[2], path[4]
	case len(path) == 6 && path[3] == bindings && path[5] == poll:
		return t.poll, path[2], path[4]
	}
	return nil, "", ""
}

// findRoute refuses paths that OSB does not have (404) and methods that the path
// does not have (405), HEAD and OPTIONS among them.
func (h *handler) findRoute(e *exchange) error {
	if !e.wellFormed {
		return h.notFound(e)
	}
	routes, instanceID, bindingID := h.routes.match(e.path)
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

// segments splits a path at its literal slashes and decodes each part once, so that
// %2F belongs to an id. It is not ok when a part is empty, "." or "..", encoded or
// not: net/http's mux would redirect those, and no OSB client follows that with a
// PUT's body.
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
