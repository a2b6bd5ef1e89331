package lambda

import (
	"fmt"
	"slices"
	"testing"
	"time"
)

const (
	instanceID = "0d5ad2d6-2f2c-4f0e-9d3b-6d2f6a0f0001"
	bindingID  = "0d5ad2d6-2f2c-4f0e-9d3b-6d2f6a0f0002"
	service    = "c1bdaf3c-d4fc-8216-aa15-6fd5195e3efc"
	small      = "84a1f17d-7f77-8e25-8e4d-38896314fafd"
	large      = "c455da07-bf5c-803c-a7b4-1c85ddc4a794"
	async      = "?accepts_incomplete=true"
	ids        = "service_id=" + service + "&plan_id=" + small
)

func at(instance string) string { return "/v2/service_instances/" + instance }
func key(binding string) string { return at(instanceID) + "/service_bindings/" + binding }

func provisionBody(plan string) string {
	return fmt.Sprintf(`{"service_id":%q,"plan_id":%q,"organization_guid":"org-1","space_guid":"space-1",`+
		`"context":{"platform":"kubernetes","namespace":"shop","clusterid":"cluster-1"},"parameters":{"size":3}}`, service, plan)
}

func bindBody() string {
	return fmt.Sprintf(`{"service_id":%q,"plan_id":%q,"context":{"platform":"kubernetes","namespace":"shop","clusterid":"cluster-1"}}`, service, small)
}

// costed is a thing that platforms or workflows do, and the calls that it may take.
type costed struct {
	name   string
	before func() // is not counted
	do     func()
	want   string
	took   tally
}

// calls are all of them, in an order that makes one life of them; the environments
// are warm, and what is read anew once a minute has just been read.
func (s *stack) calls() []costed {
	return slices.Concat(s.reads(), s.creates(), s.updates(), s.binds(), s.deletes(), s.rounds())
}

func (s *stack) reads() []costed {
	return []costed{
		{name: "catalog", do: func() { s.ask(200, "GET", "/v2/catalog", "") }, want: "nothing"},
		{name: "catalog that the platform has already (304)", do: s.unchanged, want: "nothing"},
		{name: "request without credentials (401)", do: s.stranger, want: "nothing"},
	}
}

func (s *stack) creates() []costed {
	body := provisionBody(small)
	put := func(status int, body string) func() {
		return func() { s.ask(status, "PUT", at(instanceID)+async, body) }
	}
	return []costed{
		{name: "create, accepted", do: put(202, body), want: "1 PutItem, 1 StartExecution"},
		{name: "the same create again while it runs", do: put(202, body), want: "1 PutItem refused"},
		{name: "a create of that id that differs (409)", do: put(409, provisionBody(large)), want: "1 PutItem refused"},
		{name: "poll of an instance", do: func() { s.ask(200, "GET", at(instanceID)+"/last_operation", "") }, want: "1 GetItem"},
		{name: "create: first tick (POST)", do: s.heldTurn, want: "1 CF call, 1 GetItem, 2 PutItem"},
		{name: "create: a tick that changes nothing", do: s.turn, want: "1 CF call, 1 GetItem, 1 PutItem"},
		{name: "create: last tick", do: s.lastTurn, want: "1 CF call, 1 GetItem, 1 PutItem"},
		{name: "poll of an instance that is done", do: func() { s.ask(200, "GET", at(instanceID)+"/last_operation", "") }, want: "1 GetItem"},
		{name: "the same create again when it is done", do: put(200, body), want: "1 PutItem refused"},
		{name: "a create of that id that differs, later (409)", do: put(409, provisionBody(large)), want: "1 PutItem refused"},
		{name: "fetch of an instance", do: func() { s.ask(200, "GET", at(instanceID), "") }, want: "1 CF call, 1 GetItem"},
	}
}

func (s *stack) updates() []costed {
	patch := func() {
		s.ask(202, "PATCH", at(instanceID)+async, fmt.Sprintf(`{"service_id":%q,"parameters":{"size":4}}`, service))
	}
	return []costed{
		{name: "update, accepted", do: patch, want: "1 GetItem, 1 PutItem, 1 StartExecution"},
		{name: "the same update again while it runs", do: patch, want: "1 GetItem"},
		{name: "update: first tick (PATCH)", do: s.heldTurn, want: "2 CF call, 1 GetItem, 2 PutItem"},
		{name: "update: a tick that changes nothing", do: s.turn, want: "1 CF call, 1 GetItem, 1 PutItem"},
		{name: "update: last tick", do: s.lastTurn, want: "1 CF call, 1 GetItem, 1 PutItem"},
	}
}

