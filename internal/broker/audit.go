package broker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/ferry-broker/ferry/internal/lifecycle"
)

// AuditorOptions are what an Auditor is made of. Audit, Store, Now and Logger are mandatory.
type AuditorOptions struct {
	// Audit is Broker.Audit.
	Audit func(ctx context.Context, client string) (Audited, error)
	Store AuditStore
	Now   func() time.Time
	// Logger gets one line for each audit: INFO "audit completed" or WARN "audit failed".
	Logger *slog.Logger
	// Ended is told the result of each audit; nil for nobody.
	Ended func(result string)
	// After is how long after NewAuditor no audit is due, and Retry how long after one that failed; 0 where calls come
	// that far apart.
	After, Retry time.Duration
	// Early is how long before its day is over an audit is due: half of the time between two calls, so that a day does
	// not become a day and a call.
	Early time.Duration
}

// The results of an audit that AuditorOptions.Ended is told.
const (
	AuditCompleted = "completed"
	AuditFailed    = "failed"
)

const (
	// auditEvery is how long after a completed audit the next one is due.
	auditEvery = 24 * time.Hour
	// auditTime bounds the audit of one client.
	auditTime = 15 * time.Minute
	// sideBySide is how many clients are served at once.
	sideBySide = 8
)

// Auditor audits clients when that is due: a day after each client's last completed audit, whose time is stored. It may
// be used concurrently.
type Auditor struct {
	options AuditorOptions
	made    time.Time

	mu sync.Mutex
	// failed is when a client's audit failed the last time here.
	failed map[string]time.Time
}

// NewAuditor returns an Auditor that calls nobody yet.
func NewAuditor(o AuditorOptions) *Auditor {
	if o.Ended == nil {
		o.Ended = func(string) {}
	}
	return &Auditor{options: o, made: o.Now(), failed: map[string]time.Time{}}
}

// AuditDue audits those clients whose audit is due, and returns why audits failed, or when they were due could not be
// read. That is logged already.
func (a *Auditor) AuditDue(ctx context.Context, clients []string) error {
	return SideBySide(clients, func(client string) error {
		if !a.mayBeDue(client) {
			return nil
		}
		last, err := a.options.Store.LastAudit(ctx, client)
		if err != nil {
			return a.end(ctx, client, Audited{}, err)
		}
		now := a.options.Now()
		// A last audit that is yet to come is the word of a clock that was wrong.
		if !last.After(now) && now.Before(last.Add(auditEvery-a.options.Early)) {
			return nil
		}
		return a.audit(ctx, client)
	})
}

// AuditNow audits the clients, due or not, and returns why audits failed.
func (a *Auditor) AuditNow(ctx context.Context, clients []string) error {
	return SideBySide(clients, func(client string) error { return a.audit(ctx, client) })
}

// mayBeDue reads what is known without the store.
func (a *Auditor) mayBeDue(client string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	now := a.options.Now()
	failed, ok := a.failed[client]
	return !now.Before(a.made.Add(a.options.After)) && (!ok || !now.Before(failed.Add(a.options.Retry)))
}

func (a *Auditor) audit(ctx context.Context, client string) error {
	limited, cancel := context.WithTimeout(ctx, auditTime)
	defer cancel()
	var audited Audited
	err := panicAsError(func() (err error) {
		if audited, err = a.options.Audit(limited, client); err != nil {
			return err
		}
		return a.options.Store.PutLastAudit(ctx, client, a.options.Now())
	})
	return a.end(ctx, client, audited, err)
}

// end notes and logs what became of an audit; the stack on AWS counts these lines. One that the end of the process cut
// short has not failed.
func (a *Auditor) end(ctx context.Context, client string, audited Audited, err error) error {
	if err != nil && ctx.Err() != nil {
		return err
	}
	level, text, result := slog.LevelInfo, "audit completed", AuditCompleted
	if err != nil {
		level, text, result = slog.LevelWarn, "audit failed", AuditFailed
	}
	a.note(client, err != nil)
	a.options.Logger.LogAttrs(ctx, level, text, slog.String("client", client), slog.Int("seen", audited.Seen),
		slog.Int("removed", audited.Removed), slog.Int("unknown", audited.Unknown), errorAttr(err), stackAttr(err))
	a.options.Ended(result)
	if err != nil {
		return fmt.Errorf("audit of client %s: %w", client, err)
	}
	return nil
}

