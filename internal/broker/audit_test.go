package broker_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ferry-broker/ferry/internal/broker"
	"github.com/ferry-broker/ferry/internal/brokertest"
)

// diary is a process that looks each minute whether an audit is due, on a clock of its own, and notes when there was
// one.
type diary struct {
	store   broker.AuditStore
	began   time.Time
	now     time.Time
	away    bool
	audits  []string
	results map[string]int
	log     bytes.Buffer
	auditor *broker.Auditor
}

func newDiary() *diary {
	began := time.Date(2030, time.May, 1, 0, 0, 0, 0, time.UTC)
	d := &diary{began: began, now: began, results: map[string]int{}}
	d.store = brokertest.NewMemoryStore(func() time.Time { return d.now })
	return d
}

// start is a start of the process.
func (d *diary) start(after, retry, early time.Duration, change ...func(*broker.AuditorOptions)) {
	o := broker.AuditorOptions{
		Audit: func(_ context.Context, client string) (broker.Audited, error) {
			d.audits = append(d.audits, fmt.Sprint(client, " ", d.now.Sub(d.began)))
			if d.away {
				return broker.Audited{Seen: 1}, errors.New("no route to host")
			}
			return broker.Audited{Seen: 3, Unknown: 2}, nil
		},
		Store: d.store, Now: func() time.Time { return d.now }, Logger: slog.New(slog.NewTextHandler(&d.log, nil)),
		Ended: func(result string) { d.results[result]++ },
		After: after, Retry: retry, Early: early,
	}
	for _, f := range change {
		f(&o)
	}
	d.auditor = broker.NewAuditor(o)
}

// serve is a start as `ferry serve` makes one.
func (d *diary) serve() { d.start(10*time.Minute, time.Hour, 0) }

// pass lets time go by, and a look happen as often as every.
func (d *diary) pass(ctx context.Context, t, every time.Duration) {
	for until := d.now.Add(t); d.now.Before(until); {
		d.now = d.now.Add(every)
		_ = d.auditor.AuditDue(ctx, []string{"a"})
	}
}

// TestAuditsAreDue ten minutes after a start, then a day after the last completed one, however often the process
// starts; one that failed is tried again each hour.
func TestAuditsAreDue(t *testing.T) {
	t.Parallel()
	const day, minute = 24 * time.Hour, time.Minute
	for name, test := range map[string]struct {
		live func(ctx context.Context, d *diary)
		want []string
	}{
		"in one piece": {func(ctx context.Context, d *diary) { d.serve(); d.pass(ctx, 2*day+time.Hour, minute) },
			[]string{"a 10m0s", "a 24h10m0s", "a 48h10m0s"}},
		"a process that starts each hour": {func(ctx context.Context, d *diary) {
			for range 26 {
				d.serve()
				d.pass(ctx, time.Hour, minute)
			}
		}, []string{"a 10m0s", "a 24h10m0s"}},
		"one that starts each five minutes, and then stays": {func(ctx context.Context, d *diary) {
			for range 12 {
				d.serve()
				d.pass(ctx, 5*minute, minute)
			}
			d.pass(ctx, 10*minute, minute)
		}, []string{"a 1h5m0s"}},
		"one that was down for days": {func(ctx context.Context, d *diary) {
			d.serve()
			d.pass(ctx, time.Hour, minute)
			d.now = d.now.Add(3 * day)
			d.serve()
			d.pass(ctx, time.Hour, minute)
		}, []string{"a 10m0s", "a 73h10m0s"}},
		"Cloud Foundry is away for two hours": {func(ctx context.Context, d *diary) {
			d.serve()
			d.away = true
			d.pass(ctx, 2*time.Hour, minute)
			d.away = false
			d.pass(ctx, day+time.Hour, minute)
		}, []string{"a 10m0s", "a 1h10m0s", "a 2h10m0s", "a 26h10m0s"}},
		"a clock that was wrong": {func(ctx context.Context, d *diary) {
			if err := d.store.PutLastAudit(ctx, "a", d.began.Add(1000*day)); err != nil {
				panic(err)
			}
			d.serve()
			d.pass(ctx, 20*minute, 5*minute)
		}, []string{"a 10m0s", "a 15m0s", "a 20m0s"}},
		"a function that is called each hour, a moment early at times": {func(ctx context.Context, d *diary) {
			for n := range 50 {
				d.start(0, 0, 30*minute)
				d.now = d.began.Add(time.Duration(n)*time.Hour - time.Duration(n%3)*time.Second)
				_ = d.auditor.AuditDue(ctx, []string{"a"})
			}
		}, []string{"a 0s", "a 24h0m0s", "a 48h0m0s"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newDiary()
			test.live(t.Context(), d)
			if diff := cmp.Diff(test.want, d.audits); diff != "" {
				t.Errorf("audits (-want +got):\n%s", diff)
			}
		})
	}
}

// TestAnAuditIsSaid with a line and a result, whatever became of it, and at any time when it is asked for; the end of
// the process is no failure of it.
func TestAnAuditIsSaid(t *testing.T) {
	t.Parallel()
	d := newDiary()
	d.serve()
	clients := []string{"a"}
	if err := d.auditor.AuditNow(t.Context(), clients); err != nil {
		t.Error(err)
	}
	d.away = true
	if err := d.auditor.AuditNow(t.Context(), clients); err == nil || !strings.Contains(err.Error(), "audit of client a: no route to host") {
		t.Errorf("error %v", err)
	}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if err := d.auditor.AuditNow(over, clients); err == nil {
		t.Error("no error with a context that is over")
	}
	text := d.log.String()
	for _, line := range []string{
		`level=INFO msg="audit completed" client=a seen=3 removed=0 unknown=2` + "\n",
		`level=WARN msg="audit failed" client=a seen=1 removed=0 unknown=0 error="no route to host"` + "\n",
	} {
		if strings.Count(text, line) != 1 || strings.Count(text, "\n") != 2 {
			t.Errorf("want one %q in\n%s", line, text)
		}
	}
	if diff := cmp.Diff(map[string]int{broker.AuditCompleted: 1, broker.AuditFailed: 1}, d.results); diff != "" {
		t.Errorf("results (-want +got):\n%s", diff)
	}
	if len(d.audits) != 3 {
		t.Errorf("audits: %v", d.audits)
	}
}

// TestClientsAreAuditedSideBySide: one whose Cloud Foundry hangs, or whose audit ends in a panic, keeps no other from
// its own.
func TestClientsAreAuditedSideBySide(t *testing.T) {
	t.Parallel()
	ended := make(chan string, 2)
	hanging, release := context.WithCancel(t.Context())
	d := newDiary()
	d.start(0, 0, 0, func(o *broker.AuditorOptions) {
		o.Ended = nil
		o.Audit = func(_ context.Context, client string) (broker.Audited, error) {
			switch client {
			case "hangs":
				<-hanging.Done()
			case "panics":
				panic("s3cr3t")
			default:
				ended <- client
			}
			return broker.Audited{}, nil
		}
	})
	done := make(chan error, 1)
	go func() { done <- d.auditor.AuditDue(t.Context(), []string{"hangs", "panics", "a", "b"}) }()
	for range 2 {
		<-ended
	}
	release()
	err := <-done
	if text := d.log.String(); strings.Count(text, "audit completed") != 3 || !strings.Contains(text, `msg="audit failed" client=panics`) {
		t.Errorf("the log:\n%s", text)
	}
	if err == nil || !strings.Contains(err.Error(), "panic with a value of the type string") || strings.Contains(err.Error(), "s3cr3t") {
		t.Errorf("error %v", err)
	}
}
