package api

import (
	"log/slog"
	"time"
)

// unrouted is the verb of requests that were refused before their route was found.
const unrouted = "none"

// maxLogged bounds each value of the log that a platform chose.
const maxLogged = 1024

// report writes the one line of a request and tells the observer. Nothing of a body,
// a query, a credential or an originating identity gets into the line: descriptions
// stay out as well, since they may quote the names of a body's keys.
func (h *handler) report(e *exchange, a answer, status int) {
	took := h.Now().Sub(e.started)
	verb := e.route.verb
	if verb == "" {
		verb = unrouted
	}
	attrs := make([]slog.Attr, 0, 16)
	add := func(key, value string) {
		if value != "" {
			attrs = append(attrs, slog.String(key, value[:min(len(value), maxLogged)]))
		}
	}
	add("request_identity", e.identity)
	add("client", e.client.Name)
	add("verb", verb)
	if verb == unrouted {
		add("method", e.request.Method)
		add("path", e.request.URL.Path)
	}
	add("instance_id", e.instanceID)
	add("binding_id", e.bindingID)
	attrs = append(attrs, slog.Int("status", status))
	add("outcome", a.outcome)
	add("operation", a.operation)
	attrs = append(attrs, slog.Int64("duration_ms", took.Milliseconds()))
	add("originating_user", e.originatorID)
	if e.badOriginator {
		add("originating_identity", "unreadable")
	}
	if a.cause != nil {
		add("error", a.cause.Error())
	}
	if a.stack != "" {
		attrs = append(attrs, slog.String("stack", a.stack))
	}
	h.Logger.LogAttrs(e.request.Context(), a.level, "request", attrs...)
	h.observe(e, verb, a, status, took)
}

// observe counts requests under /v2, each once, even when the observer itself
// panics.
func (h *handler) observe(e *exchange, verb string, a answer, status int, took time.Duration) {
	if h.Observer == nil || e.observed || !e.osb {
		return
	}
	e.observed = true
	h.Observer.Request(verb, status, a.outcome, took)
	if a.duplicate {
		h.Observer.Duplicate(verb)
	}
}
