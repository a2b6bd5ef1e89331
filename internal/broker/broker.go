// Package broker holds Ferry's use cases, one verb a file, and the ports that they need: Store, Backend, Catalog,
// Workflow.
//
// A request reads the record, asks lifecycle.Next, makes at most one conditional write and answers from the record, or
// begins with the write (Options.ClaimFirst). What waits for Cloud Foundry, as a synchronous bind or a fetch does, asks
// BeginWaiting first. Advance does one step of one operation. The order of writes and calls is that of
// docs/protocol.md.
//
// A Broker may be used by any number of goroutines and processes at once.
package broker

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/ferry-broker/ferry/internal/lifecycle"
)

// Options are what a Broker is made of. Store, Backends, Catalog, Workflow and Now are mandatory.
type Options struct {
	Store Store
	// Backends holds each client's Cloud Foundry by the client's name.
	Backends map[string]Backend
	Catalog  Catalog
	Workflow Workflow

	Now func() time.Time
	// Sleep waits for the time to pass or the context to end; nil: Sleep of this package.
	Sleep func(context.Context, time.Duration) error
	// Random is crypto/rand when it is nil.
	Random io.Reader
	// Logger is nil for none.
	Logger *slog.Logger
	// Observer is told of operations; nil for nobody.
	Observer Observer

	// The times that are not positive get the defaults of the configuration file.

	Pace lifecycle.Pace
	// Deadline of an operation whose plan names none; TombstoneTTL of a tombstone.
	Deadline, TombstoneTTL time.Duration
	// SettleAfter is how long a call of unknown fate may still take effect.
	SettleAfter time.Duration
	// RequestBudget is how long a held request may take, for the workflow's delay.
	RequestBudget time.Duration
	// CallTimeout is the time a call has from its intent; never above SettleAfter.
	CallTimeout time.Duration
	// Process is unique to this process. OnlyProcess says that no other process can drive operations of this store, so
	// that leases of others are those of the dead.
	Process     string
	OnlyProcess bool
	// ClaimFirst lets creates and binds begin with the claim, where a read before it costs a call of its own; where
	// reading is cheap, duplicates are cheaper without.
	ClaimFirst bool
	// Swept says that rounds of Sweep take up every operation that is due, so that the workflow has to drive it at its
	// beginning only, and need not be started for one whose request is held.
	Swept bool
	// Outages keeps warnings of an unreachable Cloud Foundry apart; whoever warns of the same thing shares it. Nil: one
	// of the broker's own.
	Outages *Throttle
}

// Broker carries the use cases out. It may be used concurrently.
type Broker struct {
	*parts
	driver  *driver
	holder  *holder
	janitor *janitor
	sweeper *sweeper
}

// parts is what requests, drivers and the janitor of one Broker share.
type parts struct {
	records    records
	backends   backends
	catalog    plans
	operations *operations
	clock      *clock
	random     random
	logger     *slog.Logger
	claimFirst bool
	// next is lifecycle.Next; tests wrap it to switch safeguards off.
	next func(lifecycle.Record, lifecycle.Event) (lifecycle.Decision, error)
}

// New returns a Broker.
func New(o Options) *Broker {
	p := &parts{
		backends: o.Backends, catalog: plans{o.Catalog}, clock: newClock(o), random: random{or[io.Reader](o.Random, rand.Reader)},
		logger: or(o.Logger, slog.New(slog.DiscardHandler)), claimFirst: o.ClaimFirst, next: lifecycle.Next,
	}
	p.records = records{store: o.Store, random: p.random}
	p.operations = &operations{
		workflow: o.Workflow, observer: or[Observer](o.Observer, nobody{}), logger: p.logger, clock: p.clock,
	}
	d := &driver{
		parts: p, process: o.Process, onlyProcess: o.OnlyProcess, outages: or(o.Outages, NewThrottle(time.Minute)),
		acting: newPlaces(mostActing),
	}
	j := &janitor{p}
	return &Broker{
		parts: p, driver: d, holder: &holder{parts: p, driver: d, turns: newTurns()}, janitor: j,
		sweeper: &sweeper{parts: p, driver: d, janitor: j},
	}
}

func or[T comparable](v, otherwise T) T {
	var zero T
	if v == zero {
		return otherwise
	}
	return v
}

// nobody is the Observer of those who have none.
type nobody struct{}

// OperationStarted implements Observer.
func (nobody) OperationStarted(string, string) {}

// OperationEnded implements Observer.
func (nobody) OperationEnded(string, string, string, time.Duration) {}

var (
	_ Advancer      = (*Broker)(nil)
	_ CrowdAdvancer = (*Broker)(nil)
)

// Advance does one tick of the operation: read, look up, decide, write, send (docs/protocol.md section 3). It may run
// twice, late, or beside another one.
//
// Step.Done is true once the operation has ended or is not the current one. An error means that the store, or something
// of our own, is out of order.
func (b *Broker) Advance(ctx context.Context, key Key, operation string) (Step, error) {
	return b.driver.tick(ctx, key, operation, "workflow")
}

