package cfsim

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
)

// controlPrefix is where tests steer the simulator; no credentials are asked
// for and nothing there is counted or disturbed.
const controlPrefix = "/__sim"

// controlHandler answers one call of the control with what is to be sent as
// JSON.
type controlHandler func(*http.Request) (any, error)

func (s *Simulator) controlMux() *http.ServeMux {
	mux := http.NewServeMux()
	handle := func(pattern string, h controlHandler) {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) { writeControl(w, r, h) })
	}
	mux.HandleFunc("GET "+controlPrefix+"/state", s.writeState)
	handle("POST "+controlPrefix+"/faults", s.addFault)
	handle("GET "+controlPrefix+"/faults", s.listFaults)
	handle("DELETE "+controlPrefix+"/faults", s.clearFaults)
	handle("GET "+controlPrefix+"/pages", s.listPages)
	handle("POST "+controlPrefix+"/reset", s.reset)
	handle("POST "+controlPrefix+"/tokens/expire", s.expireTokens)
	handle("POST "+controlPrefix+"/marketplace", s.changeMarketplace)
	handle("POST "+controlPrefix+"/instances", s.plantInstance)
	handle("PATCH "+controlPrefix+"/instances/{guid}", s.forceInstance)
	handle("PATCH "+controlPrefix+"/keys/{guid}", s.forceKey)
	handle("POST "+controlPrefix+"/broker", s.instructBroker)
	handle("GET "+controlPrefix+"/broker", s.listInstructions)
	handle("DELETE "+controlPrefix+"/broker", s.clearInstructions)
	handle("POST "+controlPrefix+"/conditions", s.changeConditions)
	handle("GET "+controlPrefix+"/conditions", s.getConditions)
	handle("DELETE "+controlPrefix+"/conditions", s.clearConditions)
	handle("POST "+controlPrefix+"/clock", s.runClock)
	handle("POST "+controlPrefix+"/workers", s.holdWorkers)
	handle("DELETE "+controlPrefix+"/jobs/{guid}", s.dropJob)
	handle("POST "+controlPrefix+"/limits", s.changeLimits)
	handle("DELETE "+controlPrefix+"/spaces/{org}/{space}", s.vanishSpace)
	handle(controlPrefix+"/", func(r *http.Request) (any, error) {
		return nil, refusedControl(http.StatusNotFound, "The control does not know %s %s.", r.Method, r.URL.Path)
	})
	return mux
}

// controlError is what the control says about input that makes no sense.
type controlError struct {
	status   int
	sentence string
}

func (e *controlError) Error() string { return e.sentence }

func refusedControl(status int, format string, args ...any) error {
	return &controlError{status, fmt.Sprintf(format, args...)}
}

func writeControl(w http.ResponseWriter, r *http.Request, h controlHandler) {
	result, err := h(r)
	status := http.StatusOK
	if err != nil {
		status = http.StatusInternalServerError
		var refused *controlError
		if errors.As(err, &refused) {
			status = refused.status
		}
		result = map[string]string{"error": err.Error()}
	}
	a, err := jsonAnswer(status, result)
	if err != nil {
		a = errorAnswer(err)
	}
	a.write(w)
}

// readControl decodes the body of a control call and refuses fields that it
// does not know, so that a typing error in a test is seen.
func readControl(r *http.Request, into any) error {
	body, err := io.ReadAll(io.LimitReader(r.Body, maxBody))
	if err != nil {
		return refusedControl(http.StatusBadRequest, "The body could not be read.")
	}
	decoder := json.NewDecoder(bytes.NewReader(body))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(into); err != nil {
		return refusedControl(http.StatusBadRequest, "The body is not what this call takes: %v.", err)
	}
	return nil
}

func (s *Simulator) reset(*http.Request) (any, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cancelTimers()
	s.world.forget()
	s.backing.forget()
	s.counts = map[string]int{}
	s.faults.active = nil
	s.conditions = noConditions()
	s.held = false
	s.limiter = newRateLimiter(s.options.RateLimit, s.options.RateWindow, s.options.RetryAfterUnix)
	return struct{}{}, nil
}

// expireTokens takes an optional {"kind":"access"|"refresh"}; without one both
// kinds are refused from now on.
func (s *Simulator) expireTokens(r *http.Request) (any, error) {
	var which struct {
		Kind tokenKind `json:"kind"`
	}
	if r.ContentLength != 0 {
		if err := readControl(r, &which); err != nil {
			return nil, err
		}
	}
	switch which.Kind {
	case "":
		s.tokens.expire(accessToken, refreshToken)
	case accessToken, refreshToken:
		s.tokens.expire(which.Kind)
	default:
		return nil, refusedControl(http.StatusBadRequest, "The kind of a token is access or refresh, not %q.", which.Kind)
	}
	return struct{}{}, nil
}

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
