package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"
)

// Options say where the broker and its simulated Cloud Foundry are.
type Options struct {
	BrokerURL, SimulatorURL string
	Username, Password      string
	Out                     io.Writer
	// Pause waits between polls.
	Pause func(context.Context) error
}

// ErrUnexpected is returned when an answer was not the one expected.
var ErrUnexpected = errors.New("an answer was not the one expected (the line is marked)")

// Run shows the whole tour. It returns ErrUnexpected when any answer was wrong, and the context's error when that ended
// first.
func Run(ctx context.Context, o Options) error {
	t := &tour{
		Options:  o,
		platform: platform{url: o.BrokerURL, username: o.Username, password: o.Password, http: &http.Client{Timeout: time.Minute}},
	}
	t.say(introduction)
	for _, chapter := range []func(context.Context){t.create, t.bind, t.remove, t.cancel, t.summary} {
		chapter(ctx)
		if err := ctx.Err(); err != nil {
			return err
		}
	}
	if t.wrong > 0 {
		return fmt.Errorf("%d times: %w", t.wrong, ErrUnexpected)
	}
	t.say("Every answer was the one that the OSB text asks for.")
	return nil
}

const introduction = `Platforms such as OpenShift and Kubernetes ask a service broker for databases, queues
and their credentials. They send the same request twice, five times at once, or again
when an answer got lost. A broker that passes the second one on breaks its users' work:
"name taken", failed provisions, working credentials revoked. Ferry's promise: however
often it is sent, one request leads to one thing in Cloud Foundry.`

// tour is one run of the demo.
type tour struct {
	Options
	platform         platform
	service          string
	syncPlan, asyncP string
	wrong            int
}

func (t *tour) say(format string, args ...any) { _, _ = fmt.Fprintf(t.Out, format+"\n", args...) }

func (t *tour) title(s string) { t.say("\n== %s", s) }

// show prints one request with its answer on one line, and marks what is wrong.
func (t *tour) show(what string, a answer, ok bool, meaning string) {
	mark := "  "
	if !ok || a.err != nil {
		mark = "!!"
		t.wrong++
	}
	detail := a.operation
	if len(detail) > 15 {
		detail = detail[:15] + "..."
	}
	if a.err != nil {
		meaning = a.err.Error()
	}
	t.say("%s", strings.TrimRight(fmt.Sprintf("%s %-46s %d %-19s %s", mark, what, a.status, detail, meaning), " "))
}

// expect sends, shows and checks the status.
func (t *tour) expect(ctx context.Context, status int, what, method, path string, body any, meaning string) answer {
	a := t.platform.send(ctx, method, path, body)
	t.show(what, a, a.status == status, meaning)
	return a
}

// together sends the same request n times at once.
func (t *tour) together(ctx context.Context, n int, method, path string, body any) []answer {
	answers := make([]answer, n)
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() { answers[i] = t.platform.send(ctx, method, path, body) })
	}
	all.Wait()
	return answers
}

// poll asks for the last operation until it has ended, and shows the last answer.
func (t *tour) poll(ctx context.Context, path, operation string) {
	url := path + "/last_operation?operation=" + operation
	for n := 1; ; n++ {
		a := t.platform.send(ctx, http.MethodGet, url, nil)
		if a.state != "in progress" || a.err != nil {
			t.show("GET its last_operation, "+times(n), a, a.state == "succeeded", a.state)
			return
		}
		if t.Pause(ctx) != nil {
			return
		}
	}
}

func times(n int) string {
	if n == 1 {
		return "once"
	}
	return fmt.Sprintf("%d times", n)
}
