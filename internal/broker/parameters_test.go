package broker_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/ferry-broker/ferry/internal/broker"
	"github.com/ferry-broker/ferry/internal/brokertest"
	"github.com/ferry-broker/ferry/internal/lifecycle"
	"github.com/ferry-broker/ferry/internal/osb"
)

// marked is a secret that a backing broker quotes.
const marked = "hunter2-secret"

// logs collects what the broker logs, at every level.
func (r *run) logs() *bytes.Buffer {
	var log bytes.Buffer
	r.Log = &log
	return &log
}

// stored is the whole store as text.
func (r *run) stored() string {
	r.t.Helper()
	text, err := json.Marshal(r.Store.All())
	if err != nil {
		r.t.Fatal(err)
	}
	return string(text)
}

// TestWordsThatQuoteParameters [law 9]: a poll tells them while the operation is the latest; they are in no log, and
// when the next one begins they leave the store.
func TestWordsThatQuoteParameters(t *testing.T) {
	t.Parallel()
	refuses := func(r *run) { // every POST and PATCH, in words that quote what was sent
		r.intercepted().Call = func(ctx context.Context, method string, _ broker.InstanceCall, call brokertest.Call) (broker.Answer, error) {
			if strings.HasPrefix(method, "Delete") {
				return call(ctx)
			}
			return broker.Answer{
				Reply: lifecycle.ReplyRefused, FromBackingBroker: true, Description: "the password " + marked + " is too weak",
			}, errors.New("422")
		}
	}
	fails := func(r *run, op string) string {
		r.step(op)
		r.failJob(brokertest.Rejected("the password " + marked + " is too weak"))
		r.drive(op)
		return op
	}
	for name, test := range map[string]struct {
		given func(*run) string // the operation that fails
		next  func(*run)        // what begins after it
	}{
		"a create whose job failed, then DELETE": {func(r *run) string { return fails(r, r.accepted(r.put())) }, func(r *run) { r.drive(r.accepted(r.remove())) }},
		"a create whose job failed, then PUT":    {func(r *run) string { return fails(r, r.accepted(r.put())) }, func(r *run) { r.accepted(r.put()) }},
		"a create that was refused, then DELETE": {func(r *run) string { refuses(r); op := r.accepted(r.put()); r.drive(op); return op }, func(r *run) { r.drive(r.accepted(r.remove())) }},
		"an update whose job failed, then PATCH": {func(r *run) string { r.ready(); return fails(r, r.accepted(r.patch(brokertest.PlanLarge))) }, func(r *run) { r.accepted(r.patch(brokertest.PlanLarge)) }},
		"an update that was refused, then DELETE": {func(r *run) string {
			r.ready()
			refuses(r)
			op := r.accepted(r.patch(brokertest.PlanLarge))
			r.drive(op)
			return op
		}, func(r *run) { r.accepted(r.remove()) }},
		"a delete that failed, then DELETE":    {func(r *run) string { r.ready(); return fails(r, r.accepted(r.remove())) }, func(r *run) { r.accepted(r.remove()) }},
		"a bind that was refused, then unbind": {func(r *run) string { r.ready(); refuses(r); op := r.accepted(r.bind()); r.drive(op); return op }, func(r *run) { r.drive(r.accepted(r.unbind())) }},
		"a bind that was refused, an orphan now": {func(r *run) string { r.ready(); refuses(r); op := r.accepted(r.bind()); r.drive(op); return op }, func(r *run) {
			old := r.record(bindingKey())
			r.drive(r.accepted(r.remove()))
			r.store(old)
			r.refused(r.unbind(), broker.CodeGone)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRun(t, brokertest.ScheduleOptions{})
			log := r.logs()
			op := test.given(r)
			p, err := r.polled(op)
			if err != nil || p.State != osb.Failed || !strings.Contains(p.Description, marked) {
				t.Errorf("poll = %+v, %v; want the backing broker's words", p, err)
			}
			test.next(r)
			if text := r.stored(); strings.Contains(text, marked) {
				t.Errorf("the store: %s", text)
			}
			if p, err := r.polled(op); err == nil && p.State == osb.Failed && p.Description == "" {
				t.Error("a poll of the old operation gets no description")
			}
			if text := log.String(); strings.Contains(text, marked) || !strings.Contains(text, "operation ended") {
				t.Errorf("the log:\n%s", text)
			}
		})
	}
}