// AdvanceAll implements CrowdAdvancer. The records are read in one call before anything is looked for, so that one list
// may serve all (docs/protocol.md 3.9). Of those that have something to do, 32 do it at once.
func (b *Broker) AdvanceAll(ctx context.Context, operations []Unfinished, ended func(i int, step Step, err error)) {
	b.driver.tickAll(ctx, crowd{
		operations: operations, ended: func(i int, done ticked, err error) { ended(i, done.Step, err) },
	})
}

// Sweep is a round: it drives every operation that is due (Options.Swept), and again as often as the pace of each asks
// for, until the time until. A Cloud Foundry that hangs holds up its own client alone. Any number of rounds may run at
// once, and any may die at any point.
//
// It calls repeats once it has looked for the first time, with whether it goes on until then, or ends at once because
// nothing needs another look so soon. The error is that of the list of what is due; what was listed is driven
// nevertheless, and repeats is not called. What failed is one line in the log.
func (b *Broker) Sweep(ctx context.Context, until time.Time, repeats func(bool)) (Round, error) {
	return b.sweeper.round(ctx, until, repeats)
}

// Restart starts the workflow again of every operation that is overdue, with so many workers, until all are done or ctx
// ends. Clients take turns, oldest first within each; one that cannot be restarted keeps nobody from it. The number of
// the restart is stored before the workflow is asked, so that no name is ever used twice (docs/protocol.md section 9).
// The error is that of the list; what was listed before is restarted nevertheless. What failed is one line in the log.
func (b *Broker) Restart(ctx context.Context, workers int) (Round, error) {
	return b.janitor.restartOverdue(ctx, workers)
}

// Resume starts the workflow of every unfinished operation of the store, for a process that has just taken the store
// over, and returns how many. It writes nothing: an in-process workflow forgets with its process. What the store cannot
// read it passes over, with a line in the log; the janitor goes on trying.
func (b *Broker) Resume(ctx context.Context) (int, error) { return b.janitor.resumeAll(ctx) }

// Audit looks for what came into being later than any call is believed to take: it lists the rows of Cloud Foundry that
// carry our marks, then reads each record, and removes by its GUID a row whose operation is over and which is not the
// living incarnation (docs/protocol.md section 9). A row that it cannot judge it leaves alone. The error is that of the
// list or of the store; what was done is counted.
func (b *Broker) Audit(ctx context.Context, client string) (Audited, error) {
	return b.janitor.audit(ctx, client)
}

// random makes what nobody can guess.
type random struct{ io.Reader }

// operationID makes an operation string: its kind, readable, and 128 random bits.
func (r random) operationID(kind string) (string, error) {
	s, err := r.bytes(16)
	if err != nil {
		return "", err
	}
	return kind + "-" + hex.EncodeToString(s), nil
}

// token makes the name of a write, or of a driver.
func (r random) token() (string, error) {
	s, err := r.bytes(8)
	return hex.EncodeToString(s), err
}

// salt makes the key of a record's digests.
func (r random) salt() ([]byte, error) { return r.bytes(16) }

func (r random) bytes(n int) ([]byte, error) {
	s := make([]byte, n)
	if _, err := io.ReadFull(r.Reader, s); err != nil {
		return nil, fmt.Errorf("random bytes: %w", err)
	}
	return s, nil
}

// backends are the clients' Cloud Foundries by the name of the client.
type backends map[string]Backend

func (b backends) of(client string) (Backend, error) {
	if backend, ok := b[client]; ok {
		return backend, nil
	}
	return nil, fmt.Errorf("client %q is not configured", client)
}

// inPlace returns nil when the client points at the Cloud Foundry and the org that the record was made in, an
// *elsewhereError when at another one, and any other error when that cannot be known now.
func (b backends) inPlace(ctx context.Context, rec Record) error {
	was := rec.Lifecycle.Place
	if was == (Place{}) {
		return nil
	}
	backend, err := b.of(rec.Key.Client)
	if err != nil {
		return err
	}
	is, err := backend.Place(ctx) // which also lets the org be known, by which Same compares
	if err != nil || backend.Same(was) {
		return err
	}
	return &elsewhereError{was: was, is: is}
}

// elsewhereError says that the client is pointed at another Cloud Foundry or org than the one that a record's rows are
// in: nothing follows from what is absent there.
type elsewhereError struct{ was, is Place }

// Error tells the operator both places, and what to do.
func (e *elsewhereError) Error() string {
	return fmt.Sprintf("it was made in the org %s of %s, and the configuration names the org %s of %s: "+
		"correct cloud_foundry.api and org, or name the former address of the same Cloud Foundry in cloud_foundry.former_apis",
		e.was.OrgGUID, e.was.API, e.is.OrgGUID, e.is.API)
}

// UserText implements UserTexter.
func (*elsewhereError) UserText() string { return lifecycle.Elsewhere }

// elsewhere reports whether the error is, or wraps, an *elsewhereError.
func elsewhere(err error) bool {
	_, is := errors.AsType[*elsewhereError](err)
	return is
}
