package cfsim

import (
	"net/http"
	"strconv"
	"strings"
	"time"
)

// When a fault strikes, and what it does.
const (
	faultBefore = "before"
	faultAfter  = "after"

	faultDrop    = "drop"
	faultDelay   = "delay"
	faultRespond = "respond"
)

// fault is a disturbance of requests that match it.
type fault struct {
	ID      string            `json:"id"`
	Method  string            `json:"method"`
	Route   string            `json:"route"`
	Match   string            `json:"match"`
	Times   int               `json:"times"`
	When    string            `json:"when"`
	Action  string            `json:"action"`
	DelayMS int               `json:"delay_ms"`
	Status  int               `json:"status"`
	Headers map[string]string `json:"headers"`
	Body    string            `json:"body"`
	Page    string            `json:"page"` // in place of status, headers and body
	Hits    int               `json:"hits"`
}

// faultList is guarded by the simulator's mutex.
type faultList struct {
	last   int
	active []*fault
}

func (l *faultList) add(f fault) string {
	l.last++
	f.ID = "fault-" + strconv.Itoa(l.last)
	f.Hits = 0
	l.active = append(l.active, &f)
	return f.ID
}

// take returns the first fault that matches, counts the hit, and drops the
// fault when it is used up.
func (l *faultList) take(c *call, pattern string) (fault, bool) {
	for i, f := range l.active {
		if !f.matches(c, pattern) {
			continue
		}
		f.Hits++
		if f.Times > 0 && f.Hits >= f.Times {
			l.active = append(l.active[:i:i], l.active[i+1:]...)
		}
		return *f, true
	}
	return fault{}, false
}

func (f *fault) matches(c *call, pattern string) bool {
	r := c.request
	route := f.Route == "*" || f.Route == pattern || f.Route == r.URL.Path || "/uaa"+f.Route == pattern
	if !route || f.Method != "*" && !strings.EqualFold(f.Method, r.Method) {
		return false
	}
	uri := r.URL.RequestURI()
	return f.Match == "" || strings.Contains(string(c.body), f.Match) || strings.Contains(uri, f.Match) || strings.Contains(unescape(uri), f.Match)
}

// throughFaults calls handle as the first matching fault lets it. The request
// is not bound to its caller here: its body was read before, and nothing looks
// at its context, so that a call that is held up takes effect in the end even
// when nobody waits for the answer.
func (s *Simulator) throughFaults(c *call, pattern string, handle func() *answer) *answer {
	s.mu.Lock()
	f, found := s.faults.take(c, pattern)
	s.mu.Unlock()
	if !found {
		return handle()
	}
	if f.When == faultBefore {
		s.hold(time.Duration(f.DelayMS) * time.Millisecond)
		if f.Action == faultDelay {
			return handle()
		}
		return f.strike(c.request)
	}
	result := handle()
	s.hold(time.Duration(f.DelayMS) * time.Millisecond)
	if f.Action == faultDelay {
		return result
	}
	return f.strike(c.request)
}

// strike gives the fault's own answer, or none.
func (f *fault) strike(r *http.Request) *answer {
	if f.Action == faultDrop {
		panic(http.ErrAbortHandler) // the way to tell net/http to close the connection
	}
	a := newAnswer(f.Status, "", []byte(f.Body))
	if p, named := pageNamed(f.Page); named {
		a = p.answer(r)
	}
	for name, value := range f.Headers {
		a.header.Set(name, value)
	}
	return a
}

// hold waits; when the simulator is closed meanwhile, the call ends there.
func (s *Simulator) hold(d time.Duration) {
	if d <= 0 {
		return
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-s.done:
		panic(http.ErrAbortHandler)
	}
}
