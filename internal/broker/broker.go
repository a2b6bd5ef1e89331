package broker

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/ferry-broker/ferry/internal/lifecycle"
)

// Options are what a Broker is made of. Store, Backends, Catalog and Workflow are
// mandatory.
type Options struct {
	Store Store
	// Backends holds each client's Cloud Foundry by the client's name.
	Backends map[string]Backend
	Catalog  Catalog
	Workflow Workflow

	Now func() time.Time
	// Sleep waits for the time to pass or the context to end.
	Sleep  func(context.Context, time.Duration) error
	Random io.Reader
	Logger *slog.Logger
	// Observer is told of operations; nil for nobody.
	Observer Observer

	Pace lifecycle.Pace
	// Deadline of an operation whose plan names none; TombstoneTTL of a tombstone.
	Deadline, TombstoneTTL time.Duration
	// SettleAfter is how long a call of unknown fate may still take effect.
	SettleAfter time.Duration
	// RequestBudget is how long a held request may take, for the workflow's delay.
	RequestBudget time.Duration
	// CallTimeout is the time a call has from its intent; never above SettleAfter.
	CallTimeout time.Duration
	// Process is unique to this process. OnlyProcess says that no other process can drive
	// operations of this store, so that leases of others are those of the dead.
	Process     string
	OnlyProcess bool
	// ClaimFirst lets creates and binds begin with the claim, where a read before it
	// costs a call of its own; where reading is cheap, duplicates are cheaper without.
	ClaimFirst bool
	// Outages keeps warnings of an unreachable Cloud Foundry apart; whoever warns of
	// the same thing shares it. Nil: one of the broker's own.
	Outages *Throttle
}

// Observer is told what operations do, for figures.
type Observer interface {
	OperationStarted(kind, verb string)
	OperationEnded(kind, verb, state string, took time.Duration)
}

// Broker carries the use cases out. It may be used concurrently.
type Broker struct {
	Options
	// held are the operations that duplicates of held requests drive.
	held *turns
	// lookTimeout bounds a look-up. It changes nothing, so SettleAfter does not bound it:
	// what is merely slow is no outage.
	lookTimeout time.Duration
}

// New returns a Broker. Missing times get the defaults of the configuration file.
func New(o Options) *Broker {
	o.Random = or[io.Reader](o.Random, rand.Reader)
	o.Logger = or(o.Logger, slog.New(slog.DiscardHandler))
	o.Observer = or[Observer](o.Observer, nobody{})
	o.Pace.First, o.Pace.Max = positive(o.Pace.First, 2*time.Second), positive(o.Pace.Max, time.Minute)
	o.Deadline = positive(o.Deadline, 168*time.Hour)
	o.TombstoneTTL = positive(o.TombstoneTTL, 192*time.Hour)
	o.SettleAfter = positive(o.SettleAfter, 20*time.Minute)
	o.RequestBudget = positive(o.RequestBudget, 26*time.Second)
	lookTimeout := positive(o.CallTimeout, time.Minute)
	// A call must have ended before it is believed to have no effect any more.
	o.CallTimeout = min(lookTimeout, o.SettleAfter)
	if o.Sleep == nil {
		o.Sleep = Sleep
	}
	o.Outages = or(o.Outages, NewThrottle(time.Minute))
	return &Broker{Options: o, held: newTurns(), lookTimeout: lookTimeout}
}

func or[T comparable](v, otherwise T) T {
	var zero T
	if v == zero {
		return otherwise
	}
	return v
}

func positive(d, otherwise time.Duration) time.Duration {
	if d > 0 {
		return d
	}
	return otherwise
}

// Sleep waits for the time to pass, or returns the context's error once that ends.
func Sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

type nobody struct{}

func (nobody) OperationStarted(string, string)                      {}
func (nobody) OperationEnded(string, string, string, time.Duration) {}

// backend returns the client's Cloud Foundry.
func (b *Broker) backend(client string) (Backend, error) {
	if backend, ok := b.Backends[client]; ok {
		return backend, nil
	}
	return nil, fmt.Errorf("client %q is not configured", client)
}

// operationID makes an operation string: its kind, readable, and 128 random bits.
func (b *Broker) operationID(kind string) (string, error) {
	s, err := b.random(16)
	if err != nil {
		return "", err
	}
	return kind + "-" + hex.EncodeToString(s), nil
}

func (b *Broker) token() (string, error) {
	s, err := b.random(8)
	return hex.EncodeToString(s), err
}

func (b *Broker) random(n int) ([]byte, error) {
	s := make([]byte, n)
	if _, err := io.ReadFull(b.Random, s); err != nil {
		return nil, fmt.Errorf("random bytes: %w", err)
	}
	return s, nil
}

// elapsed is how long the record's operation has run.
func (b *Broker) elapsed(r Record) time.Duration {
	return max(0, b.Now().Sub(r.Lifecycle.Operation.Started))
}

// retryAfter is the number that the operation's driver waits by. Past the deadline its
// end is due at any moment.
func (b *Broker) retryAfter(r Record) int {
	if !b.Now().Before(r.Lifecycle.Operation.Deadline) {
		return lifecycle.Seconds(b.Pace.First)
	}
	return lifecycle.Seconds(b.bounded(r, b.Pace.WaitOf(r.Lifecycle, b.Now())))
}
