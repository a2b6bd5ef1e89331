package broker

import (
	"context"
	"errors"
	"log/slog"

	"github.com/ferry-broker/ferry/internal/lifecycle"
)

// Audited counts what an audit saw.
type Audited struct {
	// Seen rows carry our marks. Removed ones belonged to operations that are over.
	// Unknown ones have no record at all, or one that knows neither their operation nor
	// their GUID; they are only reported.
	Seen, Removed, Unknown int
}

// Audit looks for what came into being later than any call is believed to take: it
// lists the rows of Cloud Foundry that carry our marks, then reads each record, and
// removes by its GUID a row whose operation is over and which is not the living
// incarnation (docs/protocol.md section 9). A row that it cannot judge it leaves
// alone. The error is that of the list or of the store; what was done is counted.
func (b *Broker) Audit(ctx context.Context, client string) (Audited, error) {
	var a Audited
	backend, err := b.backend(client)
	if err != nil {
		return a, err
	}
	rows, err := backend.Marked(ctx)
	if err != nil {
		return a, err
	}
	for _, row := range rows {
		row.Key.Client = client
		if err := b.auditRow(ctx, backend, row, &a); err != nil {
			return a, err
		}
	}
	return a, nil
}

func (b *Broker) auditRow(ctx context.Context, backend Backend, row Marked, a *Audited) error {
	a.Seen++
	rec, err := b.Store.Get(ctx, row.Key)
	if errors.Is(err, ErrNotFound) {
		a.Unknown++
		b.logRow(ctx, slog.LevelWarn, "Cloud Foundry has something with our marks that no record knows", row)
		return nil
	}
	if err != nil {
		return err
	}
	if l := rec.Lifecycle; !l.State.Busy() && !l.OwnsRow(row.GUID) && !l.KnowsOperation(row.Operation) {
		a.Unknown++
		b.logRow(ctx, slog.LevelWarn, "Cloud Foundry has something with our marks of an operation that the record does not know", row)
		return nil
	}
	if !leftover(rec.Lifecycle, row) {
		return nil
	}
	answer, err := remove(ctx, backend, row)
	if answer.Reply == lifecycle.ReplyAccepted || answer.Reply == lifecycle.ReplyDone {
		a.Removed++
	}
	b.logRow(ctx, slog.LevelInfo, "a leftover of an operation that is over is removed", row,
		slog.String("reply", string(answer.Reply)), errorAttr(err))
	return nil
}

// leftover reports whether the row, which the record knows, is not what it stands for.
// While an operation runs it looks after rows itself. The row with the recorded GUID is
// what it stands for whatever its marks say: anybody may change them in Cloud Foundry.
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

func (b *Broker) logRow(ctx context.Context, level slog.Level, text string, row Marked, more ...slog.Attr) {
	b.Logger.LogAttrs(ctx, level, text, keyAttrs(row.Key, append(more,
		slog.String("guid", row.GUID), slog.String("operation", row.Operation), slog.Bool("by_name", row.ByName))...)...)
}

// errorAttr is empty, and left out by handlers, when there is no error.
func errorAttr(err error) slog.Attr {
	if err == nil {
		return slog.Attr{}
	}
	return slog.String("error", err.Error())
}
