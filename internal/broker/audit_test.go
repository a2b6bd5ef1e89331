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

// TestAudit: what came into being later than any call is believed to take (docs/protocol.md section 9).
func TestAudit(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		arrange func(r *run)
		want    broker.Audited
		left    int
	}{
		"the living incarnation stays": {func(r *run) { r.ready() }, broker.Audited{Seen: 1}, 1},
		"so does it with marks of another operation": {func(r *run) {
			r.ready()
			rec := r.record(instanceKey())
			rec.Lifecycle.CreateOp.ID = "create-else"
			r.store(rec)
		}, broker.Audited{Seen: 1}, 1},
		"a row that comes after its delete ended goes": {func(r *run) {
			made := r.ready()
			seq := r.record(instanceKey()).Lifecycle.Seq
			r.drive(r.accepted(r.remove()))
			r.late("i", made, seq)
		}, broker.Audited{Seen: 1, Removed: 1}, 0},
		"so does one whose create was given up": {func(r *run) {
			created := r.accepted(r.put())
			seq := r.record(instanceKey()).Lifecycle.Seq
			r.Advance(brokertest.Deadline)
			r.step(created)
			r.late("i", created, seq)
		}, broker.Audited{Seen: 1, Removed: 1}, 0},
		"so does one whose create was cancelled before it was made": {func(r *run) {
			created := r.accepted(r.put())
			seq := r.record(instanceKey()).Lifecycle.Seq
			r.drive(r.accepted(r.remove()))
			r.late("i", created, seq)
		}, broker.Audited{Seen: 1, Removed: 1}, 0},
		"a second row of the living operation goes, the adopted one stays": {func(r *run) {
			made := r.ready()
			r.lateIn(brokertest.OfferingPlain, brokertest.PlanPlain, "i", made, r.record(instanceKey()).Lifecycle.Seq)
		}, broker.Audited{Seen: 2, Removed: 1}, 1},
		"while an operation runs, older rows are its to remove": {func(r *run) {
			made := r.ready()
			seq := r.record(instanceKey()).Lifecycle.Seq
			r.drive(r.accepted(r.remove()))
			r.accepted(r.put())
			r.late("i", made, seq)
		}, broker.Audited{Seen: 1}, 1},
		"a running operation looks after its own": {func(r *run) {
			created := r.accepted(r.put())
			r.step(created)
		}, broker.Audited{Seen: 1}, 1},
		"a row of an operation that the record does not know is only reported": {func(r *run) {
			r.ready()
			r.drive(r.accepted(r.remove()))
			r.late("i", "create-lost", 1)
		}, broker.Audited{Seen: 1, Unknown: 1}, 1},
		"so is one beside the living incarnation": {func(r *run) {
			r.ready()
			r.lateIn(brokertest.OfferingPlain, brokertest.PlanPlain, "i", "create-lost", 1)
		}, broker.Audited{Seen: 2, Unknown: 1}, 2},
		"a second row whose operation is forgotten is known by its GUID": {func(r *run) {
			r.ready()
			r.lateIn(brokertest.OfferingPlain, brokertest.PlanPlain, "i", "create-forgotten", 1)
			rec := r.record(instanceKey())
			for _, row := range r.Cloud.Left() {
				if row.GUID != rec.Lifecycle.CFGUID {
					rec.Lifecycle.GUIDs = append(rec.Lifecycle.GUIDs, row.GUID)
				}
			}
			r.store(rec)
		}, broker.Audited{Seen: 2, Removed: 1}, 1},
		"what no record knows is only reported": {func(r *run) { r.late("unknown-id", "create-x", 1) }, broker.Audited{Seen: 1, Unknown: 1}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRun(t, brokertest.ScheduleOptions{})
			test.arrange(r)
			got, err := r.Broker.Audit(t.Context(), brokertest.Client)
			if diff := cmp.Diff(test.want, got); diff != "" || err != nil {
				t.Errorf("audit (-want +got):\n%s%v", diff, err)
			}
			r.Cloud.FinishAll()
			if left := r.Cloud.Left(); len(left) != test.left {
				t.Errorf("left in Cloud Foundry: %+v, want %d", left, test.left)
			}
		})
	}
}

// late is a POST that takes effect when nobody believes in it any more.
func (r *run) late(name, operation string, seq int64) {
	r.t.Helper()
	r.lateIn(brokertest.OfferingDB, brokertest.PlanSmall, name, operation, seq)
}

// lateIn is late in the space of an offering.
func (r *run) lateIn(offering, plan, name, operation string, seq int64) {
	r.t.Helper()
	if _, err := r.Cloud.CreateInstance(r.t.Context(), broker.InstanceCall{
		Name: name, Offering: offering, PlanGUID: plan,
		Marks: broker.Marks{Client: brokertest.Client, Operation: operation, Seq: seq},
	}); err != nil {
		r.t.Fatal(err)
	}
}
