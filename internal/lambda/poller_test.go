package lambda

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ferry-broker/ferry/internal/broker"
	"github.com/ferry-broker/ferry/internal/setup"
	"github.com/ferry-broker/ferry/internal/sfn"
)

// steps is an operation that waits as told, and then is done.
type steps struct {
	waits []time.Duration
	fails int // the step, from 1, that fails
	made  int
}

var errStep = errors.New("no step")

func (s *steps) Advance(context.Context, broker.Key, string) (broker.Step, error) {
	s.made++
	if s.made == s.fails {
		return broker.Step{}, errStep
	}
	if s.made > len(s.waits) {
		return broker.Step{Done: true}, nil
	}
	return broker.Step{Wait: s.waits[s.made-1]}, nil
}

// TestShortWaitsAreSpentInTheFunction: a turn of the state machine costs more.
func TestShortWaitsAreSpentInTheFunction(t *testing.T) {
	t.Parallel()
	seconds := func(list ...int) (waits []time.Duration) {
		for _, n := range list {
			waits = append(waits, time.Duration(n)*time.Second)
		}
		return waits
	}
	for name, test := range map[string]struct {
		waits []time.Duration
		fails int
		left  time.Duration // until the context's deadline; 0 for none
		stops bool          // the context ends while it sleeps

		slept []time.Duration
		step  broker.Step
		err   error
	}{
		"what is done is answered at once":               {step: broker.Step{Done: true}},
		"short waits are followed by the next step":      {waits: seconds(2, 2, 3), slept: seconds(2, 2, 3), step: broker.Step{Done: true}},
		"six seconds are a short wait":                   {waits: seconds(6), slept: seconds(6), step: broker.Step{Done: true}},
		"a long wait is the state machine's":             {waits: seconds(2, 7, 1), slept: seconds(2), step: broker.Step{Wait: 7 * time.Second}},
		"fifteen seconds in all":                         {waits: seconds(5, 5, 5, 1), slept: seconds(5, 5, 5), step: broker.Step{Wait: time.Second}},
		"a step that wants no wait gets a second":        {waits: seconds(0, 0), slept: seconds(1, 1), step: broker.Step{Done: true}},
		"a step that fails fails the whole":              {waits: seconds(1, 1), fails: 2, slept: seconds(1), err: errStep},
		"no step begins without time for its calls":      {waits: seconds(2, 2), left: 121 * time.Second, step: broker.Step{Wait: 2 * time.Second}},
		"a step begins with time enough for its calls":   {waits: seconds(2), left: 125 * time.Second, slept: seconds(2), step: broker.Step{Done: true}},
		"a function that ends leaves the wait to others": {waits: seconds(2), stops: true, slept: seconds(2), step: broker.Step{Wait: 2 * time.Second}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			now := time.Now()
			var slept []time.Duration
			p := &Poller{core: &core{parts: setup.Parts{Now: func() time.Time { return now }}}}
			p.sleep = func(_ context.Context, d time.Duration) error {
				slept, now = append(slept, d), now.Add(d)
				if test.stops {
					return context.Canceled
				}
				return nil
			}
			ctx := t.Context()
			if test.left > 0 {
				var cancel context.CancelFunc
				ctx, cancel = context.WithDeadline(ctx, now.Add(test.left))
				defer cancel()
			}
			by := &steps{waits: test.waits, fails: test.fails}
			step, err := p.advance(ctx, by, broker.Key{}, "create-1")
			if !errors.Is(err, test.err) || step != test.step {
				t.Errorf("%+v, %v; want %+v, %v", step, err, test.step, test.err)
			}
			if diff := cmp.Diff(test.slept, slept); diff != "" {
				t.Errorf("slept (-want +got):\n%s", diff)
			}
		})
	}
}

func TestTheErrorsOfThePoller(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	tick := sfn.NewTick(broker.Start{Key: broker.Key{Client: "demo", InstanceID: "i"}, Operation: "create-1"})
	_, err := h.poller.Handle(t.Context(), sfn.Tick{Client: "demo"})
	if _, ok := errors.AsType[*BadInput](err); !ok {
		t.Errorf("%v, want *BadInput", err)
	}
	h.table.set(errDown, nil)
	_, err = h.poller.Handle(t.Context(), tick)
	if _, ok := errors.AsType[*TickFailed](err); !ok {
		t.Errorf("%v, want *TickFailed", err)
	}
	h.configure(nil, errDown)
	_, err = h.poller.Handle(t.Context(), tick)
	if _, ok := errors.AsType[*NoConfiguration](err); !ok {
		t.Errorf("%v, want *NoConfiguration", err)
	}
}

// deadlines is a table that keeps by when each read was to end.
type deadlines struct {
	*table
	ends []time.Time
}

func (d *deadlines) Get(ctx context.Context, key broker.Key) (broker.Record, error) {
	d.note(ctx)
	return d.table.Get(ctx, key)
}

func (d *deadlines) GetAll(ctx context.Context, keys []broker.Key) ([]broker.Got, error) {
	d.note(ctx)
	return d.table.GetAll(ctx, keys)
}

func (d *deadlines) note(ctx context.Context) {
	deadline, _ := ctx.Deadline()
	d.ends = append(d.ends, deadline)
}

// TestThePollerLeavesTimeForItsNotes: twelve seconds before Lambda ends the function. The tick is that of events/,
// which is what the workflow sends.
func TestThePollerLeavesTimeForItsNotes(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	seen := &deadlines{table: h.table}
	h.poller.core.parts.Store = seen
	deadline := time.Now().Add(time.Minute)
	ctx, cancel := context.WithDeadline(t.Context(), deadline)
	defer cancel()
	tick := read[sfn.Tick](t, "tick")
	key, err := tick.Key()
	if want := sfn.NewTick(broker.Start{Key: key, Operation: tick.Operation}); err != nil || want != tick {
		t.Errorf("the event is %+v, the workflow would send %+v (%v)", tick, want, err)
	}
	for name, ctx := range map[string]context.Context{"with a deadline": ctx, "without one": t.Context()} {
		if next, err := h.poller.Handle(ctx, tick); err != nil || !next.Done {
			t.Errorf("%s: %+v, %v; want the end of an operation that nobody knows", name, next, err)
		}
	}
	slices.SortFunc(seen.ends, time.Time.Compare)
	if diff := cmp.Diff([]time.Time{{}, deadline.Add(-12 * time.Second)}, seen.ends); diff != "" {
		t.Errorf("the ticks end (-want +got):\n%s", diff)
	}
}
