package lambda

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/ferry-broker/ferry/internal/broker"
)

const (
	// auditEarly is half of the time between two calls of the schedule.
	auditEarly = 30 * time.Minute
	// closing is kept free before Lambda's deadline, to say what was done.
	closing = 5 * time.Second
)

// The tasks that the schedule names in its input.
const (
	// TaskRound drives the operations that are due, and refreshes catalogs that are old.
	TaskRound = "round"
	// TaskAudit looks for what Cloud Foundry has and nobody knows.
	TaskAudit = "audit"
)

// Schedule is the input that a rule of the schedule sends.
type Schedule struct {
	Task string `json:"task"`
	// Due leaves out of an audit the clients whose last one was completed within a day.
	Due bool `json:"due,omitempty"`
}

// Janitor does what nobody asks for. It may be used concurrently, and a task may run twice or late.
type Janitor struct {
	core *core

	mu sync.Mutex
	// fetched is when a client's catalog was last fetched by this environment.
	fetched map[string]time.Time
}

// NewJanitor makes the janitor from the function's environment; the JSON log goes to log. It calls nobody. The error
// lists every setting that is missing or wrong.
func NewJanitor(lookupEnv func(string) (string, bool), log io.Writer) (*Janitor, error) {
	c, err := newCore(lookupEnv, log)
	if err != nil {
		return nil, err
	}
	return &Janitor{core: c, fetched: map[string]time.Time{}}, nil
}

// prepare is what the janitor does before its first event. It fetches catalogs, and needs none that was stored.
func (j *Janitor) prepare(ctx context.Context) {
	j.core.announce(ctx)
	j.core.prepare(ctx, false)
}

// JanitorFailed says that a task was not completed; the next one tries again. An alarm counts them.
type JanitorFailed struct{ Task string }

// Error sends the reader to the log.
func (e *JanitorFailed) Error() string {
	return "the task " + e.Task + " was not completed; the log has the reason"
}

// Handle carries one task out, TaskRound when the input names none. The error is a *JanitorFailed.
func (j *Janitor) Handle(ctx context.Context, s Schedule) (err error) {
	if s.Task == "" {
		s.Task = TaskRound
	}
	defer j.core.events.begin(ctx)()
	log := j.core.parts.Logger.With("task", s.Task)
	defer func() {
		if value := recover(); value != nil {
			panicked := broker.Recovered(value)
			log.ErrorContext(ctx, "panic", "value", panicked.Type, "stack", panicked.Stack)
			err = &JanitorFailed{Task: s.Task}
		}
	}()
	if fault := j.run(ctx, s); fault != nil {
		log.ErrorContext(ctx, "the task was not completed", "error", fault.Error())
		return &JanitorFailed{Task: s.Task}
	}
	return nil
}

func (j *Janitor) run(ctx context.Context, s Schedule) error {
	now, err := j.core.current(ctx)
	if err != nil {
		return err
	}
	ctx, cancel := within(ctx, closing)
	defer cancel()
	switch s.Task {
	case TaskRound:
		return j.round(ctx, now)
	case TaskAudit:
		return j.audit(ctx, now, s.Due)
	default:
		return fmt.Errorf("no such task: %.40q", s.Task)
	}
}

// round drives what is due, and beside that refreshes catalogs, whose faults are no reason for an alarm of the
// janitor's.
func (j *Janitor) round(ctx context.Context, now *assembly) error {
	var refreshing sync.WaitGroup
	var fault error
	refreshing.Go(func() {
		ctx, cancel := context.WithTimeout(ctx, broker.RoundTime)
		defer cancel()
		fault = j.refresh(ctx, now)
	})
	err := j.sweep(ctx, now)
	refreshing.Wait()
	return errors.Join(err, fault)
}

// refresh fetches the catalogs that are old. One that hangs keeps no other from its turn.
func (j *Janitor) refresh(ctx context.Context, now *assembly) error {
	every := map[string]time.Duration{}
	for _, c := range now.Config.Clients {
		every[c.Name] = c.CatalogRefresh
	}
	return broker.SideBySide(now.Clients(), func(client string) error {
		if j.due(client, every[client]) {
			_ = now.Catalog.Refresh(ctx, client) // logged where it happens
		}
		return nil
	})
}

// sweep fails when an operation could not be driven, so that the alarm rings.
func (j *Janitor) sweep(ctx context.Context, now *assembly) error {
	began := j.core.parts.Now()
	done, err := now.Broker.Sweep(ctx, began.Add(broker.RoundTime), func(repeats bool) { j.note(ctx, began, repeats) })
	counts := []any{"restarted", done.Restarted, "driven", done.Driven}
	for name, n := range map[string]int{"failed": done.Failed, "unreadable": done.Unreadable, "left": done.Left} {
		if n > 0 {
			counts = append(counts, name, n)
		}
	}
	// The metric of overdue operations is made of this line (template.yaml).
	j.core.parts.Logger.InfoContext(ctx, "janitor round", counts...)
	if failed := done.Failed + done.Unreadable; err == nil && failed > 0 {
		err = fmt.Errorf("%d operations that are due could not be driven, the first because of: %w", failed, done.Fault)
	}
	return err
}

// note tells executions when rounds look. Without it they go on by themselves.
func (j *Janitor) note(ctx context.Context, began time.Time, repeats bool) {
	if err := j.core.notes.PutRound(ctx, broker.RoundNote{Began: began, Repeats: repeats}); err != nil {
		j.core.parts.Logger.WarnContext(ctx, "the note of this round cannot be written", "error", err.Error())
	}
}

// due reports whether the client's catalog is to be fetched, and counts it then.
func (j *Janitor) due(client string, every time.Duration) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	now := j.core.parts.Now()
	if last, ok := j.fetched[client]; ok && now.Sub(last) < every {
		return false
	}
	j.fetched[client] = now
	return true
}

// audit audits all clients, or those for which it is due. What failed is due at the next call of the schedule, an hour
// later.
func (j *Janitor) audit(ctx context.Context, now *assembly, due bool) error {
	auditor := broker.NewAuditor(broker.AuditorOptions{
		Audit: now.Broker.Audit, Store: j.core.notes, Now: j.core.parts.Now, Logger: j.core.parts.Logger, Early: auditEarly,
	})
	if due {
		return auditor.AuditDue(ctx, now.Clients())
	}
	return auditor.AuditNow(ctx, now.Clients())
}
