package cf

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

// counting is a call whose answer is its number. Calls wait for hold, if there is one, or for their context.
type counting struct {
	mu    sync.Mutex
	asked [][]string // the questions of each call
	hold  chan struct{}
	err   error
}

func (c *counting) call(ctx context.Context, questions []string) (int, error) {
	c.mu.Lock()
	c.asked = append(c.asked, slices.Sorted(slices.Values(questions)))
	number, hold, err := len(c.asked), c.hold, c.err
	c.mu.Unlock()
	if hold != nil {
		select {
		case <-hold:
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	}
	return number, err
}

// answered is what a caller got.
type answered struct {
	number int
	err    error
}

// asks lets somebody ask, and returns when the question is with the others or its call runs.
func asks(ctx context.Context, s *shared[string, int], c *counting, question string) <-chan answered {
	got := make(chan answered, 1)
	go func() {
		number, err := s.get(ctx, question, c.call)
		got <- answered{number, err}
	}()
	synctest.Wait()
	return got
}

// TestTheAnswerWasAskedForAfterTheCallerCame (docs/protocol.md 3.9): who asks while a call runs shares the next one.
func TestTheAnswerWasAskedForAfterTheCallerCame(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var s shared[string, int]
		c := &counting{hold: make(chan struct{})}
		first := asks(t.Context(), &s, c, "first")
		var others []<-chan answered
		for _, question := range []string{"a", "b", "c"} {
			others = append(others, asks(t.Context(), &s, c, question))
		}
		if len(c.asked) != 1 {
			t.Errorf("calls %q began side by side", c.asked)
		}
		close(c.hold)
		if got := <-first; got.number != 1 {
			t.Errorf("the first was answered by call %+v", got)
		}
		for _, other := range others {
			if got := <-other; got.number != 2 || got.err != nil {
				t.Errorf("another was answered by call %+v, want the second", got)
			}
		}
		if diff := cmp.Diff([][]string{{"first"}, {"a", "b", "c"}}, c.asked); diff != "" {
			t.Errorf("questions (-want +got):\n%s", diff)
		}
		if got := <-asks(t.Context(), &s, c, "later"); got.number != 3 {
			t.Errorf("who came when none ran was answered by call %+v, want one of his own", got)
		}
	})
}

// TestQuestionsThatDoNotFitAreAskedOneAfterTheOther, and one that is too large is asked alone.
func TestQuestionsThatDoNotFitAreAskedOneAfterTheOther(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := shared[string, int]{size: func(q string) int { return len(q) }, room: 4}
		c := &counting{hold: make(chan struct{})}
		var all []<-chan answered
		for _, question := range []string{"first", "aa", "bb", "cc", "dddddd", "e"} {
			all = append(all, asks(t.Context(), &s, c, question))
		}
		close(c.hold)
		for i, want := range []int{1, 2, 2, 3, 4, 5} {
			if got := <-all[i]; got.number != want {
				t.Errorf("question %d was answered by call %+v, want %d", i, got, want)
			}
		}
		if diff := cmp.Diff([][]string{{"first"}, {"aa", "bb"}, {"cc"}, {"dddddd"}, {"e"}}, c.asked); diff != "" {
			t.Errorf("questions (-want +got):\n%s", diff)
		}
	})
}

// TestAnErrorIsEverybodys, and so is that of a call that took too long. Nobody asks again.
func TestAnErrorIsEverybodys(t *testing.T) {
	t.Parallel()
	for _, want := range []error{errors.New("failed"), context.DeadlineExceeded} {
		synctest.Test(t, func(t *testing.T) {
			var s shared[string, int]
			c := &counting{hold: make(chan struct{}), err: want}
			all := []<-chan answered{asks(t.Context(), &s, c, "a"), asks(t.Context(), &s, c, "b"), asks(t.Context(), &s, c, "c")}
			close(c.hold)
			for _, one := range all {
				if got := <-one; !errors.Is(got.err, want) {
					t.Errorf("%+v, want %v", got, want)
				}
			}
			if len(c.asked) != 2 {
				t.Errorf("%q were asked, want two calls", c.asked)
			}
		})
	}
}

