package lambda

import (
	"context"
	"log/slog"
	"strings"
	"sync"

	"github.com/aws/aws-lambda-go/lambdacontext"
)

// eventIDs tell the lines of one event from those of others, and join them with API Gateway's access log
// (`integration_id`, `trace`) and with the trace in X-Ray.
type eventIDs struct{ request, trace string }

// traceKey is where aws-lambda-go keeps the header of the trace.
const traceKey = "x-amzn-trace-id"

// idsOf are those that Lambda put into the context; empty where it did not.
func idsOf(ctx context.Context) eventIDs {
	var ids eventIDs
	if lambda, ok := lambdacontext.FromContext(ctx); ok {
		ids.request = lambda.AwsRequestID
	}
	header, _ := ctx.Value(traceKey).(string)
	for part := range strings.SplitSeq(header, ";") {
		if root, ok := strings.CutPrefix(strings.TrimSpace(part), "Root="); ok {
			ids.trace = root
		}
	}
	return ids
}

// inFlight are the events that are being handled. The zero value is ready, for any number of goroutines.
type inFlight struct {
	mu     sync.Mutex
	events []*eventIDs
}

// begin notes an event until the function that it returns is called.
func (f *inFlight) begin(ctx context.Context) (end func()) {
	ids := idsOf(ctx)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.events = append(f.events, &ids)
	return func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		for i, e := range f.events {
			if e == &ids {
				f.events = append(f.events[:i:i], f.events[i+1:]...)
				return
			}
		}
	}
}

// only is the event that is being handled, when there is no other beside it: Lambda gives an environment one at a time.
func (f *inFlight) only() eventIDs {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.events) != 1 {
		return eventIDs{}
	}
	return *f.events[0]
}

// correlated adds the ids of its event to each line. A line that was logged without a context belongs to the event that
// is being handled.
type correlated struct {
	slog.Handler
	events *inFlight
}

// correlated makes a logger whose lines bear the ids of their event.
func (c *core) correlated(lines slog.Handler) *slog.Logger {
	return slog.New(correlated{lines, &c.events})
}

// Handle implements slog.Handler.
func (h correlated) Handle(ctx context.Context, record slog.Record) error {
	ids := idsOf(ctx)
	if ids == (eventIDs{}) {
		ids = h.events.only()
	}
	if ids.request != "" {
		record.AddAttrs(slog.String("request_id", ids.request))
	}
	if ids.trace != "" {
		record.AddAttrs(slog.String("trace", ids.trace))
	}
	return h.Handler.Handle(ctx, record)
}

// WithAttrs implements slog.Handler.
func (h correlated) WithAttrs(attrs []slog.Attr) slog.Handler {
	return correlated{h.Handler.WithAttrs(attrs), h.events}
}

// WithGroup implements slog.Handler.
func (h correlated) WithGroup(name string) slog.Handler {
	return correlated{h.Handler.WithGroup(name), h.events}
}
