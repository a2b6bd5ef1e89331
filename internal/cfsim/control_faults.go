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
	if f.Page != "" && f.Action == "" {
		f.Action = faultRespond
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
	case f.Page != "" && (f.Action != faultRespond || f.Body != ""):
		return bad("A page is all that a fault responds with; only headers may be added.")
	}
	if _, known := pageNamed(f.Page); !known && f.Page != "" {
		return bad("There is no page %q; GET %s/pages lists them.", f.Page, controlPrefix)
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

// pageView is a page as the control lists it.
type pageView struct {
	Status  int               `json:"status"`
	Headers map[string]string `json:"headers"`
	Body    string            `json:"body"`
}

func (s *Simulator) listPages(*http.Request) (any, error) {
	list := map[string]pageView{}
	for name, p := range pages() {
		list[name] = pageView{p.status, p.headers, p.body}
	}
	return list, nil
}
