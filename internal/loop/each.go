package loop

import (
	"context"
	"sync"

	"github.com/ferry-broker/ferry/internal/broker"
)

// OneByOne advances each operation of a crowd by itself.
type OneByOne struct{ broker.Advancer }

// AdvanceAll implements broker.CrowdAdvancer.
func (o OneByOne) AdvanceAll(ctx context.Context, operations []broker.Unfinished, ended func(int, broker.Step, error)) {
	var all sync.WaitGroup
	for i, u := range operations {
		all.Go(func() {
			step, err := o.tick(ctx, u)
			ended(i, step, err)
		})
	}
	all.Wait()
}

func (o OneByOne) tick(ctx context.Context, u broker.Unfinished) (step broker.Step, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = broker.Recovered(p)
		}
	}()
	return o.Advance(ctx, u.Key, u.Operation)
}
