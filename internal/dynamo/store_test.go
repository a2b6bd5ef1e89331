package dynamo

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/google/go-cmp/cmp"

	"github.com/ferry-broker/ferry/internal/broker"
	"github.com/ferry-broker/ferry/internal/brokertest"
)

func TestStore(t *testing.T) {
	t.Parallel()
	standIn.URL(t)
	brokertest.TestStore(t, func(t *testing.T, now func() time.Time) brokertest.Store {
		table, _ := newTable(t)
		s, err := New(Options{Config: configFor(standIn.URL(t), nil), Table: table, Now: now, Deadlines: time.Now})
		if err != nil {
			t.Fatal(err)
		}
		return s
	})
}

func TestRoundStore(t *testing.T) {
	t.Parallel()
	table, _ := newTable(t)
	s, err := New(Options{Config: configFor(standIn.URL(t), nil), Table: table, Now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	brokertest.TestRoundStore(t, s)
}

// uses are all ways to use a Store, with the operation that each begins with.
var uses = map[string]struct {
	operation string
	call      func(context.Context, *Store) error
}{
	"Get": {"GetItem", func(ctx context.Context, s *Store) error {
		_, err := s.Get(ctx, keyOf("i"))
		return ignoring(err, broker.ErrNotFound)
	}},
	"GetAll": {"BatchGetItem", func(ctx context.Context, s *Store) error {
		_, err := s.GetAll(ctx, []broker.Key{keyOf("i"), keyOf("j")})
		return err
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
	s, err := New(Options{Config: configFor("http://127.0.0.1:1", l), Table: "t", Now: atEpoch, Deadlines: time.Now})
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
					if spare := budget - time.Since(begun); ctx.Err() != nil || spare < min(budget, timeForAnother) {
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

// TestCalls holds what each use costs: calls, and of writes the capacity units for a record as long as they are in
// life, the index's included. The stand-in does not count reads by their size, and does not say that a refused write
// costs what it would have.
func TestCalls(t *testing.T) {
	t.Parallel()
	table, _ := newTable(t)
	l := newLine()
	l.metered = true
	s := on(t, table, atEpoch, l)
	key := keyOf(guid)
	bind := broker.Key{Client: key.Client, InstanceID: key.InstanceID, BindingID: guid}
	refused := func(_ any, err error) error { return ignoring(err, broker.ErrConflict) }
	mustWin := func(_ any, err error) error { return err }
	tests := []struct {
		name string
		use  func() error
		want string
	}{
		{"a poll of what is not there", func() error { _, err := s.Get(t.Context(), key); return ignoring(err, broker.ErrNotFound) }, "GetItem strong"},
		{"an accepted create", func() error { return mustWin(s.Put(t.Context(), claimed(key), 0)) }, "PutItem 3"},
		{"a duplicate that tries to claim", func() error { return refused(s.Put(t.Context(), claimed(key), 0)) }, "PutItem"},
		{"a duplicate that reads first, or a poll", func() error { return mustWin(s.Get(t.Context(), key)) }, "GetItem strong"},
		{"a tick that moves the due time", func() error { return mustWin(s.Put(t.Context(), running(key), 1)) }, "PutItem 4"},
		{"a look for what is overdue", func() error { return mustWin(s.Unfinished(t.Context(), epoch.AddDate(1, 0, 0), "", 100)) },
			strings.Repeat("Query due, ", dueShards-1) + "Query due"},
		{"a report of the end", func() error { return mustWin(s.Put(t.Context(), done(key), 2)) }, "PutItem 3"},
		{"a bind", func() error { return mustWin(s.Put(t.Context(), claimed(bind), 0)) }, "PutItem 3"},
		{"a look at many", func() error { return mustWin(s.GetAll(t.Context(), []broker.Key{key, bind, keyOf("none")})) },
			"BatchGetItem strong"},
		{"a list of bindings", func() error { return mustWin(s.Bindings(t.Context(), key)) }, "Query strong"},
		{"a catalog that fits into an item", func() error { return mustWin(s.PutCatalog(t.Context(), catalogOf(1, 7<<10), 0)) }, "PutItem 8"},
		{"a read of it", func() error { return mustWin(s.Catalog(t.Context(), "cluster-a")) }, "GetItem strong"},
		{"a ping", func() error { return s.Ping(t.Context()) }, "GetItem strong"},
	}
	for _, test := range tests {
		if err := test.use(); err != nil {
			t.Fatalf("%s: %v", test.name, err)
		}
		if d := cmp.Diff(test.want, bill(l.drain())); d != "" {
			t.Errorf("%s (-want +got):\n%s", test.name, d)
		}
	}
}

func bill(calls []*call) string {
	var lines []string
	for _, c := range calls {
		text := c.operation
		if c.consistent {
			text += " strong"
		}
		if c.index != "" {
			text += " " + c.index
		}
		if c.operation == "PutItem" && c.units > 0 {
			text += fmt.Sprintf(" %g", c.units)
		}
		lines = append(lines, text)
	}
	return strings.Join(lines, ", ")
}

func TestConstruction(t *testing.T) {
	t.Parallel()
	t.Run("table and clock are required", func(t *testing.T) {
		t.Parallel()
		for name, o := range map[string]Options{"no table": {Now: atEpoch}, "no clock": {Table: "t"}} {
			if _, err := New(o); err == nil {
				t.Errorf("%s: no error", name)
			}
		}
	})
	t.Run("a write that cannot be numbered is not sent", func(t *testing.T) {
		t.Parallel()
		l := offline(t, func(string, int) *http.Response { return nil })
		s, err := New(Options{Config: configFor("http://127.0.0.1:1", l), Table: "t", Now: atEpoch, Random: strings.NewReader("short")})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Put(t.Context(), claimed(keyOf("i")), 0); err == nil {
			t.Error("Put: no error")
		}
	})
	t.Run("a client of the SDK gets a limit for each try, and keeps one that it has", func(t *testing.T) {
		t.Parallel()
		for name, test := range map[string]struct {
			given aws.HTTPClient
			want  time.Duration
		}{
			"none":                 {nil, attemptTimeout},
			"one without a limit":  {awshttp.NewBuildableClient(), attemptTimeout},
			"one with a limit":     {awshttp.NewBuildableClient().WithTimeout(time.Minute), time.Minute},
			"one of another maker": {&http.Client{Timeout: time.Hour}, time.Hour},
		} {
			var got time.Duration
			switch c := limited(test.given).(type) {
			case *awshttp.BuildableClient:
				got = c.GetTimeout()
			case *http.Client:
				got = c.Timeout
			}
			if got != test.want {
				t.Errorf("%s: limit %v; want %v", name, got, test.want)
			}
		}
	})
	t.Run("how often is tried is not the environment's to say", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			l := offline(t, func(string, int) *http.Response { return refusal(500, "InternalServerError") })
			config := configFor("http://127.0.0.1:1", l)
			config.RetryMaxAttempts, config.RetryMode = 50, aws.RetryModeAdaptive
			s, err := New(Options{Config: config, Table: "t", Now: atEpoch})
			if err != nil {
				t.Fatal(err)
			}
			if err := s.Ping(t.Context()); err == nil || len(l.drain()) != maxAttempts {
				t.Errorf("Ping: %v; want an error after %d tries", err, maxAttempts)
			}
		})
	})
	t.Run("the endpoint given goes before the configuration's", func(t *testing.T) {
		t.Parallel()
		var host string
		l := offline(t, func(string, int) *http.Response { return answerOf(200, "{}") })
		config := configFor("http://127.0.0.1:1", askedHost{l, &host})
		s, err := New(Options{Config: config, Endpoint: "http://127.0.0.1:2", Table: "t", Now: atEpoch})
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Ping(t.Context()); err != nil || host != "127.0.0.1:2" {
			t.Errorf("Ping went to %s, %v; want 127.0.0.1:2", host, err)
		}
	})
}

// askedHost takes note of where a call goes.
type askedHost struct {
	*line
	host *string
}

func (a askedHost) Do(r *http.Request) (*http.Response, error) {
	*a.host = r.URL.Host
	return a.line.Do(r)
}

func TestAnswersThatHideSecrets(t *testing.T) {
	t.Parallel()
	t.Run("no error text holds parameters or identities", func(t *testing.T) {
		t.Parallel()
		r := claimed(keyOf("i"))
		r.Parameters, r.OriginatingIdentity = []byte(`{"password":"hunter2"}`), "hunter2"
		for _, code := range []string{"ValidationException", "AccessDeniedException"} {
			l := offline(t, func(string, int) *http.Response { return refusal(400, code) })
			_, err := offlineStore(t, l).Put(t.Context(), r, 0)
			if err == nil || strings.Contains(err.Error(), "hunter2") {
				t.Errorf("after %s: %v", code, err)
			}
		}
		conflict := `{"__type":"ConditionalCheckFailedException","message":"m","Item":` + string(toJSON(t, mustEncode(t, r))) + `}`
		l := offline(t, func(string, int) *http.Response { return answerOf(400, conflict) })
		_, err := offlineStore(t, l).Put(t.Context(), claimed(keyOf("i")), 0)
		if !errors.Is(err, broker.ErrConflict) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("after a conflict: %v", err)
		}
	})
}

func mustEncode(t *testing.T, r broker.Record) item {
	t.Helper()
	it, err := encode(r, noise(9, 16))
	if err != nil {
		t.Fatal(err)
	}
	return it
}
