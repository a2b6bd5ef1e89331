package broker_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"

	"github.com/ferry-broker/ferry/internal/broker"
	"github.com/ferry-broker/ferry/internal/brokertest"
)

// busyReader is a Cloud Foundry that reads nothing while an operation runs.
type busyReader struct{ broker.Backend }

func (busyReader) InstanceParameters(context.Context, string) (json.RawMessage, error) {
	return nil, fmt.Errorf("409: %w", broker.ErrBusy)
}

// TestFetchWhileCloudFoundryIsBusy: FI-08; a row that is in progress behind our back is no outage.
func TestFetchWhileCloudFoundryIsBusy(t *testing.T) {
	t.Parallel()
	r := newRun(t, brokertest.ScheduleOptions{})
	r.ready()
	r.Backend.Backend = busyReader{r.Cloud}
	_, err := r.Broker.FetchInstance(t.Context(), broker.FetchRequest{Client: brokertest.Client, InstanceID: "i"})
	if broker.CodeOf(err) != broker.CodeConcurrency {
		t.Errorf("fetch: %v; want %s", err, broker.CodeConcurrency)
	}
}

// overtakenStore loses the answer of its first write, and lets another actor write over it before anybody looks.
type overtakenStore struct {
	broker.Store
	lost bool
}

func (s *overtakenStore) Put(ctx context.Context, r broker.Record, revision int64) (broker.Record, error) {
	stored, err := s.Store.Put(ctx, r, revision)
	if err != nil || s.lost {
		return stored, err
	}
	s.lost = true
	next := stored
	next.Token, next.Lifecycle.Operation.Restarts = "another actor's", 1
	if _, err := s.Store.Put(ctx, next, stored.Revision); err != nil {
		return broker.Record{}, err
	}
	return broker.Record{}, errors.New("the answer was lost")
}

// TestAClaimWhoseAnswerWasLostIsWon, also when somebody has written over it since (docs/protocol.md 2.3).
func TestAClaimWhoseAnswerWasLostIsWon(t *testing.T) {
	t.Parallel()
	r := newRun(t, brokertest.ScheduleOptions{Store: func(_ *brokertest.Scheduler, s broker.Store) broker.Store {
		return &overtakenStore{Store: s}
	}})
	result, err := r.answer(r.put())
	if err != nil || result.Outcome != broker.OutcomeAccepted {
		t.Fatalf("PUT: %+v, %v; want it accepted", result, err)
	}
	if op := r.record(instanceKey()).Lifecycle.Operation.ID; op != result.Operation {
		t.Errorf("the answer names %q, the record %q", result.Operation, op)
	}
}
