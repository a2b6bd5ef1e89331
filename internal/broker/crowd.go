package broker

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/ferry-broker/ferry/internal/lifecycle"
)

// mostActing is how many ticks of a crowd of one client write and call at once. Looking is no such thing: one list
// serves all.
const mostActing = 32

// ticked is what became of one operation of a crowd.
type ticked struct {
	Step
	// record is what was read; zero when there was none.
	record Record
	// looked: a tick was made.
	looked bool
	// wrote: the tick had something to do besides waiting.
	wrote bool
}

// crowd says which operations of a client are driven together, and who wants to know.
type crowd struct {
	operations []Unfinished
	// wants reports whether an operation is to be driven now, once its record was read; nil: all are.
	wants func(Record) bool
	// ended is called once for each operation, from any goroutine.
	ended func(i int, done ticked, err error)
}

// tickAll is Broker.AdvanceAll. The order is that of docs/protocol.md 3.9 and 7: the records, the instances of those
// that are bindings, then the look-ups, then the writes, each on the revision that was read.
func (dr *driver) tickAll(ctx context.Context, c crowd) {
	read, err := dr.readAll(ctx, c.operations)
	if err != nil {
		for i := range c.operations {
			c.ended(i, ticked{}, err)
		}
		return
	}
	var group sync.WaitGroup
	for i, u := range c.operations {
		group.Go(func() {
			var done ticked
			err := panicAsError(func() (err error) {
				done, err = dr.tickRead(ctx, u, read, c.wants)
				return err
			})
			c.ended(i, done, err)
		})
	}
	group.Wait()
}

// tickRead does one tick on what was read.
func (dr *driver) tickRead(ctx context.Context, u Unfinished, read crowdRecords, wants func(Record) bool) (done ticked, err error) {
	got := read.own[u.Key]
	switch {
	case errors.Is(got.Err, ErrNotFound):
		return ticked{Step: Step{Done: true}}, nil
	case got.Err != nil:
		return ticked{}, got.Err
	case wants != nil && !wants(got.Record):
		return ticked{record: got.Record}, nil
	}
	t := dr.newTick(got.Record, u.Operation, dr.process+"/workflow")
	t.ReadAt, t.Instance, t.OneOfMany = read.at, read.instanceOf(u.Key), true
	d, err := dr.decide(ctx, got.Record, &t)
	done = ticked{record: got.Record, looked: true, wrote: d.Write}
	if err != nil || d.Outcome != lifecycle.Stopped && !d.Write && d.Effect.Do == lifecycle.Wait {
		done.Wait = or(d.Wait, t.Wait)
		return done, err
	}
	waited, err := dr.acting.take(ctx, u.Key.Client)
	if err != nil {
		return done, err
	}
	defer dr.acting.leave(u.Key.Client)
	if waited { // the time of a call begins now
		if d, err = dr.decide(ctx, got.Record, &t); err != nil {
			return done, err
		}
	}
	done.Step, err = dr.carry(ctx, got.Record, t, d)
	return done, err
}

// crowdRecords are what a crowd has read, before it looked for anything.
type crowdRecords struct {
	// at is when the own records had been read.
	at time.Time
	// own are the records of the operations, instances those of the instances that bindings belong to.
	own, instances map[Key]Got
}

// instanceOf is what the binding has to know of its instance; nil when that was not read.
func (c crowdRecords) instanceOf(key Key) *lifecycle.InstanceView {
	got, known := c.instances[key.Instance()]
	if errors.Is(got.Err, ErrNotFound) {
		got = Got{Record: absent(key.Instance())}
	}
	if key.BindingID == "" || !known || got.Err != nil {
		return nil
	}
	v := view(got.Record)
	return &v
}

// readAll reads the records of the operations, then those of the instances of bindings.
func (dr *driver) readAll(ctx context.Context, operations []Unfinished) (read crowdRecords, err error) {
	own, instances := map[Key]Got{}, map[Key]Got{}
	for _, u := range operations {
		own[u.Key] = Got{}
	}
	if err := dr.records.getAll(ctx, own); err != nil {
		return read, err
	}
	at := dr.clock.now()
	for key, got := range own {
		if key.BindingID != "" && got.Err == nil {
			instances[key.Instance()] = Got{}
		}
	}
	return crowdRecords{at: at, own: own, instances: instances}, dr.records.getAll(ctx, instances)
}

// places lets so many do something at once for each client. They may be used concurrently.
type places struct {
	most int
	mu   sync.Mutex
	// taken are the places of each client.
	taken map[string]chan struct{}
}

func newPlaces(most int) *places { return &places{most: most, taken: map[string]chan struct{}{}} }

func (p *places) of(client string) chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.taken[client] == nil {
		p.taken[client] = make(chan struct{}, p.most)
	}
	return p.taken[client]
}

// take takes a place, and reports whether it had to wait for one. The error is that of the context.
func (p *places) take(ctx context.Context, client string) (waited bool, err error) {
	place := p.of(client)
	select {
	case place <- struct{}{}:
		return false, nil
	default:
	}
	select {
	case place <- struct{}{}:
		return true, nil
	case <-ctx.Done():
		return true, ctx.Err()
	}
}

func (p *places) leave(client string) { <-p.of(client) }