func (a *Auditor) note(client string, failed bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if delete(a.failed, client); failed {
		a.failed[client] = a.options.Now()
	}
}

// SideBySide calls f for each name, some at once, so that one which waits for its Cloud Foundry keeps few from theirs.
// It returns the errors joined; a panic is one that names the type of its value.
func SideBySide(names []string, f func(name string) error) error {
	var mu sync.Mutex
	var failed error
	next := make(chan string, len(names))
	for _, name := range names {
		next <- name
	}
	close(next)
	inParallel(max(1, min(sideBySide, len(names))), func() {
		for name := range next {
			err := panicAsError(func() error { return f(name) })
			mu.Lock()
			failed = errors.Join(failed, err)
			mu.Unlock()
		}
	})
	return failed
}

// Audited counts what an audit saw.
type Audited struct {
	// Seen rows carry our marks. Removed ones belonged to operations that are over. Unknown ones have no record at all,
	// or one that knows neither their operation nor their GUID; they are only reported.
	Seen, Removed, Unknown int
}

// audit is Broker.Audit.
func (j *janitor) audit(ctx context.Context, client string) (Audited, error) {
	var a Audited
	backend, err := j.backends.of(client)
	if err != nil {
		return a, err
	}
	rows, err := backend.Marked(ctx)
	if err != nil {
		return a, err
	}
	for _, row := range rows {
		row.Key.Client = client
		if err := j.auditRow(ctx, backend, row, &a); err != nil {
			return a, err
		}
	}
	return a, nil
}

func (j *janitor) auditRow(ctx context.Context, backend Backend, row Marked, a *Audited) error {
	a.Seen++
	rec, err := j.records.store.Get(ctx, row.Key)
	if errors.Is(err, ErrNotFound) {
		a.Unknown++
		j.logRow(ctx, slog.LevelWarn, "Cloud Foundry has something with our marks that no record knows", row)
		return nil
	}
	if err != nil {
		return err
	}
	if l := rec.Lifecycle; !l.State.Busy() && !l.OwnsRow(row.GUID) && !l.KnowsOperation(row.Operation) {
		a.Unknown++
		j.logRow(ctx, slog.LevelWarn, "Cloud Foundry has something with our marks of an operation that the record does not know", row)
		return nil
	}
	if !leftover(rec.Lifecycle, row) {
		return nil
	}
	answer, err := remove(ctx, backend, row)
	if answer.Reply == lifecycle.ReplyAccepted || answer.Reply == lifecycle.ReplyDone {
		a.Removed++
	}
	j.logRow(ctx, slog.LevelInfo, "a leftover of an operation that is over is removed", row,
		slog.String("reply", string(answer.Reply)), errorAttr(err))
	return nil
}

// leftover reports whether the row, which the record knows, is not what it stands for. While an operation runs it looks
// after rows itself. The row with the recorded GUID is what it stands for whatever its marks say: anybody may change
// them in Cloud Foundry.
func leftover(r lifecycle.Record, row Marked) bool {
	switch {
	case r.State.Busy():
		return false
	case !r.State.Living(), r.State == lifecycle.CreateFailed:
		return true
	case r.CFGUID != "":
		return r.CFGUID != row.GUID
	default:
		return r.CreateOp.ID != row.Operation
	}
}

func remove(ctx context.Context, backend Backend, row Marked) (Answer, error) {
	if row.Key.BindingID != "" {
		return backend.DeleteKey(ctx, row.GUID)
	}
	return backend.DeleteInstance(ctx, row.GUID)
}

func (j *janitor) logRow(ctx context.Context, level slog.Level, text string, row Marked, more ...slog.Attr) {
	j.logger.LogAttrs(ctx, level, text, keyAttrs(row.Key, append(more,
		slog.String("guid", row.GUID), slog.String("operation", row.Operation), slog.Bool("by_name", row.ByName))...)...)
}
