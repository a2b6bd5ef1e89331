package process

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"time"
)

// strait lies between the broker and its Cloud Foundry: every call crosses it, and
// here a process can be killed at the very moment of a call. A call that has
// entered takes effect even when its sender has died, as in a real front end, now
// or late.
type strait struct {
	*httptest.Server
	target string

	mu         sync.Mutex
	generation int // of the process; each kill begins another
	trap       *trap
	crossing   map[string]int // calls under way by method
	late       map[string]int // POSTs by the name in them that took effect after their sender's death
}

// trap waits for a call that fits, and kills.
type trap struct {
	method string // any when empty
	skip   int    // how many fitting calls go free
	answer bool   // spring when the call has its answer, not when it arrives
	// What becomes of a call that was on its way there: lost, or late by delay.
	lost  bool
	delay time.Duration

	kill   func()
	sprung chan struct{}
}

func newStrait(target string) *strait {
	s := &strait{target: target, crossing: map[string]int{}, late: map[string]int{}}
	s.Server = httptest.NewServer(s)
	return s
}

// ServeHTTP carries one call over.
func (s *strait) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the sender died within it: it never arrives
	}
	generation := s.enter(r.Method, 1)
	defer s.enter(r.Method, -1)
	if t := s.spring(r.Method, false); t != nil {
		if t.lost {
			return
		}
		<-time.After(t.delay)
	}
	resp, answered, err := s.forward(r, body)
	if err != nil {
		panic(http.ErrAbortHandler) // the answer is lost
	}
	s.note(generation, r, body)
	s.spring(r.Method, true)
	maps.Copy(w.Header(), resp.Header)
	w.WriteHeader(resp.StatusCode)
	_, _ = w.Write(answered) // the sender may have died
}

func (s *strait) enter(method string, n int) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.crossing[method] += n
	return s.generation
}

// spring kills when the trap is set for this call, and returns the trap then.
func (s *strait) spring(method string, answered bool) *trap {
	s.mu.Lock()
	t := s.trap
	if t == nil || t.answer != answered || t.method != "" && t.method != method {
		s.mu.Unlock()
		return nil
	}
	if t.skip > 0 {
		t.skip--
		s.mu.Unlock()
		return nil
	}
	s.trap = nil
	s.mu.Unlock()
	t.kill()
	close(t.sprung)
	return t
}

// set sets a trap, or with nil takes it away and reports whether it was still set.
func (s *strait) set(t *trap) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	was := s.trap != nil
	s.trap = t
	return was
}

// nextGeneration is called once a process is dead. It returns how many calls it
// had under way.
func (s *strait) nextGeneration() (writes, reads int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.generation++
	return s.crossing[http.MethodPost] + s.crossing[http.MethodPatch] + s.crossing[http.MethodDelete], s.crossing[http.MethodGet]
}

// note counts a POST whose sender was dead before its answer came: such a one may
// have taken effect after its successor looked.
func (s *strait) note(generation int, r *http.Request, body []byte) {
	var named struct{ Name string }
	if r.Method != http.MethodPost || !strings.HasPrefix(r.URL.Path, "/v3/service") || json.Unmarshal(body, &named) != nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.generation != generation {
		s.late[named.Name]++
	}
}

func (s *strait) lateCalls(name string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.late[name]
}

func (s *strait) forward(r *http.Request, body []byte) (*http.Response, []byte, error) {
	ctx := context.WithoutCancel(r.Context())
	req, err := http.NewRequestWithContext(ctx, r.Method, s.target+r.URL.RequestURI(), bytes.NewReader(body))
	if err != nil {
		return nil, nil, err
	}
	req.Header, req.Host = r.Header.Clone(), r.Host
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		return nil, nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	answered, err := io.ReadAll(resp.Body)
	return resp, answered, err
}
