package cf

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"time"

	"github.com/ferry-broker/ferry/internal/ccapi"
)

// shared makes one call for many callers who ask at the same time, each with a question of its own. The answer that a
// caller gets was always asked for after the caller came (docs/protocol.md 3.9):
//
//   - Who comes when no call runs makes one at once, for its own question.
//   - Who comes while one runs joins the next, which takes the questions of all who wait and begins when the one before
//     has ended. Where they are too many for one call, several calls follow each other.
//   - A call that takes long holds the next one for a while only (see patience). It runs on for those who share it.
//
// A call is made by the first of its callers, in its context, because nothing may run on after the invocation that
// began it. When that context ends the call, the others ask again. Any other error is the error of all of them.
//
// The package singleflight does something else: there, who comes while a call runs is given the answer of that one.
//
// The zero value is ready, and takes any number of questions into one call.
type shared[Q, T any] struct {
	// size is how much room a question takes, and room how much there is in one call. A question that is larger is
	// asked in a call of its own.
	size func(Q) int
	room int
	// patience is how long a call may hold the next one; 0 means usualPatience.
	patience time.Duration

	mu   sync.Mutex
	last *round[Q, T] // the newest that has not ended
}

// usualPatience is longer than a healthy Cloud Foundry takes for a list, and short beside the time that a tick has.
const usualPatience = 2 * time.Second

// errNoAnswer is what is left to those who shared a call that panicked.
var errNoAnswer = errors.New("the call that was shared ended without an answer")

// round is one call. The first group of fields is guarded by the lock until begun is closed, and does not change any
// more then. The second may be read once done is closed.
type round[Q, T any] struct {
	questions []Q
	size      int
	closed    bool          // nobody joins any more
	before    *round[Q, T]  // has to end first; nil when this one has begun
	begun     chan struct{} // closed when it has begun, or never will

	done  chan struct{}
	value T
	err   error
	// abandoned: it ended with the context of the caller who made it, which says nothing to the others.
	abandoned bool
}

// ask returns the answer to the questions of all who ask together, q among them. Where that does not settle q, it is
// asked once more, alone.
func (s *shared[Q, T]) ask(ctx context.Context, q Q, call func(context.Context, []Q) (T, error), settles func(T) bool) (T, error) {
	answer, err := s.get(ctx, q, call)
	if err != nil || settles(answer) {
		return answer, err
	}
	return call(ctx, []Q{q})
}

// alone is what ask is without others.
func alone[Q, T any](ctx context.Context, q Q, call func(context.Context, []Q) (T, error), _ func(T) bool) (T, error) {
	return call(ctx, []Q{q})
}

// get returns the answer to the questions of all who ask together, q among them.
func (s *shared[Q, T]) get(ctx context.Context, q Q, call func(context.Context, []Q) (T, error)) (T, error) {
	for {
		if ctx.Err() != nil {
			var none T
			return none, waitEnded(ctx)
		}
		r, mine := s.join(q)
		if mine {
			s.run(ctx, r, call)
			return r.value, r.err
		}
		select {
		case <-r.done:
		case <-ctx.Done():
			continue
		}
		if !r.abandoned {
			return r.value, r.err
		}
	}
}

func waitEnded(ctx context.Context) error {
	return &ccapi.Error{Call: "wait for a call that is shared", Err: ctx.Err(), Unsent: true}
}

// join puts the question into the round that has not begun yet, if there is room. Otherwise it makes a new one, which
// is the caller's to run.
func (s *shared[Q, T]) join(q Q) (r *round[Q, T], mine bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	size := 0
	if s.size != nil {
		size = s.size(q)
	}
	if r := s.last; r != nil && !r.closed && r.size+size <= s.room {
		r.questions, r.size = append(r.questions, q), r.size+size
		return r, false
	}
	s.last = &round[Q, T]{
		questions: []Q{q}, size: size, before: s.last, begun: make(chan struct{}), done: make(chan struct{}), err: errNoAnswer,
	}
	return s.last, true
}

func (s *shared[Q, T]) run(ctx context.Context, r *round[Q, T], call func(context.Context, []Q) (T, error)) {
	defer s.end(r)
	if !s.begin(ctx, r) {
		r.err, r.abandoned = waitEnded(ctx), true
		return
	}
	r.value, r.err = call(ctx, r.questions)
	r.abandoned = r.err != nil && ctx.Err() != nil
}

// begin waits for the turn of the round, and reports whether it came before the context ended. In both cases nobody
// joins the round any more.
func (s *shared[Q, T]) begin(ctx context.Context, r *round[Q, T]) bool {
	turn := r.turn(ctx, cmp.Or(s.patience, usualPatience))
	s.mu.Lock()
	defer s.mu.Unlock()
	r.closed = true
	if turn {
		r.before = nil
	}
	close(r.begun)
	return turn
}

func (r *round[Q, T]) turn(ctx context.Context, patience time.Duration) bool {
	for before := r.before; before != nil; before = before.before { // one that never began leaves its own wait to us
		if !before.away(ctx, patience) {
			return false
		}
	}
	return true
}

// away waits until the round has ended, or has run for as long as it may hold others. It reports false when the context
// ended first.
func (r *round[Q, T]) away(ctx context.Context, patience time.Duration) bool {
	select {
	case <-r.begun:
	case <-ctx.Done():
		return false
	}
	hung := time.NewTimer(patience)
	defer hung.Stop()
	select {
	case <-r.done:
	case <-hung.C:
	case <-ctx.Done():
		return false
	}
	return true
}

func (s *shared[Q, T]) end(r *round[Q, T]) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.last == r && r.before == nil {
		s.last = nil
	}
	close(r.done)
}
