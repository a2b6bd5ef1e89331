package broker

import (
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"strings"
	"sync"
	"time"
)

// PanicError is a panic that a border recovered, as it may be logged: its value is left out, since that may hold
// whatever a request or Cloud Foundry carried.
type PanicError struct {
	// Type is the Go type of the value, "runtime.boundsError" for an index.
	Type string
	// Stack names functions, files and lines, one call after the other, and no argument.
	Stack string
}

// Recovered makes the error of what recover returned, which is not nil. It is called by the deferred function itself,
// so that the stack still shows where the panic began. Every border that recovers logs a panic through it alone.
func Recovered(value any) *PanicError {
	return &PanicError{Type: fmt.Sprintf("%T", value), Stack: stack()}
}

// Error names the type.
func (p *PanicError) Error() string { return "panic with a value of the type " + p.Type }

// stack is that of the caller of Recovered. debug.Stack would print the arguments of each call, small ones in full.
func stack() string {
	const most = 64
	callers := make([]uintptr, most)
	frames := runtime.CallersFrames(callers[:runtime.Callers(3, callers)])
	var text strings.Builder
	for {
		frame, more := frames.Next()
		_, _ = fmt.Fprintf(&text, "%s\n\t%s:%d\n", frame.Function, frame.File, frame.Line)
		if !more {
			return text.String()
		}
	}
}

// Throttle lets one event for each name pass in a period, so that an outage of Cloud Foundry does not fill the log. It
// may be used concurrently.
type Throttle struct {
	period time.Duration
	mu     sync.Mutex
	last   map[string]time.Time
}

// NewThrottle returns a throttle that has seen nothing yet.
func NewThrottle(period time.Duration) *Throttle {
	return &Throttle{period: period, last: map[string]time.Time{}}
}

// Pass reports whether an event of this name is due, and counts it then.
func (t *Throttle) Pass(name string, now time.Time) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if last, ok := t.last[name]; ok && now.Sub(last) < t.period {
		return false
	}
	t.last[name] = now
	return true
}

// keyAttrs name a record, and more.
func keyAttrs(k Key, more ...slog.Attr) []slog.Attr {
	attrs := []slog.Attr{slog.String("client", k.Client), slog.String("instance_id", k.InstanceID)}
	if k.BindingID != "" {
		attrs = append(attrs, slog.String("binding_id", k.BindingID))
	}
	return append(attrs, more...)
}

// errorAttr is empty, and left out by handlers, when there is no error.
func errorAttr(err error) slog.Attr {
	if err == nil {
		return slog.Attr{}
	}
	return slog.String("error", err.Error())
}

// panicAsError returns a panic as a *PanicError.
func panicAsError(f func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = Recovered(p)
		}
	}()
	return f()
}

// stackAttr is where a panic began; empty, and left out, for other errors.
func stackAttr(err error) slog.Attr {
	if p, ok := errors.AsType[*PanicError](err); ok {
		return slog.String("stack", p.Stack)
	}
	return slog.Attr{}
}
