package cfsim

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
)

// controlPrefix is where tests steer the simulator; no credentials are asked for and nothing there is counted or
// disturbed.
const controlPrefix = "/__sim"

// controlHandler answers one call of the control with what is to be sent as JSON; nil is an empty object. It is called
// with the controller's lock held and returns nothing that anybody changes later.
type controlHandler func(*controlCall) (any, error)

// controlRoutes are the calls of the control, GET /state aside, which sends its answer bit by bit.
var controlRoutes = map[string]controlHandler{
	"POST /faults":                 addFault,
	"GET /faults":                  listFaults,
	"DELETE /faults":               clearFaults,
	"GET /pages":                   listPages,
	"POST /reset":                  reset,
	"POST /tokens/expire":          expireTokens,
	"POST /marketplace":            changeMarketplace,
	"POST /instances":              plantInstance,
	"PATCH /instances/{guid}":      forceInstance,
	"PATCH /keys/{guid}":           forceKey,
	"POST /broker":                 instructBroker,
	"GET /broker":                  listInstructions,
	"DELETE /broker":               clearInstructions,
	"POST /conditions":             changeConditions,
	"GET /conditions":              getConditions,
	"DELETE /conditions":           clearConditions,
	"POST /clock":                  runClock,
	"POST /workers":                holdWorkers,
	"DELETE /jobs/{guid}":          dropJob,
	"POST /limits":                 changeLimits,
	"DELETE /spaces/{org}/{space}": vanishSpace,
	"/": func(c *controlCall) (any, error) {
		return nil, refusedControl(http.StatusNotFound, "The control does not know %s %s.", c.request.Method, c.request.URL.Path)
	},
}

func controlMux(s *Simulator) *http.ServeMux {
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+controlPrefix+"/state", s.writeState)
	for line, handle := range controlRoutes {
		method, path, _ := strings.Cut(line, "/")
		mux.HandleFunc(method+controlPrefix+"/"+path, func(w http.ResponseWriter, r *http.Request) {
			newControlCall(s, r).answer(handle).write(w)
		})
	}
	return mux
}

// controlCall is one request to the control.
type controlCall struct {
	*Simulator
	request *http.Request
	body    []byte
	readErr error
}

func newControlCall(s *Simulator, r *http.Request) *controlCall {
	c := &controlCall{Simulator: s, request: r}
	c.body, c.readErr = io.ReadAll(io.LimitReader(r.Body, maxBody))
	return c
}

// read decodes the body and refuses fields that the call does not know, so that a typing error in a test is seen.
func (c *controlCall) read(into any) error {
	if c.readErr != nil {
		return badInput("The body could not be read.")
	}
	decoder := json.NewDecoder(bytes.NewReader(c.body))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(into); err != nil {
		return badInput("The body is not what this call takes: %v.", err)
	}
	return nil
}

func (c *controlCall) answer(handle controlHandler) *answer {
	result, err := locked(&c.mu, func() (any, error) { return handle(c) })
	if err != nil {
		status := http.StatusInternalServerError
		if refused, ok := errors.AsType[*controlError](err); ok {
			status = refused.status
		}
		return jsonAnswer(status, map[string]string{"error": err.Error()}).encoded()
	}
	if result == nil {
		result = struct{}{}
	}
	return jsonAnswer(http.StatusOK, result).encoded()
}

// controlError is what the control says about input that makes no sense.
type controlError struct {
	status   int
	sentence string
}

// Error is the sentence.
func (e *controlError) Error() string { return e.sentence }

func refusedControl(status int, format string, args ...any) error {
	return &controlError{status, fmt.Sprintf(format, args...)}
}

func badInput(format string, args ...any) error {
	return refusedControl(http.StatusBadRequest, format, args...)
}

// reset forgets everything but organizations, spaces and the marketplace.
func reset(c *controlCall) (any, error) {
	c.workers.reset()
	c.database.forget()
	c.backing.forget()
	c.counts.clear()
	c.faults.clear()
	c.conditions = noConditions()
	c.limiter.reset(c.options)
	return nil, nil
}

// expireTokens takes an optional {"kind":"access"|"refresh"}; without one both kinds are refused from now on.
func expireTokens(c *controlCall) (any, error) {
	var which struct {
		Kind tokenKind `json:"kind"`
	}
	if len(c.body) > 0 {
		if err := c.read(&which); err != nil {
			return nil, err
		}
	}
	switch which.Kind {
	case "":
		c.tokens.expire(accessToken, refreshToken)
	case accessToken, refreshToken:
		c.tokens.expire(which.Kind)
	default:
		return nil, badInput("The kind of a token is access or refresh, not %q.", which.Kind)
	}
	return nil, nil
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

// writeState sends what is there and what happened. The parts are taken at one moment; they are encoded one by one,
// because there may be many.
func (s *Simulator) writeState(w http.ResponseWriter, _ *http.Request) {
	s.mu.Lock()
	instances := make([]stateInstance, 0, len(s.database.instances.ordered))
	for _, i := range s.database.instances.ordered {
		instances = append(instances, stateOf(i))
	}
	requests := s.counts.all()
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
