package cfsim

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

// planSpec is a plan as the backing broker's catalog describes it. Kinds of
// operation that fates does not name are done at once.
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
