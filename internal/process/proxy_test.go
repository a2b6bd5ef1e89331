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

// proxy lies between the broker and its Cloud Foundry: every call crosses it, and here a process can be killed at the
// very moment of a call. A call that has entered takes effect even when its sender has died, as in a real front end,
// now or late.
type proxy struct {
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

func newProxy(target string) *proxy {
	s := &proxy{target: target, crossing: map[string]int{}, late: map[string]int{}}
	s.Server = httptest.NewServer(s)
	return s
}

// ServeHTTP carries one call over.
func (p *proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the sender died within it: it never arrives
	}
	generation := p.enter(r.Method, 1)
	defer p.enter(r.Method, -1)
	if t := p.spring(r.Method, false); t != nil {
		if t.lost {
			return
		}
		<-time.After(t.delay)
	}
	resp, answered, err := p.forward(r, body)
	if err != nil {
		panic(http.ErrAbortHandler) // the answer is lost
	}
	p.note(generation, r, body)
	p.spring(r.Method, true)
	maps.Copy(w.Header(), resp.Header)
	w.WriteHeader(resp.StatusCode)
	_, _ = w.Write(answered) // the sender may have died
}

func (p *proxy) enter(method string, n int) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.crossing[method] += n
	return p.generation
}

// spring kills when the trap is set for this call, and returns the trap then.
func (p *proxy) spring(method string, answered bool) *trap {
	p.mu.Lock()
	t := p.trap
	if t == nil || t.answer != answered || t.method != "" && t.method != method {
		p.mu.Unlock()
		return nil
	}
	if t.skip > 0 {
		t.skip--
		p.mu.Unlock()
		return nil
	}
	p.trap = nil
	p.mu.Unlock()
	t.kill()
	close(t.sprung)
	return t
}

// set sets a trap, or with nil takes it away and reports whether it was still set.
func (p *proxy) set(t *trap) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	was := p.trap != nil
	p.trap = t
	return was
}

// nextGeneration is called once a process is dead. It returns how many calls it had under way.
func (p *proxy) nextGeneration() (writes, reads int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.generation++
	return p.crossing[http.MethodPost] + p.crossing[http.MethodPatch] + p.crossing[http.MethodDelete], p.crossing[http.MethodGet]
}

// note counts a POST whose sender was dead before its answer came: such a one may have taken effect after its successor
// looked.
func (p *proxy) note(generation int, r *http.Request, body []byte) {
	var named struct{ Name string }
	if r.Method != http.MethodPost || !strings.HasPrefix(r.URL.Path, "/v3/service") || json.Unmarshal(body, &named) != nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.generation != generation {
		p.late[named.Name]++
	}
}

func (p *proxy) lateCalls(name string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.late[name]
}

func (p *proxy) forward(r *http.Request, body []byte) (*http.Response, []byte, error) {
	ctx := context.WithoutCancel(r.Context())
	req, err := http.NewRequestWithContext(ctx, r.Method, p.target+r.URL.RequestURI(), bytes.NewReader(body))
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
