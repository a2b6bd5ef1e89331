package deployed

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// fault says which calls are disturbed, and how. What is left empty fits all calls.
type fault struct {
	Action string // whole, as in call.Action
	About  string // an id in the call
	From   string // a part of the sender's name
	Fits   func(call) bool
	// Skip is how many calls that fit go free; Times is how many are disturbed then, 0 for all until it is lifted.
	Skip, Times int
	Do          disturbance
}

// disturbance is what becomes of a call.
type disturbance func(*passage)

// ordered is a fault in force.
type ordered struct {
	fault
	mu       sync.Mutex
	hits     int
	err      error
	met      chan struct{} // closed at the first hit
	released chan struct{}
	release  func() // lets go what hold holds, now and later
}

// order puts a fault in force until it is used up, lifted, or the test has ended. Faults are tried in the order in
// which they were ordered.
func (g *gate) order(t testing.TB, f fault) *ordered {
	t.Helper()
	o := &ordered{fault: f, met: make(chan struct{}), released: make(chan struct{})}
	o.release = sync.OnceFunc(func() { close(o.released) })
	g.mu.Lock()
	g.faults = append(g.faults, o)
	g.mu.Unlock()
	t.Cleanup(func() {
		g.lift(o)
		if err := o.fate(); err != nil {
			t.Errorf("the gate could not do what was ordered: %v", err)
		}
	})
	return o
}

// lift takes a fault away; what it holds goes on.
func (g *gate) lift(o *ordered) {
	g.mu.Lock()
	g.faults = slices.DeleteFunc(g.faults, func(other *ordered) bool { return other == o })
	g.mu.Unlock()
	o.release()
}

// takes reports whether the call is disturbed, and counts it.
func (o *ordered) takes(c call) bool {
	fits := c.Action != "" && (o.Action == "" || o.Action == c.Action) && (o.About == "" || slices.Contains(c.About, o.About)) &&
		strings.Contains(c.From, o.From) && (o.Fits == nil || o.Fits(c))
	if !fits {
		return false
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.Skip > 0 {
		o.Skip--
		return false
	}
	if o.Times > 0 && o.hits >= o.Times {
		return false
	}
	if o.hits++; o.hits == 1 {
		close(o.met)
	}
	return true
}

func (o *ordered) do(p *passage) { o.Do(p) }

// count is how many calls were disturbed.
func (o *ordered) count() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.hits
}

// awaits ends the test when no call has met the fault in time.
func (o *ordered) awaits(t testing.TB, within time.Duration) {
	t.Helper()
	select {
	case <-o.met:
	case <-time.After(within):
		t.Fatalf("within %s no call met the fault: %s about %q from %q", within, o.Action, o.About, o.From)
	}
}

func (o *ordered) fate() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.err
}

func (o *ordered) failed(err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.err = err
}

// throttle refuses the call for lack of room, in the words of the service.
func throttle(p *passage) {
	if strings.HasPrefix(p.call.Action, "DynamoDB.") {
		p.answer(http.StatusBadRequest, "com.amazonaws.dynamodb.v20120810#ProvisionedThroughputExceededException",
			"The level of configured provisioned throughput for the table was exceeded.")
		return
	}
	p.answer(http.StatusBadRequest, "ThrottlingException", "Rate exceeded")
}

// fail500 is a fault of the service; the call has no effect.
func fail500(p *passage) {
	p.answer(http.StatusInternalServerError, "InternalServerError", "Internal server error")
}

// refuse says that the sender's role does not allow the call.
func refuse(p *passage) {
	p.answer(http.StatusBadRequest, "AccessDeniedException", "User is not authorized to perform: "+p.call.Action)
}

// lose lets the call take effect and drops its answer.
func lose(p *passage) {
	p.over()
	panic(http.ErrAbortHandler)
}

// hold keeps the call until it is released, then lets it through, also when its sender has gone.
func hold(p *passage) {
	p.untilReleased()
	p.pass()
}

// holdThenKill keeps the call until it is released; it never arrives, and its sender is killed.
func holdThenKill(p *passage) {
	p.untilReleased()
	p.end(kills)
}

func (p *passage) untilReleased() {
	select {
	case <-p.ordered.released:
	case <-p.gate.closing:
		panic(http.ErrAbortHandler)
	}
}

// killBefore kills the sender (SIGKILL); the call never arrives.
func killBefore(p *passage) { p.end(kills) }

// killAfter lets the call take effect, then kills the sender, which never hears of it.
func killAfter(p *passage) {
	p.over()
	p.end(kills)
}

// crash lets the sender's own runtime end it (SIGABRT: a trace and exit code 2); the call never arrives.
func crash(p *passage) { p.end(aborts) }

// end ends the sender and waits until its connection is gone, so that nothing of it comes afterwards.
func (p *passage) end(how ending) {
	p.gate.mu.Lock()
	root := p.gate.root
	p.gate.mu.Unlock()
	if err := endSender(p.r.RemoteAddr, p.gate.server.Listener.Addr().String(), root, how); err != nil {
		p.ordered.failed(err)
		panic(http.ErrAbortHandler)
	}
	select {
	case <-p.r.Context().Done():
	case <-p.gate.closing:
	}
	panic(http.ErrAbortHandler)
}

func (p *passage) answer(status int, kind, message string) {
	body, _ := json.Marshal(map[string]string{"__type": kind, "message": message}) // strings always encode
	p.w.Header().Set("Content-Type", "application/x-amz-json-1.0")
	p.w.Header().Set("X-Amzn-RequestId", fmt.Sprintf("gate-%p", p))
	p.w.WriteHeader(status)
	_, _ = p.w.Write(body)
}