func (s *stack) binds() []costed {
	bind := func(status int, id, query string) func() {
		return func() { s.ask(status, "PUT", key(id)+query, bindBody()) }
	}
	unbind := func() { s.ask(202, "DELETE", key(bindingID)+async+"&"+ids, "") }
	return []costed{
		{name: "bind, asynchronous, accepted", do: bind(202, bindingID, async), want: "1 GetItem, 1 PutItem, 1 StartExecution"},
		{name: "the same bind again while it runs", do: bind(202, bindingID, async), want: "2 GetItem, 1 PutItem refused"},
		{name: "poll of a binding", do: func() { s.ask(200, "GET", key(bindingID)+"/last_operation", "") }, want: "2 GetItem"},
		{name: "bind: first tick (POST)", do: s.heldTurn, want: "1 CF call, 2 GetItem, 2 PutItem"},
		{name: "bind: a tick that changes nothing", do: s.turn, want: "1 CF call, 2 GetItem, 1 PutItem"},
		{name: "bind: last tick", do: s.lastTurn, want: "1 CF call, 2 GetItem, 1 PutItem"},
		{name: "the same bind again when it is done", do: bind(200, bindingID, async), want: "1 CF call, 2 GetItem, 1 PutItem refused"},
		{name: "fetch of a binding", do: func() { s.ask(200, "GET", key(bindingID), "") }, want: "2 CF call, 2 GetItem"},
		{name: "bind, held until it is done", do: bind(201, "held-"+bindingID, ""), want: "3 CF call, 6 GetItem, 4 PutItem, 1 StartExecution, 1 StopExecution"},
		{name: "the same held bind again when it is done", do: bind(200, "held-"+bindingID, ""), want: "1 CF call, 2 GetItem, 1 PutItem refused"},
		{name: "unbind, held until it is done", before: bind(201, "short-"+bindingID, ""), do: func() {
			s.ask(200, "DELETE", key("short-"+bindingID)+"?"+ids, "")
		}, want: "6 CF call, 7 GetItem, 4 PutItem, 1 StartExecution, 1 StopExecution"},
		{name: "unbind, asynchronous, accepted", do: unbind, want: "2 GetItem, 1 PutItem, 1 StartExecution"},
		{name: "the same unbind again while it runs", do: unbind, want: "2 GetItem"},
		{name: "unbind: first tick (DELETE)", do: s.heldTurn, want: "2 CF call, 2 GetItem, 2 PutItem"},
		{name: "unbind: a tick that changes nothing", do: s.turn, want: "1 CF call, 2 GetItem, 1 PutItem"},
		{name: "unbind: last tick", do: s.lastTurn, want: "4 CF call, 2 GetItem, 1 PutItem"},
	}
}

func (s *stack) deletes() []costed {
	remove := func(status int) func() {
		return func() { s.ask(status, "DELETE", at(instanceID)+async+"&"+ids, "") }
	}
	return []costed{
		{name: "delete, accepted", do: remove(202), want: "1 GetItem, 1 PutItem, 1 StartExecution"},
		{name: "the same delete again while it runs", do: remove(202), want: "1 GetItem"},
		{name: "delete: first tick (one binding left)", do: s.turn, want: "1 CF call, 4 GetItem, 2 PutItem, 1 Query, 1 StartExecution"},
		{name: "delete: the unbind that it began", do: s.branch, want: "6 CF call, 4 GetItem, 3 PutItem"},
		{name: "delete: next tick (DELETE)", do: s.heldTurn, want: "3 CF call, 1 GetItem, 2 PutItem, 1 Query"},
		{name: "delete: a tick that changes nothing", do: s.turn, want: "1 CF call, 1 GetItem, 1 PutItem"},
		{name: "delete: last tick", do: s.lastTurn, want: "4 CF call, 1 GetItem, 1 PutItem"},
		{name: "poll of an instance that is gone", do: func() { s.ask(200, "GET", at(instanceID)+"/last_operation?operation=x", "") }, want: "1 GetItem"},
		{name: "the same delete again when it is done (410)", do: remove(410), want: "1 GetItem, 1 PutItem"},
	}
}

func (s *stack) rounds() []costed {
	return []costed{
		{name: "janitor's round with nothing due", do: func() { s.sweep(TaskRound) }, want: "4 Query"},
		{name: "janitor's audit of an empty Cloud Foundry", do: func() { s.sweep(TaskAudit) }, want: "1 CF call, 1 PutItem"},
		{name: "janitor's look whether an audit is due", do: s.sweepDue, want: "1 GetItem"},
	}
}

// count returns what it took.
func (s *stack) count(c costed) tally {
	s.Helper()
	if c.before != nil {
		c.before()
	}
	s.fresh()
	return s.counted(c.do)
}

// TestCallsOfAWS holds what each thing takes against what it may take.
func TestCallsOfAWS(t *testing.T) {
	t.Parallel()
	s := newStack(t, 24*time.Hour)
	s.warm()
	for _, c := range s.calls() {
		took := s.count(c)
		t.Logf("%-48s %v; %v RRU, %v WRU, %d bytes logged", c.name, took, took.reads, took.writes, took.logged)
		if took.String() != c.want {
			t.Errorf("%s: %v, want %s", c.name, took, c.want)
		}
	}
	// A figure for docs/aws-cost.md, which depends on the machine: nothing is held against it.
	for name, all := range s.own {
		slices.Sort(all)
		t.Logf("%s: %d invocations, %v by themselves in the middle, %v the longest", name, len(all), all[len(all)/2], all[len(all)-1])
	}
}
