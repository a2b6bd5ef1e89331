package cfsim

import (
	"encoding/json"
	"time"
)

// fate is what the backing broker does with one kind of operation.
type fate int

const (
	atOnce      fate = iota // done when it answers
	delayed                 // 202, done after the broker's delay
	rejected                // 400 with a description
	fails                   // 202, failed after the broker's delay
	stalls                  // 202, in progress for ever
	timesOut                // no answer
	failsOnce               // as fails, the next time as atOnce
	needsApp                // 422 RequiresApp
	unfetchable             // 202, done after the broker's delay, but cannot be read
)

// What a backing broker is asked to do, in the words of broker_calls.
const (
	provision   = "provision"
	update      = "update"
	deprovision = "deprovision"
	bind        = "bind"
	unbind      = "unbind"
)

// planSpec is a plan as the backing broker's catalog describes it. Kinds of operation that fates does not name are done
// at once.
type planSpec struct {
	name         string
	description  string
	fates        map[string]fate
	version      string // of maintenance_info
	pollingLimit int    // seconds, 0 when the plan says nothing
	notBindable  bool
	schemas      schemas
}

// offeringSpec is an offering as the backing broker's catalog describes it.
type offeringSpec struct {
	name        string
	description string
	tags        []string
	requires    []string
	bindable    bool
	updateable  bool // plan_updateable
	retrievable bool // instances and bindings
	contexts    bool // allow_context_updates
	plans       []planSpec
}

func catalog() []offeringSpec {
	return []offeringSpec{
		{
			name: "postgres", description: "Databases whose plans all do what is asked of them", tags: []string{"sql", "relational"},
			bindable: true, updateable: true, retrievable: true, contexts: true, plans: postgresPlans(),
		},
		{
			name: "faults", description: "Databases whose plans each fail in a way of their own", tags: []string{"faults"},
			bindable: true, updateable: true, retrievable: true, contexts: true, plans: faultPlans(),
		},
		{
			name: "queue", description: "Queues that cannot be bound or changed", tags: []string{"messaging"},
			plans: []planSpec{
				{name: "standard", description: "A queue"},
				{name: "priority", description: "A queue with priorities"},
			},
		},
		{
			name: "drain", description: "A log drain with a volume", tags: []string{"logs"}, requires: []string{"syslog_drain", "volume_mount"}, bindable: true,
			plans: []planSpec{{name: "standard", description: "A drain"}},
		},
	}
}

func postgresPlans() []planSpec {
	slowInstances := map[string]fate{provision: delayed, update: delayed, deprovision: delayed}
	slow := map[string]fate{provision: delayed, update: delayed, deprovision: delayed, bind: delayed, unbind: delayed}
	return []planSpec{
		{name: "small", description: "A small database, at once"},
		{name: "large", description: "A large database, at once"},
		{name: "async", description: "A database that takes its time", fates: slowInstances},
		{name: "async-bindings", description: "A database that takes its time, as do its bindings", fates: slow},
		{name: "schema", description: "A database that is particular about parameters", schemas: schemasOfPlan()},
		{name: "maintained", description: "A database with a version", version: "2.1.0"},
		{name: "no-bindings", description: "A database that cannot be bound", notBindable: true},
		{name: "app-only", description: "A database that is bound to applications only", fates: map[string]fate{bind: needsApp}},
	}
}

// faultPlans are named after the operation and what becomes of it.
func faultPlans() []planSpec {
	operations := []struct{ word, operation string }{
		{"create", provision}, {"update", update}, {"delete", deprovision}, {"bind", bind}, {"unbind", unbind},
	}
	outcomes := []struct {
		word, phrase string
		fate         fate
	}{{"rejected", "is rejected", rejected}, {"fails", "fails", fails}, {"stalls", "stalls", stalls}}
	var plans []planSpec
	for _, outcome := range outcomes {
		for _, o := range operations {
			plans = append(plans, planSpec{
				name:        o.word + "-" + outcome.word,
				description: "Every " + o.word + " " + outcome.phrase,
				fates:       map[string]fate{o.operation: outcome.fate},
			})
		}
	}
	return append(plans,
		planSpec{name: "hurried", description: "A create stalls and is given up soon", fates: map[string]fate{provision: stalls}, pollingLimit: 3},
		planSpec{name: "create-times-out", description: "A create is never answered", fates: map[string]fate{provision: timesOut}},
		planSpec{name: "delete-fails-once", description: "The first delete fails", fates: map[string]fate{deprovision: failsOnce}},
	)
}

// schemas of the parameters of a plan; empty where it has none.
type schemas struct {
	create, update, bind json.RawMessage
}

// schemasOfPlan are those of postgres/schema.
func schemasOfPlan() schemas {
	const head = `{"$schema":"http://json-schema.org/draft-04/schema#","type":"object","additionalProperties":false,`
	const sized = `"properties":{"size":{"type":"integer","minimum":1,"maximum":100},"name":{"type":"string"}}`
	return schemas{
		create: json.RawMessage(head + sized + `,"required":["size"]}`),
		update: json.RawMessage(head + sized + `}`),
		bind:   json.RawMessage(head + `"properties":{"name":{"type":"string"}}}`),
	}
}

// brokerCall is what broker_calls are counted by.
type brokerCall struct {
	org, instance, binding, operation string
}

// outcome is the kind of answer that the backing broker gives.
type outcome int

