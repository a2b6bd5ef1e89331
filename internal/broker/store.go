package broker

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Store keeps records. All its reads are strongly consistent, all its writes touch
// one record, and writes on one record are linearizable. It may be called by any
// number of goroutines and, where several processes share it, by all of them.
type Store interface {
	// Get returns the record, or ErrNotFound for one that was never stored or has
	// expired, however late the store deletes it.
	Get(ctx context.Context, key Key) (Record, error)
	// Put stores record with Revision revision+1 on condition that the stored one
	// (absent and expired count as 0) has the given revision, and returns what it
	// stored. When it returns nil the record is durable. Refused: the record now
	// stored (its Revision is 0 when there is none) and ErrConflict. Any other
	// error leaves open whether the write happened. An expired record that Put
	// writes over is gone as if it had never been.
	Put(ctx context.Context, record Record, revision int64) (Record, error)
	// Bindings returns the unexpired records of the instance's bindings, in no order.
	Bindings(ctx context.Context, instance Key) ([]Record, error)
	// Unfinished returns up to limit operations whose Due is not after due, oldest
	// first. It begins behind the page whose Next is given as after; "" begins with
	// the oldest. An operation that stays due at the same time meanwhile is on exactly
	// one page, whatever becomes of those before it. It may lag behind: callers read
	// the record again before they act.
	Unfinished(ctx context.Context, due time.Time, after string, limit int) (UnfinishedPage, error)
}

// UnfinishedPage is a part of what Store.Unfinished lists.
type UnfinishedPage struct {
	Operations []Unfinished
	// Next is where the following page begins, in the words of the store; empty when
	// nothing followed. The last page may be an empty one.
	Next string
	// Unreadable counts what the store passed over on this page because it could not
	// read it, and Fault is why, for the first of them. They are unfinished as well.
	Unreadable int
	Fault      error
}

// Unfinished names an operation that runs.
type Unfinished struct {
	Key       Key
	Operation string
	Due       time.Time
}

// AuditStore keeps when each client's last audit was completed. Like Store, it is
// strongly consistent, and may be called concurrently.
type AuditStore interface {
	// LastAudit returns when the client's last audit was completed; the zero time when
	// none ever was.
	LastAudit(ctx context.Context, client string) (time.Time, error)
	// PutLastAudit stores that one was completed; when it returns nil that is durable.
	// A time before the stored one changes nothing.
	PutLastAudit(ctx context.Context, client string, at time.Time) error
}

// CatalogStore keeps the last good catalog of each client.
type CatalogStore interface {
	// Catalog returns the stored catalog of the client, or ErrNotFound.
	Catalog(ctx context.Context, client string) (StoredCatalog, error)
	// PutCatalog stores c on condition of the revision, as Store.Put does. A reader
	// never sees a half-written catalog.
	PutCatalog(ctx context.Context, c StoredCatalog, revision int64) (StoredCatalog, error)
}

// StoredCatalog is a client's marketplace as it was fetched.
type StoredCatalog struct {
	Client   string    `json:"client"`
	Revision int64     `json:"revision"`
	Fetched  time.Time `json:"fetched"`
	// Body is the JSON of a Marketplace. A store may compress or split it.
	Body []byte `json:"body"`
}

// LimitError is ErrTooLarge (errors.Is) with the limit.
type LimitError struct{ Bytes int }

// Error names the limit.
func (e *LimitError) Error() string {
	return fmt.Sprintf("the record is larger than the %d bytes that the store can keep", e.Bytes)
}

// Unwrap returns ErrTooLarge.
func (e *LimitError) Unwrap() error { return ErrTooLarge }

// What a store may answer besides faults of its own.
var (
	// ErrNotFound: there is no such record.
	ErrNotFound = errors.New("no such record")
	// ErrConflict: the stored revision is another one.
	ErrConflict = errors.New("the stored revision is another one")
	// ErrTooLarge: the record exceeds what the store can keep; nothing was written.
	ErrTooLarge = errors.New("the record is too large for the store")
)
