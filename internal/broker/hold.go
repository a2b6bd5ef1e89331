package broker

import (
	"context"
	"time"

	"github.com/ferry-broker/ferry/internal/osb"
)

// pause grows while a request is held: the first looks come quickly, since most
// backing brokers answer at once.
type pause struct{ d time.Duration }

func newPause() *pause { return &pause{d: 20 * time.Millisecond} }

func (p *pause) next() time.Duration {
	d := p.d
	p.d = min(p.d*8/5, time.Second)
	return d
}

// hold keeps a request until the operation has ended or the context has. The
// request that claimed the operation drives it; a duplicate waits on the record.
func (b *Broker) hold(ctx context.Context, key Key, operation string, drive bool) (Record, error) {
	driver, err := b.token()
	if err != nil {
		return Record{}, err
	}
	pause := newPause()
	for {
		if !drive || !b.drive(ctx, key, operation, driver) {
			rec, err := b.read(ctx, key)
			if err != nil && ctx.Err() != nil {
				return Record{}, outOfTime(err)
			}
			if err != nil {
				return Record{}, err
			}
			if !rec.Lifecycle.Running(operation) {
				return rec, verdict(rec, operation)
			}
		}
		if err := b.Sleep(ctx, pause.next()); err != nil {
			return Record{}, outOfTime(err)
		}
	}
}

// drive does one tick inline and reports whether the operation runs on, as far as the
// tick knows, which has read the record. Its calls end with the request's budget.
func (b *Broker) drive(ctx context.Context, key Key, operation, driver string) bool {
	step, err := b.tick(ctx, key, operation, b.Process+"/"+driver)
	return err == nil && !step.Done
}

// verdict turns the end of a held operation into nil or the refusal to answer with.
func verdict(rec Record, operation string) error {
	f, known := rec.Lifecycle.Result(operation)
	switch {
	case known && f.Succeeded:
		if rec.Lifecycle.Operation.ID != operation {
			return cancelled() // it ended well, and was deleted or made again since
		}
		return nil
	case !known || rec.Lifecycle.Operation.ID != operation:
		return cancelled()
	case f.Code == osb.RequiresApp:
		return refuse(CodeRequiresApp, "Bind the service to an application instead of creating a service key.")
	default:
		return refuse(CodeBackend, "%s", f.Description)
	}
}

func cancelled() error {
	return refuse(CodeConcurrency, "The service binding was changed by another request while this one was waiting. Send the request again once that has ended.")
}