const (
	replyDone     outcome = iota // 200, 201
	replyAccepted                // 202
	replyRefused                 // an error with a message
	replySilent                  // none
	replyLater                   // not asked yet: ask again after the poll interval
	replyNever                   // not asked, and never will be
)

type reply struct {
	outcome outcome
	// message is the Cloud Controller's rendering of the error.
	message string
	// whole tells that the message is not to be extended any more.
	whole bool
	// kind names a refusal that some operations treat in their own way.
	kind string
	// orphan tells that the refused request may have left something behind.
	orphan bool
	// own are errors of the job that take the place of the usual one.
	own []cfError
	// dashboard is what an instance gets, "" for nothing; details is all that a bind has brought, nil for the usual.
	dashboard string
	details   json.RawMessage
}

// backingBroker is the service broker behind the Cloud Controller. What it does depends on the plan, unless the control
// has instructed it otherwise.
type backingBroker struct {
	delay   time.Duration
	calls   map[brokerCall]int
	pending map[string]pendingOperation // by GUID of instance or binding
	failed  map[string]bool             // instances whose first delete has failed

	instructions    []*instruction
	lastInstruction int
	repeated        map[brokerCall]int // requests sent again while one runs (Korifi)
}

type pendingOperation struct {
	fate        fate
	word        string
	ready       time.Time
	retry       time.Duration // how long the broker wants to be left alone
	description string        // of a failure, "" for the usual one
}

func newBackingBroker(delay time.Duration) *backingBroker {
	b := &backingBroker{delay: delay}
	b.forget()
	return b
}

func (b *backingBroker) forget() {
	b.calls = map[brokerCall]int{}
	b.pending = map[string]pendingOperation{}
	b.failed = map[string]bool{}
	b.repeated = map[brokerCall]int{}
	b.instructions = nil
}

// ask has the broker do what c says to the instance or binding with that GUID.
func (b *backingBroker) ask(c brokerCall, fates map[string]fate, guid string) reply {
	b.calls[c]++
	if i := b.instructed(c); i != nil {
		return b.obey(i, c, guid)
	}
	switch f := b.fateOf(fates[c.operation], guid); f {
	case rejected:
		return reply{outcome: replyRefused, message: "Service broker error: " + brokerWords(c.operation) + " is refused by this plan"}
	case needsApp:
		return reply{outcome: replyRefused, message: appRequired}
	case timesOut:
		return reply{outcome: replySilent}
	case delayed, fails, stalls:
		b.pending[guid] = pendingOperation{fate: f, word: c.operation, ready: time.Now().Add(b.delay)}
		return reply{outcome: replyAccepted}
	default:
		delete(b.pending, guid)
		return reply{outcome: replyDone}
	}
}

func brokerWords(operation string) string {
	return map[string]string{
		provision: "The create", update: "The update", deprovision: "The delete", bind: "The bind", unbind: "The unbind",
	}[operation]
}

// fateOf resolves fates that depend on what happened before.
func (b *backingBroker) fateOf(f fate, guid string) fate {
	if f != failsOnce {
		return f
	}
	if b.failed[guid] {
		delete(b.failed, guid)
		return atOnce
	}
	b.failed[guid] = true
	return fails
}

// pollState is what the backing broker says of an asynchronous operation.
type pollState int

const (
	pollRunning pollState = iota
	pollSucceeded
	pollFailed
	pollUnfetched // done, but what it made cannot be read
)

// poll returns the state of the operation that runs on a GUID, and a description when it failed.
func (b *backingBroker) poll(guid string) (pollState, string) {
	p, known := b.pending[guid]
	switch {
	case known && (p.fate == stalls || time.Now().Before(p.ready)):
		return pollRunning, ""
	case known && p.fate == fails:
		delete(b.pending, guid)
		if p.description != "" {
			return pollFailed, p.description
		}
		return pollFailed, brokerWords(p.word) + " fails with this plan"
	case known && p.fate == unfetchable:
		delete(b.pending, guid)
		if p.description != "" {
			return pollUnfetched, "Service broker error: " + p.description
		}
		return pollUnfetched, badResponse
	}
	delete(b.pending, guid)
	return pollSucceeded, ""
}

// patience is how long the broker wants to be left alone before the next poll.
func (b *backingBroker) patience(guid string) time.Duration { return b.pending[guid].retry }

// forgetOperation drops what is known of an instance or binding that is gone.
func (b *backingBroker) forgetOperation(guid string) {
	delete(b.pending, guid)
	delete(b.failed, guid)
}

type schemaView struct {
	Parameters json.RawMessage `json:"parameters"`
}

type schemasView struct {
	ServiceInstance struct {
		Create schemaView `json:"create"`
		Update schemaView `json:"update"`
	} `json:"service_instance"`
	ServiceBinding struct {
		Create schemaView `json:"create"`
	} `json:"service_binding"`
}

func (s schemas) view() schemasView {
	var v schemasView
	v.ServiceInstance.Create = schemaView{orEmpty(s.create)}
	v.ServiceInstance.Update = schemaView{orEmpty(s.update)}
	v.ServiceBinding.Create = schemaView{orEmpty(s.bind)}
	return v
}

// orEmpty is an object even when there is none.
func orEmpty(raw json.RawMessage) json.RawMessage {
	if raw == nil {
		return json.RawMessage("{}")
	}
	return raw
}
