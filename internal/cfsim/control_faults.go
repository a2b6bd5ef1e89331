package cfsim

import (
	"net/http"
	"slices"
	"strings"
)

func (s *Simulator) addFault(r *http.Request) (any, error) {
	f := fault{Method: "*", Route: "*", When: faultBefore, Status: http.StatusServiceUnavailable}
	if err := readControl(r, &f); err != nil {
		return nil, err
	}
	if err := f.check(); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return map[string]string{"id": s.faults.add(f)}, nil
}

// check says what is wrong with a fault, in a sentence.
func (f *fault) check() error {
	methods := []string{"*", "GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"}
	bad := func(format string, args ...any) error { return refusedControl(http.StatusBadRequest, format, args...) }
	switch {
	case !slices.Contains(methods, strings.ToUpper(f.Method)):
		return bad("The method of a fault is an HTTP method or *, not %q.", f.Method)
	case f.Route != "*" && !strings.HasPrefix(f.Route, "/"):
		return bad("The route of a fault is a pattern like /v3/service_instances/:guid or *, not %q.", f.Route)
	case f.When != faultBefore && f.When != faultAfter:
		return bad("A fault happens before or after, not %q.", f.When)
	case f.Action != faultDrop && f.Action != faultDelay && f.Action != faultRespond:
		return bad("The action of a fault is drop, delay or respond, not %q.", f.Action)
	case f.Times < 0 || f.DelayMS < 0:
		return bad("The times and delay_ms of a fault cannot be negative.")
	case f.Action == faultRespond && (f.Status < 200 || f.Status > 599):
		return bad("The status of a fault is between 200 and 599, not %d.", f.Status)
	}
	return nil
}

func (s *Simulator) listFaults(*http.Request) (any, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := make([]fault, 0, len(s.faults.active))
	for _, f := range s.faults.active {
		copied := *f
		if copied.Headers == nil {
			copied.Headers = map[string]string{}
		}
		list = append(list, copied)
	}
	return list, nil
}

func (s *Simulator) clearFaults(*http.Request) (any, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults.active = nil
	return struct{}{}, nil
}
