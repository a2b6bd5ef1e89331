package broker_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/ferry-broker/ferry/internal/broker"
	"github.com/ferry-broker/ferry/internal/brokertest"
	"github.com/ferry-broker/ferry/internal/lifecycle"
)

// moody is a Cloud Foundry that does not answer, or asks to be left alone, for as long as the test wants.
type moody struct {
	broker.Backend
	away  bool
	busy  time.Duration
	posts int
}

func (m *moody) FindInstances(ctx context.Context, name string, guids ...string) (broker.Look, error) {
	if m.away {
		return broker.Look{}, errors.New("no route to host")
	}
	return m.Backend.FindInstances(ctx, name, guids...)
}

func (m *moody) CreateInstance(ctx context.Context, c broker.InstanceCall) (broker.Answer, error) {
	m.posts++
	switch {
	case m.busy > 0:
		return broker.Answer{Reply: lifecycle.ReplyBusy, RetryAfter: m.busy}, errors.New("429")
	case m.away:
		return broker.Answer{Reply: lifecycle.ReplyUnknown, RetryAfter: time.Hour}, errors.New("503 from somebody else")
	}
	return m.Backend.CreateInstance(ctx, c)
}

// pass lets every execution that was started make its steps, and the janitor its rounds, for a while. An execution that
// has ended makes none.
func (r *run) pass(operation string, d time.Duration) {
	r.t.Helper()
	next, ended := map[int]time.Time{}, map[int]bool{}
	for until := r.Now().Add(d); r.Now().Before(until); r.Advance(time.Second) {
		for i := range r.Started {
			if ended[i] || r.Now().Before(next[i]) {
				continue
			}
			step := r.step(operation)
			next[i], ended[i] = r.Now().Add(max(step.Wait, time.Second)), step.Done
		}
		if r.Now().Second() == 0 {
			r.Finish(r.Go("janitor", func(ctx context.Context) (any, error) { return r.Broker.Restart(ctx, 1) }))
		}
	}
}

// TestTheJanitorLeavesTheLivingAlone: an operation whose driver waits, for whatever reason and however long, is not
// started a second time.
func TestTheJanitorLeavesTheLivingAlone(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		before func(*run, *moody)
		posts  int
	}{
		"Cloud Foundry takes its time":                      {func(*run, *moody) {}, 1},
		"Cloud Foundry is away":                             {func(r *run, m *moody) { r.step(r.Started[0].Operation); m.away = true }, 1},
		"Cloud Foundry asks to be left alone for an hour":   {func(_ *run, m *moody) { m.busy = time.Hour }, 2},
		"somebody in front of it does, and may have passed": {func(_ *run, m *moody) { m.away = true }, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := &moody{}
			r := newRun(t, brokertest.ScheduleOptions{Backend: func(_ *brokertest.Scheduler, b broker.Backend) broker.Backend {
				m.Backend = b
				return m
			}})
			op := r.accepted(r.put())
			test.before(r, m)
			r.pass(op, 100*time.Minute)
			if len(r.Started) != 1 {
				t.Errorf("%d executions, want one: %+v", len(r.Started), r.Started)
			}
			if m.posts > test.posts {
				t.Errorf("%d POSTs, want at most %d", m.posts, test.posts)
			}
			m.away, m.busy = false, 0
			r.pass(op, 2*time.Hour)
			r.Cloud.FinishAll()
			r.pass(op, time.Hour)
			r.wants(op, "succeeded")
		})
	}
}
