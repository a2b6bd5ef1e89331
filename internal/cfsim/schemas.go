package cfsim

import "encoding/json"

// schemas of the parameters of a plan; empty where it has none.
type schemas struct {
	create, update, bind json.RawMessage
}

// schemasOfPlan are those of postgres/schema.
func schemasOfPlan() schemas {
	const head = `{"$schema":"http://json-schema.org/draft-04/schema#","type":"object","additionalProperties":false,`
	const sized = `"properties":{"size":{"type":"integer","minimum":1,"maximum":100},"name":{"type":"string"}}`
	return schemas{
		create: json.RawMessage(head + sized + `,"required":["size"]}`),
		update: json.RawMessage(head + sized + `}`),
		bind:   json.RawMessage(head + `"properties":{"name":{"type":"string"}}}`),
	}
}

type schemaView struct {
	Parameters json.RawMessage `json:"parameters"`
}

type schemasView struct {
	ServiceInstance struct {
		Create schemaView `json:"create"`
		Update schemaView `json:"update"`
	} `json:"service_instance"`
	ServiceBinding struct {
		Create schemaView `json:"create"`
	} `json:"service_binding"`
}

func (s schemas) view() schemasView {
	var v schemasView
	v.ServiceInstance.Create = schemaView{orEmpty(s.create)}
	v.ServiceInstance.Update = schemaView{orEmpty(s.update)}
	v.ServiceBinding.Create = schemaView{orEmpty(s.bind)}
	return v
}

// orEmpty is an object even when there is none.
func orEmpty(raw json.RawMessage) json.RawMessage {
	if raw == nil {
		return json.RawMessage("{}")
	}
	return raw
}
