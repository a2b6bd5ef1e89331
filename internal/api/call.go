package api

import (
	"github.com/ferry-broker/ferry/internal/broker"
)

// call returns what every changing request carries besides its body.
func call(e *exchange) broker.Call {
	return broker.Call{
		Client: e.client.Name,
		// Only the literal word counts, and of several the first (ASY-16, HTTP-22).
		AcceptsIncomplete:   e.query("accepts_incomplete") == "true",
		OriginatingIdentity: e.originator,
		APIInfoLocation:     e.apiInfoLocation(),
	}
}

// query returns the first value of a parameter, decoded, "" when there is none.
func (e *exchange) query(name string) string {
	if e.values == nil {
		e.values = e.request.URL.Query()
	}
	return e.values.Get(name)
}

// fetch returns the request of a GET; service_id and plan_id in its query are hints
// that nobody needs (osb-choices B6).
func fetch(e *exchange) broker.FetchRequest {
	return broker.FetchRequest{Client: e.client.Name, InstanceID: e.instanceID, BindingID: e.bindingID}
}
