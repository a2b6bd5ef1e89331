package cfsim

import (
	"bufio"
	"cmp"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"slices"
)

type stateInstance struct {
	GUID               string          `json:"guid"`
	Name               string          `json:"name"`
	Org                string          `json:"org"`
	Space              string          `json:"space"`
	Offering           string          `json:"offering"`
	Plan               string          `json:"plan"`
	Labels             pairs           `json:"labels"`
	Annotations        pairs           `json:"annotations"`
	MaintenanceVersion string          `json:"maintenance_version"`
	Parameters         json.RawMessage `json:"parameters"`
	LastOperation      stateOperation  `json:"last_operation"`
	CreatedAt          string          `json:"created_at"`
	Keys               []stateKey      `json:"keys"`
}

type stateOperation struct {
	Type        string `json:"type"`
	State       string `json:"state"`
	Description string `json:"description"`
}

type stateKey struct {
	GUID          string          `json:"guid"`
	Name          string          `json:"name"`
	Parameters    json.RawMessage `json:"parameters"`
	Labels        pairs           `json:"labels"`
	Annotations   pairs           `json:"annotations"`
	LastOperation stateOperation  `json:"last_operation"`
}

type stateCall struct {
	Org       string `json:"org"`
	Instance  string `json:"instance"`
	Binding   string `json:"binding"`
	Operation string `json:"operation"`
	Count     int    `json:"count"`
	Repeated  int    `json:"repeated,omitempty"` // sent again while one was running (Korifi)
}

func (l lastOperation) summary() stateOperation {
	return stateOperation{Type: l.kind, State: l.state, Description: l.description}
}

// writeState sends what is there and what happened. The parts are taken at one
// moment; they are encoded one by one, because there may be many.
func (s *Simulator) writeState(w http.ResponseWriter, _ *http.Request) {
	s.mu.Lock()
	instances := make([]stateInstance, 0, len(s.world.instances.ordered))
	for _, i := range s.world.instances.ordered {
		instances = append(instances, stateOf(i))
	}
	requests := maps.Clone(s.counts)
	calls := make([]stateCall, 0, len(s.backing.calls))
	for c, n := range s.backing.calls {
		calls = append(calls, stateCall{c.org, c.instance, c.binding, c.operation, n, s.backing.repeated[c]})
	}
	s.mu.Unlock()
	slices.SortFunc(calls, func(a, b stateCall) int {
		return cmp.Or(cmp.Compare(a.Org, b.Org), cmp.Compare(a.Instance, b.Instance), cmp.Compare(a.Binding, b.Binding), cmp.Compare(a.Operation, b.Operation))
	})
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	out := bufio.NewWriter(w)
	defer func() { _ = out.Flush() }() // the caller may have gone
	_, _ = io.WriteString(out, `{"instances":`)
	writeArray(out, instances)
	_, _ = io.WriteString(out, `,"requests":`)
	encoded, _ := encode(requests) // strings and numbers only
	_, _ = out.Write(encoded)
	_, _ = io.WriteString(out, `,"broker_calls":`)
	writeArray(out, calls)
	_, _ = io.WriteString(out, "}\n")
}

func writeArray[T any](out *bufio.Writer, list []T) {
	separator := "["
	for i := range list {
		encoded, err := encode(&list[i])
		if err != nil {
			continue // parameters were valid JSON when they came in
		}
		_, _ = io.WriteString(out, separator)
		_, _ = out.Write(encoded)
		separator = ","
	}
	if separator == "[" {
		_, _ = io.WriteString(out, "[")
	}
	_, _ = io.WriteString(out, "]")
}

func stateOf(i *instance) stateInstance {
	v := stateInstance{
		GUID: i.guid, Name: i.name, Org: i.space.organization.name, Space: i.space.name,
		Offering: i.plan.offering.spec.name, Plan: i.plan.spec.name,
		Labels: i.metadata.Labels, Annotations: i.metadata.Annotations,
		MaintenanceVersion: i.maintenance, Parameters: i.received,
		LastOperation: i.last.summary(), CreatedAt: timestamp(i.created),
		Keys: make([]stateKey, 0, len(i.keys)),
	}
	for _, k := range i.keys {
		v.Keys = append(v.Keys, stateKey{
			GUID: k.guid, Name: k.name, Parameters: k.parameters,
			Labels: k.metadata.Labels, Annotations: k.metadata.Annotations, LastOperation: k.last.summary(),
		})
	}
	return v
}
