package cf

import (
	"context"
	"sync"
)

// shared makes one call for many that want its answer at the same time. What a caller
// gets was always asked for after the caller came: who comes while a call runs shares
// the next one.
type shared[T any] struct {
	mu      sync.Mutex
	running *round[T]
	next    *round[T] // begins when running has ended
}

// round is one call; value and err are set before done closes.
type round[T any] struct {
	done  chan struct{}
	value T
	err   error
}

func (s *shared[T]) get(ctx context.Context, call func(context.Context) (T, error)) (T, error) {
	for {
		r, before, mine := s.join()
		if mine {
			s.run(ctx, r, before, call)
		}
		select {
		case <-r.done:
		case <-ctx.Done():
			var none T
			return none, &Error{Call: "wait for a call that is shared", Err: ctx.Err(), unsent: true}
		}
		// Another caller's call that ended with that caller's own time says nothing.
		if mine || !endedByContext(r.err) || ctx.Err() != nil {
			return r.value, r.err
		}
	}
}

// join returns the round that has not begun yet. The caller has to run it when it is
// mine, after the one before has ended.
func (s *shared[T]) join() (r, before *round[T], mine bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.next != nil {
		return s.next, nil, false
	}
	r = &round[T]{done: make(chan struct{})}
	if s.running == nil {
		s.running = r
		return r, nil, true
	}
	s.next = r
	return r, s.running, true
}

func (s *shared[T]) run(ctx context.Context, r, before *round[T], call func(context.Context) (T, error)) {
	defer close(r.done)
	if before != nil {
		select {
		case <-before.done:
		case <-ctx.Done():
			r.err = &Error{Call: "wait for a call that is shared", Err: ctx.Err(), unsent: true}
		}
		s.mu.Lock()
		s.next = nil // nobody joins any more
		if r.err == nil {
			s.running = r
		}
		s.mu.Unlock()
	}
	if r.err == nil {
		r.value, r.err = call(ctx)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.running == r {
		s.running = nil
	}
}
