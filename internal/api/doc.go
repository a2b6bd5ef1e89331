// Package api is Ferry's HTTP border: the routes of the Open Service Broker API
// 2.17, and beside them /healthz, /readyz and /metrics. It turns requests into the
// use cases of package broker and their results into answers; it decides nothing
// else.
//
// Each translation stands in one place: the order of checks in handler.go, paths in
// routes.go, bodies in fields.go, outcomes in outcomes.go, errors in errors.go. A
// handler returns an answer or an error and never writes: respond.go writes, once.
package api
