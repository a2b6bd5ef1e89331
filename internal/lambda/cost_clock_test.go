package lambda

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"time"

	"github.com/ferry-broker/ferry/internal/cfsim"
)

// clock is moved by hand, so that five minutes of an operation take no time.
type clock struct {
	mu sync.Mutex
	at time.Time
}

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.at
}

// until moves the clock on; it never goes back.
func (c *clock) until(at time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if at.After(c.at) {
		c.at = at
	}
}

func (c *clock) pass(d time.Duration) { c.until(c.now().Add(d)) }

// foundry is a simulated Cloud Foundry that counts the calls it gets. Its work is done
// when a call that began it returns, or else when release says so: what a tick sees
// does not depend on the machine.
type foundry struct {
	sim   *cfsim.Simulator
	meter *meter

	mu   sync.Mutex
	held bool
	// until is when the work is done that was held, by the clock; zero for never.
	until time.Time
}

func newFoundry(m *meter) *foundry {
	return &foundry{sim: cfsim.New(cfsim.Options{}), meter: m}
}

func (f *foundry) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	name := "CF call"
	if strings.Contains(r.URL.Path, "oauth/token") {
		name = "CF login"
	}
	f.meter.count(name)
	f.look()
	f.sim.Handler().ServeHTTP(w, r)
	if r.Method != http.MethodGet && name == "CF call" && !f.holding() {
		f.settle(r)
	}
}

func (f *foundry) holding() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.held
}

// holdFor holds the work that begins now for a time.
func (f *foundry) holdFor(d time.Duration) {
	f.hold(d > 0)
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.until = (time.Time{}); d > 0 {
		f.until = f.meter.clock.now().Add(d)
	}
}

// look releases what has been held for its time.
func (f *foundry) look() {
	f.mu.Lock()
	over := !f.until.IsZero() && !f.meter.clock.now().Before(f.until)
	if over {
		f.until = time.Time{}
	}
	f.mu.Unlock()
	if over {
		f.hold(false)
	}
}

// hold keeps workers from taking jobs up.
func (f *foundry) hold(held bool) {
	f.mu.Lock()
	f.held = held
	f.mu.Unlock()
	body := `{"held":false}`
	if held {
		body = `{"held":true}`
	}
	r := httptest.NewRequest(http.MethodPost, "/__sim/workers", strings.NewReader(body))
	f.sim.Handler().ServeHTTP(httptest.NewRecorder(), r)
	if !held {
		f.settle(r)
	}
}

// settle returns once no row is being worked on.
func (f *foundry) settle(r *http.Request) {
	poll := time.NewTicker(time.Millisecond)
	defer poll.Stop()
	for {
		state := httptest.NewRecorder()
		f.sim.Handler().ServeHTTP(state, httptest.NewRequest(http.MethodGet, "/__sim/state", nil))
		body, _ := io.ReadAll(state.Body) // from memory
		if !bytes.Contains(body, []byte(`"state":"in progress"`)) && !bytes.Contains(body, []byte(`"state":"initial"`)) {
			return
		}
		select {
		case <-poll.C:
		case <-r.Context().Done():
			return
		}
	}
}
