package cfsim

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
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
