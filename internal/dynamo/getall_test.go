package dynamo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/ferry-broker/ferry/internal/broker"
)

// shortOf is a DynamoDB with little throughput, as an HTTP client: each BatchGetItem is answered for as many keys as it
// has, and the others are left unprocessed. There is a record for every key.
type shortOf struct {
	t *testing.T
	// has is for how many keys the n-th call is answered, counted from 1.
	has func(n int) int

	mu    sync.Mutex
	asked []int // for how many keys, call after call
}

// Do implements aws.HTTPClient.
func (d *shortOf) Do(r *http.Request) (*http.Response, error) {
	type keys struct {
		Keys           []map[string]attribute
		ConsistentRead bool
	}
	var in struct{ RequestItems map[string]keys }
	body, err := io.ReadAll(r.Body)
	if err := errors.Join(err, json.Unmarshal(body, &in)); err != nil {
		return nil, err
	}
	wanted := in.RequestItems["t"]
	d.mu.Lock()
	d.asked = append(d.asked, len(wanted.Keys))
	has := min(d.has(len(d.asked)), len(wanted.Keys))
	d.mu.Unlock()
	if !wanted.ConsistentRead || len(wanted.Keys) > 100 || len(in.RequestItems) != 1 {
		d.t.Errorf("%d keys of %d tables, strong: %t", len(wanted.Keys), len(in.RequestItems), wanted.ConsistentRead)
	}
	items := []json.RawMessage{}
	for _, k := range wanted.Keys[:has] {
		key, err := place{pk: k["pk"].B, sk: k["sk"].B}.key()
		if err != nil {
			return nil, err
		}
		items = append([]json.RawMessage{toJSON(d.t, mustEncode(d.t, claimed(key)))}, items...) // in no order
	}
	out := map[string]any{"Responses": map[string]any{"t": items}}
	if has < len(wanted.Keys) {
		wanted.Keys = wanted.Keys[has:]
		out["UnprocessedKeys"] = map[string]any{"t": wanted}
	}
	text, err := json.Marshal(out)
	return answerOf(http.StatusOK, string(text)), err
}

func (d *shortOf) store(t *testing.T) *Store {
	t.Helper()
	s, err := New(Options{Config: configFor("http://127.0.0.1:1", d), Table: "t", Now: atEpoch, Deadlines: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func keysOf(n int) (keys []broker.Key) {
	for i := range n {
		keys = append(keys, keyOf(fmt.Sprintf("i-%d", i)))
	}
	return keys
}

// TestKeysThatAreLeftUnprocessed are asked for again.
func TestKeysThatAreLeftUnprocessed(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		keys   int
		has    func(n int) int
		calls  int
		pauses int
	}{
		"none are left":                             {100, func(int) int { return 100 }, 1, 0},
		"some are left, of each hundred":            {250, func(int) int { return 40 }, 8, 2},
		"all but one are left, again and again":     {12, func(int) int { return 1 }, 12, 11},
		"all are left, fewer times than are enough": {7, func(n int) int { return 7 * (n / maxAttempts) }, maxAttempts, maxAttempts - 1},
		"all are left, but not so often in a row":   {2, func(n int) int { return n % 4 / 3 }, 7, 6},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				begun := time.Now()
				d, keys := &shortOf{t: t, has: test.has}, keysOf(test.keys)
				all, err := d.store(t).GetAll(t.Context(), keys)
				if err != nil || len(all) != len(keys) || len(d.asked) != test.calls {
					t.Fatalf("%d of %d, %v, after calls for %v keys; want %d calls", len(all), len(keys), err, d.asked, test.calls)
				}
				for i, got := range all {
					if got.Err != nil || got.Record.Key != keys[i] {
						t.Errorf("at %d: %v, %v; want %v", i, got.Record.Key, got.Err, keys[i])
					}
				}
				most := time.Duration(test.pauses) * maxBackoff
				if spent := time.Since(begun); spent > most || spent == 0 && most > 0 {
					t.Errorf("it took %v; want some time, and at most %v", spent, most)
				}
			})
		})
	}
	for name, test := range map[string]struct {
		budget time.Duration // 0: none
		least  int           // calls
	}{
		"without a deadline":                   {0, maxAttempts},
		"with a deadline":                      {2 * time.Second, 2},
		"with too little time for another try": {timeForAnother, 1},
	} {
		t.Run("all are left for ever, "+name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := t.Context(), func() {}
				if test.budget > 0 {
					ctx, cancel = context.WithTimeout(ctx, test.budget)
				}
				defer cancel()
				d, begun := &shortOf{t: t, has: func(int) int { return 0 }}, time.Now()
				all, err := d.store(t).GetAll(ctx, keysOf(9))
				if n := len(d.asked); !errors.Is(err, errLeftOut) || all != nil || n < test.least || n > maxAttempts {
					t.Errorf("%d records, %v after %d calls; want none, errLeftOut, after %d to %d", len(all), err, n, test.least, maxAttempts)
				}
				if spent := time.Since(begun); test.budget > 0 && test.budget-spent < timeForAnother {
					t.Errorf("%v of %v were spent; want an answer while there is time to tell it", spent, test.budget)
				}
			})
		})
	}
	t.Run("a context that ends ends the pause", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			begun := time.Now()
			d := &shortOf{t: t, has: func(n int) int { time.AfterFunc(time.Nanosecond, cancel); return 0 }}
			all, err := d.store(t).GetAll(ctx, keysOf(2))
			if spent := time.Since(begun); !errors.Is(err, context.Canceled) || all != nil || spent != time.Nanosecond {
				t.Errorf("%d records, %v after %v; want none, the context's error, at once", len(all), err, spent)
			}
		})
	})
}