// TestWhoLeavesIsNotWaitedFor: a caller whose context ends is answered at once. Those who shared his call ask again,
// and still not beside the one that runs.
func TestWhoLeavesIsNotWaitedFor(t *testing.T) {
	t.Parallel()
	for name, leaver := range map[string]int{"while his call runs": 0, "before his call began": 1, "waiting for another's call": 2} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var s shared[string, int]
				c := &counting{hold: make(chan struct{})}
				left, leave := context.WithCancel(t.Context())
				var all []<-chan answered
				for i, question := range []string{"a", "b", "c", "d"} {
					ctx := t.Context()
					if i == leaver {
						ctx = left
					}
					all = append(all, asks(ctx, &s, c, question))
				}
				leave()
				if got := <-all[leaver]; !errors.Is(got.err, context.Canceled) {
					t.Errorf("who left got %+v", got)
				}
				synctest.Wait()
				if want := 1; leaver != 0 && len(c.asked) != want {
					t.Errorf("%q were asked beside a call that runs", c.asked)
				}
				close(c.hold)
				for i, one := range all {
					if i == leaver {
						continue
					}
					if got := <-one; got.err != nil {
						t.Errorf("%d got %v, as somebody else left", i, got.err)
					}
				}
			})
		})
	}
}

// TestThoseWhoseCallEndedWithItsCallerAskAgain.
func TestThoseWhoseCallEndedWithItsCallerAskAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var s shared[string, int]
		c := &counting{hold: make(chan struct{})}
		first := asks(t.Context(), &s, c, "first")
		left, leave := context.WithCancel(t.Context())
		second := asks(left, &s, c, "second")
		third := asks(t.Context(), &s, c, "third")
		c.mu.Lock()
		hold := c.hold
		c.hold = make(chan struct{})
		c.mu.Unlock()
		close(hold)
		<-first
		synctest.Wait() // the second's call runs
		leave()
		if got := <-second; !errors.Is(got.err, context.Canceled) {
			t.Errorf("who left got %+v", got)
		}
		synctest.Wait()
		close(c.hold)
		if got := <-third; got.err != nil || got.number != 3 {
			t.Errorf("%+v, want the answer of a call of the third's own", got)
		}
	})
}

// TestACallThatHangsHoldsTheNextForAWhile, and then only those who share it.
func TestACallThatHangsHoldsTheNextForAWhile(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := shared[string, int]{size: func(string) int { return 1 }, room: 1}
		c := &counting{hold: make(chan struct{})}
		hangs := c.hold
		began := time.Now()
		first := asks(t.Context(), &s, c, "first")
		c.hold = nil
		others := []<-chan answered{asks(t.Context(), &s, c, "a"), asks(t.Context(), &s, c, "b")}
		for i, other := range others {
			if got := <-other; got.err != nil || got.number != i+2 || time.Since(began) != usualPatience {
				t.Errorf("%+v after %v, want call %d after %v", got, time.Since(began), i+2, usualPatience)
			}
		}
		close(hangs)
		if got := <-first; got.number != 1 {
			t.Errorf("%+v", got)
		}
	})
}

func TestAPanicAnswersNobody(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var s shared[string, int]
		c := &counting{hold: make(chan struct{})}
		first := asks(t.Context(), &s, c, "first")
		panicked := make(chan any, 1)
		go func() {
			defer func() { panicked <- recover() }()
			_, _ = s.get(t.Context(), "a", func(context.Context, []string) (int, error) { panic("boom") })
		}()
		synctest.Wait()
		other := asks(t.Context(), &s, c, "b")
		close(c.hold)
		if got := <-panicked; got != "boom" {
			t.Errorf("the panic became %v", got)
		}
		if got := <-other; !errors.Is(got.err, errNoAnswer) {
			t.Errorf("%+v, want no answer", got)
		}
		if got := <-asks(t.Context(), &s, c, "later"); got.err != nil {
			t.Errorf("%+v after a panic", got)
		}
		<-first
	})
}

// waits returns how many questions wait for calls that have not begun.
func waits[Q, T any](s *shared[Q, T]) (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for r := s.last; r != nil && !r.closed; r = r.before {
		n += len(r.questions)
	}
	return n
}

// until yields until something holds, and gives up in the end.
func until(t *testing.T, what string, holds func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	for !holds() {
		if ctx.Err() != nil {
			t.Fatalf("gave up waiting until %s", what)
		}
		runtime.Gosched()
	}
}