// TestOwnWordsStay: what this broker itself said of an operation holds nothing secret.
func TestOwnWordsStay(t *testing.T) {
	t.Parallel()
	r := newRun(t, brokertest.ScheduleOptions{})
	op := r.accepted(r.put())
	r.drive(r.accepted(r.remove()))
	r.ready()
	if p, err := r.polled(op); err != nil || !strings.Contains(p.Description, "cancelled") {
		t.Errorf("poll of a cancelled create = %+v, %v", p, err)
	}
}

// TestACancelledOperationKeepsNoParameters [law 9]: they are needed no more from the moment of the DELETE, which may
// have to wait.
func TestACancelledOperationKeepsNoParameters(t *testing.T) {
	t.Parallel()
	secret := json.RawMessage(`{"password": "` + marked + `"}`)
	for name, cancelled := range map[string]func(*run){
		"a create": func(r *run) {
			r.accepted(r.begin("PUT", putOf(func(q *broker.ProvisionRequest) { q.Body.Parameters = secret })))
		},
		"an update": func(r *run) {
			r.ready()
			r.accepted(r.begin("PATCH", patchOf(func(q *broker.UpdateRequest) { q.Body.Parameters = secret })))
		},
		"a bind": func(r *run) {
			r.ready()
			r.accepted(r.begin("bind", bindWith(func(q *broker.BindRequest) { q.Body.Parameters = secret })))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRun(t, brokertest.ScheduleOptions{})
			cancelled(r)
			if !strings.Contains(r.stored(), marked) {
				t.Fatal("the parameters are not there in the first place")
			}
			if name == "a bind" {
				r.accepted(r.unbind())
			} else {
				r.accepted(r.remove())
			}
			if text := r.stored(); strings.Contains(text, marked) {
				t.Errorf("the store: %s", text)
			}
		})
	}
}

// TestParametersPassThrough: law 9. They reach Cloud Foundry letter for letter, are dropped once it took
// them, and are in no log.
func TestParametersPassThrough(t *testing.T) {
	t.Parallel()
	const text = `{ "secret":"hunter2",  "n": 1.0e0, "big":9007199254740993 }`
	var log bytes.Buffer
	r := newRun(t, brokertest.ScheduleOptions{})
	r.Log = &log
	created, err := putOf(func(q *broker.ProvisionRequest) { q.Body.Parameters = json.RawMessage(text) }).send(r)
	if err != nil {
		t.Fatal(err)
	}
	if got := string(r.record(instanceKey()).Parameters); got != text {
		t.Errorf("stored until they are sent: %q, want %q", got, text)
	}
	r.step(created.Operation)
	if got := r.Cloud.Left()[0].Parameters; got != text {
		t.Errorf("Cloud Foundry got %q, want %q", got, text)
	}
	stored, err := json.Marshal(r.Store.All())
	if err != nil || strings.Contains(string(stored), "hunter2") {
		t.Errorf("after the POST was accepted the store has %s, %v", stored, err)
	}
	r.drive(created.Operation)
	if strings.Contains(log.String(), "hunter2") || !strings.Contains(log.String(), "operation ended") {
		t.Errorf("the log:\n%s", log.String())
	}
}

// TestParametersOfAnOrphanAreDropped: a bind whose instance was deleted before its key was asked for.
func TestParametersOfAnOrphanAreDropped(t *testing.T) {
	t.Parallel()
	r := newReady(t, brokertest.ScheduleOptions{})
	late := r.Reach(r.begin("bind", successor("b", "", `{"secret":"hunter2"}`)), "Put")
	r.drive(r.accepted(r.remove()))
	r.accepted(late)
	r.refused(r.unbind(), broker.CodeGone)
	if p := r.record(bindingKey()).Parameters; len(p) != 0 {
		t.Errorf("the tombstone keeps %s", p)
	}
}