// TestCallsSideBySide: a GetAll of many keys makes several calls at once, and one that fails fails all.
func TestCallsSideBySide(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		answers := make(chan *http.Response)
		l := offline(t, func(string, int) *http.Response {
			if answer, more := <-answers; more {
				return answer
			}
			return refusal(http.StatusBadRequest, "ValidationException")
		})
		var all []broker.Got
		var err error
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			all, err = offlineStore(t, l).GetAll(t.Context(), keysOf(1000))
		}()
		synctest.Wait()
		if n := len(l.drain()); n != maxBatches {
			t.Errorf("%d calls at once; want %d", n, maxBatches)
		}
		answers <- answerOf(http.StatusOK, "{}")
		synctest.Wait()
		if n := len(l.drain()); n != 1 {
			t.Errorf("%d calls after one was answered; want another one", n)
		}
		answers <- refusal(http.StatusBadRequest, "AccessDeniedException")
		synctest.Wait()
		close(answers)
		<-ended
		if fault, ok := errors.AsType[coded](err); !ok || fault.ErrorCode() != "AccessDeniedException" || all != nil {
			t.Errorf("%d records, %v; want none, and why", len(all), err)
		}
		if n := len(l.drain()); n > 0 {
			t.Errorf("%d calls after one had failed", n)
		}
	})
}

// TestKeysThatNeedNoCall: of what cannot have been stored.
func TestKeysThatNeedNoCall(t *testing.T) {
	t.Parallel()
	s := offlineStore(t, offline(t, func(string, int) *http.Response { return nil }))
	all, err := s.GetAll(t.Context(), []broker.Key{
		keyOf(strings.Repeat("x", maxPartitionBytes)),
		{Client: "cluster-a", InstanceID: "i", BindingID: strings.Repeat("x", maxSortBytes)},
		{Client: "a#b", InstanceID: "i"},
	})
	if err != nil || !errors.Is(all[0].Err, broker.ErrNotFound) || !errors.Is(all[1].Err, broker.ErrNotFound) {
		t.Fatalf("%v, %v; want ErrNotFound for the first two", all, err)
	}
	if !errors.Is(all[2].Err, errClientName) {
		t.Errorf("%v; want errClientName", all[2].Err)
	}
}

// TestOneUnreadableRecordHidesNoOther: one that a newer Ferry wrote is an error of its own.
func TestOneUnreadableRecordHidesNoOther(t *testing.T) {
	t.Parallel()
	table, client := newTable(t)
	s := on(t, table, atEpoch, newLine())
	mustPut(t, s, claimed(keyOf("a")), 0)
	mustPut(t, s, claimed(keyOf("c")), 0)
	newer := mustEncode(t, claimed(keyOf("b")))
	newer[attrFormat] = number(format1 + 1)
	if _, err := client.PutItem(t.Context(), &dynamodb.PutItemInput{TableName: aws.String(table), Item: newer}); err != nil {
		t.Fatal(err)
	}
	keys := []broker.Key{keyOf("a"), keyOf("b"), keyOf("c")}
	all, err := s.GetAll(t.Context(), keys)
	if err != nil {
		t.Fatal(err)
	}
	for i, key := range keys {
		want, wantErr := s.Get(t.Context(), key)
		if got := all[i]; got.Record.Key != want.Key || fmt.Sprint(got.Err) != fmt.Sprint(wantErr) || (wantErr != nil) != (i == 1) {
			t.Errorf("at %d: %v, %v; want %v, %v", i, got.Record.Key, got.Err, want.Key, wantErr)
		}
	}
}
