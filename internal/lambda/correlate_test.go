package lambda

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/aws/aws-lambda-go/lambdacontext"

	"github.com/ferry-broker/ferry/internal/sfn"
)

// lambdaContext is what Lambda's runtime hands to a function with an event.
func lambdaContext(ctx context.Context, request, trace string) context.Context {
	ctx = lambdacontext.NewContext(ctx, &lambdacontext.LambdaContext{AwsRequestID: request})
	return traced{ctx, "Root=" + trace + ";Parent=53995c3f42cd8ad8;Sampled=1"}
}

// traced is a context with the header of a trace, under the key that Lambda's runtime gives it.
type traced struct {
	context.Context
	header string
}

func (c traced) Value(key any) any {
	if key == traceKey {
		return c.header
	}
	return c.Context.Value(key)
}

// TestEveryLineBearsItsEvent lets the three functions live through a life with its troubles. Some lines have no
// context, those of the catalog among them.
func TestEveryLineBearsItsEvent(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	read := 0
	during := func(name string, event func(ctx context.Context)) {
		t.Helper()
		request, trace := "request-of-"+name, "1-67891233-of-"+name
		event(lambdaContext(t.Context(), request, trace))
		lines := strings.Split(strings.TrimSpace(h.log.String()), "\n")
		if len(lines) == read {
			t.Errorf("%s logged nothing", name)
		}
		for ; read < len(lines); read++ {
			var line struct {
				RequestID string `json:"request_id"`
				Trace     string
			}
			if err := json.Unmarshal([]byte(lines[read]), &line); err != nil || line.RequestID != request || line.Trace != trace {
				t.Errorf("a line of the event %s, trace %s: %s (%v)", request, trace, lines[read], err)
			}
		}
	}
	send := func(event string) func(context.Context) {
		return func(ctx context.Context) {
			_, _ = h.api.Handle(ctx, readEvent(t, event)) // the error is always nil
		}
	}
	tick := func(ctx context.Context) { h.drive(ctx, t) }
	sweep := func(task string) func(context.Context) {
		return func(ctx context.Context) { _ = h.janitor.Handle(ctx, Schedule{Task: task}) }
	}
	during("catalog", send("catalog"))
	if !strings.Contains(h.log.String(), `"msg":"the catalog changed"`) {
		t.Errorf("no line without a context: %s", h.log)
	}
	during("create", send("provision"))
	during("create-tick", tick)
	during("bind", send("bind"))
	during("unauthorised", send("unauthorised"))
	during("unbind", send("unbind"))
	during("delete", send("deprovision"))
	during("delete-tick", tick)
	during("round", sweep(TaskRound))
	during("audit", sweep(TaskAudit))
	during("no-such-task", func(ctx context.Context) {
		if err := h.janitor.Handle(ctx, Schedule{Task: "sweep"}); err == nil {
			t.Error("a task that nobody knows succeeded")
		}
	})
	h.table.set(nil, "s3cr3t")
	during("panic", send("last-operation"))
	h.table.set(nil, nil)
	h.configure(nil, errDown)
	during("no-configuration", send("catalog"))
	during("bad-tick", func(ctx context.Context) { _, _ = h.poller.Handle(ctx, sfn.Tick{Client: "demo"}) })
}

// TestALineOfNoEventBearsNone: of two events at once nobody knows which one a line without a context belongs to, and
// after an event it belongs to none.
func TestALineOfNoEventBearsNone(t *testing.T) {
	t.Parallel()
	c, log := &core{}, &logged{}
	c.parts.Logger = c.correlated(newLines(log)).With("a", 1).WithGroup("g")
	ctx := lambdaContext(t.Context(), "first", "1-1")
	endFirst := c.events.begin(ctx)
	endSecond := c.events.begin(lambdaContext(t.Context(), "second", "1-2"))
	c.parts.Logger.Info("of two")
	c.parts.Logger.InfoContext(ctx, "of the first")
	endFirst()
	c.parts.Logger.Info("of the second")
	endSecond()
	c.parts.Logger.Info("of none")
	var got []string
	for line := range strings.Lines(log.String()) {
		var said struct {
			Msg string
			G   struct {
				RequestID string `json:"request_id"`
			}
		}
		if err := json.Unmarshal([]byte(line), &said); err != nil {
			t.Fatal(err)
		}
		got = append(got, said.Msg+": "+said.G.RequestID)
	}
	if want := "[of two:  of the first: first of the second: second of none: ]"; fmt.Sprint(got) != want {
		t.Errorf("%v, want %s", got, want)
	}
}
