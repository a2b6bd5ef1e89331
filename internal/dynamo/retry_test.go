package dynamo

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ferry-broker/ferry/internal/broker"
)

// uses are all ways to use a Store, with the operation that each begins with.
var uses = map[string]struct {
	operation string
	call      func(context.Context, *Store) error
}{
	"Get": {"GetItem", func(ctx context.Context, s *Store) error {
		_, err := s.Get(ctx, keyOf("i"))
		return ignoring(err, broker.ErrNotFound)
	}},
	"Put": {"PutItem", func(ctx context.Context, s *Store) error {
		_, err := s.Put(ctx, claimed(keyOf("i")), 0)
		return err
	}},
	"Bindings":   {"Query", func(ctx context.Context, s *Store) error { _, err := s.Bindings(ctx, keyOf("i")); return err }},
	"Unfinished": {"Query", func(ctx context.Context, s *Store) error { _, err := s.Unfinished(ctx, epoch, "", 9); return err }},
	"Catalog": {"GetItem", func(ctx context.Context, s *Store) error {
		_, err := s.Catalog(ctx, "cluster-a")
		return ignoring(err, broker.ErrNotFound)
	}},
	"PutCatalog": {"PutItem", func(ctx context.Context, s *Store) error {
		_, err := s.PutCatalog(ctx, catalogOf(1, 10), 0)
		return err
	}},
	"Ping": {"GetItem", func(ctx context.Context, s *Store) error { return s.Ping(ctx) }},
}

func ignoring(err, expected error) error {
	if errors.Is(err, expected) {
		return nil
	}
	return err
}

// faults are what DynamoDB and what is before it may say that a later try cures.
var faults = map[string]func() *http.Response{
	"throttled by the table":   func() *http.Response { return refusal(400, "ProvisionedThroughputExceededException") },
	"throttled by the account": func() *http.Response { return refusal(400, "ThrottlingException") },
	"over the account's limit": func() *http.Response { return refusal(400, "RequestLimitExceeded") },
	"a fault of the service":   func() *http.Response { return refusal(500, "InternalServerError") },
	"a page instead of JSON":   func() *http.Response { return answerOf(503, "<html>no</html>") },
}

// offlineStore has nobody behind it.
func offlineStore(t *testing.T, l *line) *Store {
	t.Helper()
	s, err := New(Options{Config: configFor("http://127.0.0.1:1", l), Table: "t", Now: atEpoch})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestRetries(t *testing.T) {
	t.Parallel()
	for fault, answer := range faults {
		for use, u := range uses {
			t.Run(fmt.Sprintf("%s is made again when it is %s", use, fault), func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					l := offline(t, func(_ string, n int) *http.Response {
						if n <= 2 {
							return answer()
						}
						return answerOf(200, "{}")
					})
					if err := u.call(t.Context(), offlineStore(t, l)); err != nil {
						t.Error(err)
					}
				})
			})
			t.Run(fmt.Sprintf("%s gives up when it is %s for ever", use, fault), func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					begun := time.Now()
					l := offline(t, func(string, int) *http.Response { return answer() })
					err := u.call(t.Context(), offlineStore(t, l))
					if err == nil || isAnswer(err) {
						t.Errorf("error %v; want one that is no answer of a store", err)
					}
					if n := len(l.drain()); n != maxAttempts {
						t.Errorf("%d tries; want %d", n, maxAttempts)
					}
					if spent := time.Since(begun); spent > (maxAttempts-1)*maxBackoff {
						t.Errorf("gave up after %v; want at most %v", spent, (maxAttempts-1)*maxBackoff)
					}
				})
			})
		}
	}
}

// coded is an error that DynamoDB answered with.
type coded interface {
	error
	ErrorCode() string
}

// isAnswer reports whether a broker would take the error for an answer of the store.
func isAnswer(err error) bool {
	return errors.Is(err, broker.ErrNotFound) || errors.Is(err, broker.ErrConflict) || errors.Is(err, broker.ErrTooLarge)
}

func TestBudget(t *testing.T) {
	t.Parallel()
	for use, u := range uses {
		t.Run(use+" ends before its budget does, with the fault", func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				for _, budget := range []time.Duration{50 * time.Millisecond, 300 * time.Millisecond, time.Second, 2 * time.Second} {
					ctx, cancel := context.WithTimeout(t.Context(), budget)
					begun := time.Now()
					l := offline(t, func(string, int) *http.Response { return refusal(400, "ThrottlingException") })
					err := u.call(ctx, offlineStore(t, l))
					if spare := budget - time.Since(begun); ctx.Err() != nil || spare < min(budget, roomForAnother) {
						t.Errorf("of %v %v were left: %v", budget, spare, ctx.Err())
					}
					if fault, ok := errors.AsType[coded](err); !ok || fault.ErrorCode() != "ThrottlingException" {
						t.Errorf("error %v; want the throttling", err)
					}
					cancel()
				}
			})
		})
	}
	t.Run("what cannot be cured is not tried again", func(t *testing.T) {
		t.Parallel()
		for use, u := range uses {
			for _, code := range []string{"ResourceNotFoundException", "AccessDeniedException", "ValidationException"} {
				l := offline(t, func(string, int) *http.Response { return refusal(400, code) })
				if err := u.call(t.Context(), offlineStore(t, l)); err == nil || isAnswer(err) {
					t.Errorf("%s after %s: error %v; want one that is no answer of a store", use, code, err)
				}
				if n := len(l.drain()); n != 1 {
					t.Errorf("%s after %s: %d tries; want 1", use, code, n)
				}
			}
		}
	})
	t.Run("a context that was cancelled sends nothing", func(t *testing.T) {
		t.Parallel()
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		for use, u := range uses {
			l := offline(t, func(string, int) *http.Response { return nil })
			if err := u.call(ctx, offlineStore(t, l)); !errors.Is(err, context.Canceled) {
				t.Errorf("%s: %v; want the context's error", use, err)
			}
		}
	})
}
