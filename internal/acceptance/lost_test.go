package acceptance

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/ferry-broker/ferry/internal/osbtest"
)

// TestLostAnswers cancels a create whose POST has an unknown fate: the DELETE may end only when that POST can take
// effect no more (law 7, docs/protocol.md 6).
func TestLostAnswers(t *testing.T) {
	t.Parallel()
	// The first look after the POST comes later than the DELETE.
	c := start(t, func(s *settings) { s.config.Polling.First, s.config.Polling.Max = time.Second, time.Second })
	var all []lost
	for name, f := range fates() {
		for _, plan := range []string{"postgres/small", "postgres/async", "faults/create-stalls"} {
			l := lost{name: name + " on " + plan, id: c.NewID()}
			f.Match = osbtest.Quoted(l.id) // so that id-1 is not found in id-11
			c.Disturb(f.On("POST", instances, 1))
			l.create = c.Provision(l.id, plan, "").Want(http.StatusAccepted).Operation()
			c.struck()
			l.deletion = c.removes(l.id, plan)
			all = append(all, l)
		}
	}
	for _, l := range all {
		t.Run(l.name, func(t *testing.T) { l.check(c.in(t)) })
	}
}

// lost is a create whose POST had an unknown fate, and its delete.
type lost struct{ name, id, create, deletion string }

// fates are what may become of a POST whose answer tells nothing.
func fates() map[string]fault {
	return map[string]fault{
		"it took effect and the answer was lost":  {When: "after", Action: "drop"},
		"it got lost":                             {When: "before", Action: "drop"},
		"it takes effect after the DELETE":        {When: "before", Action: "delay", DelayMS: 1500},
		"its answer comes late":                   {When: "after", Action: "delay", DelayMS: 1500},
		"a router answered 502 after it":          {When: "after", Action: "respond", Status: 502, Body: "<html>bad gateway</html>"},
		"Cloud Foundry answered 500 after it":     {When: "after", Action: "respond", Status: 500, Body: `{"errors":[{"code":10001,"title":"UnknownError","detail":"x"}]}`},
		"a proxy answered 202 without a Location": {When: "after", Action: "respond", Status: 202, Body: ""},
	}
}

func (l lost) check(c tenant) {
	c.Succeeds(at(l.id), l.deletion)
	c.Fails(at(l.id), l.create, "cancelled")
	c.NothingLeft(l.id)
	if made, removed := c.Asked("provision", l.id, ""), c.Asked("deprovision", l.id, ""); made != removed {
		c.t.Errorf("the backing broker made %d and removed %d", made, removed)
	}
	c.Provision(l.id, "postgres/small", "").Want(http.StatusAccepted) // free again
}

// TestLostCalls are not cancelled: what got lost, or takes effect late, is done once. Lost answers are the scenarios
// 02, 27 and 37.
func TestLostCalls(t *testing.T) {
	t.Parallel()
	for name, f := range map[string]fault{
		"the call was lost":          {When: "before", Action: "drop"},
		"the call takes effect late": {When: "before", Action: "delay", DelayMS: 700},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := start(t)
			c.Disturb(f.On("POST", instances, 1))
			id, op := c.starts("postgres/small")
			c.Succeeds(at(id), op)
			c.AskedFor(1, "provision", id, "")
			c.Disturb(f.On("POST", keys, 1))
			c.Bind(id, "b", "postgres/small", "").Want(http.StatusCreated)
			c.HasKeys(id, "b")
			c.AskedFor(1, "bind", id, "b")
			c.Disturb(f.On("PATCH", instance, 1))
			c.Succeeds(at(id), c.changes(id, "postgres/small"))
			c.HasParameters(id, `{"a":2}`)
		})
	}
}

// TestDelete shows law 7 where calls meet or their fate is unknown: a DELETE leads to gone, and nothing is left. What
// it is answered in each state is part of TestConformance.
func TestDelete(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]func(tenant){
		"while the create runs":                                 deleteDuringCreate,
		"and create again with the same id":                     deleteAndCreate,
		"of a binding while its POST is lost":                   unbindLostPost,
		"does not touch an instance of somebody else":           deleteStranger,
		"while the answer of the DELETE call is lost":           deleteLostDelete,
		"of bindings at once with their instance":               deleteBoth,
		"right after a bind was accepted":                       deleteDuringBind,
		"waits for an update that fails":                        deleteDuringUpdate,
		"waits for an update whose PATCH may still take effect": deleteLatePatch,
		"beside an update":                                      deleteBesideUpdate,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(start(t, budget(5*time.Second)))
		})
	}
}

func deleteDuringCreate(c tenant) {
	for _, plan := range []string{"postgres/async", "postgres/small", "faults/create-fails"} {
		id, create := c.starts(plan)
		c.Gone(id, plan)
		if made, removed := c.Asked("provision", id, ""), c.Asked("deprovision", id, ""); made > 1 || made == 1 && removed == 0 && plan != "faults/create-fails" {
			c.t.Errorf("%s: the backing broker made %d and removed %d", plan, made, removed)
		}
		c.Fails(at(id), create, "cancelled")
	}
}

func deleteAndCreate(c tenant) {
	const plan = "postgres/small"
	id, binding := c.Bound(plan)
	for life := 2; life <= 3; life++ {
		c.Deleted(id, plan)
		c.Succeeds(at(id), c.Provision(id, plan, fmt.Sprintf(`{"life":%d}`, life)).Want(http.StatusAccepted).Operation())
		c.Unbind(id, binding, plan).Bare(http.StatusGone) // of a former life
		c.Bind(id, binding, plan, "").Want(http.StatusCreated)
		c.AskedFor(life, "provision", id, "")
		c.AskedFor(life, "bind", id, binding)
		c.AskedFor(life-1, "deprovision", id, "")
	}
}

func unbindLostPost(c tenant) {
	const plan = "faults/bind-stalls"
	type attempt struct{ id, bind, unbind string }
	var all []attempt
	for _, f := range []fault{{When: "after", Action: "drop"}, {When: "before", Action: "drop"}, {When: "before", Action: "delay", DelayMS: 1000}} {
		a := attempt{id: c.Ready(plan, "")}
		c.Disturb(f.On("POST", keys, 1))
		a.bind = c.Bind(a.id, "b", plan, "", osbtest.Async).Want(http.StatusAccepted).Operation()
		c.struck()
		a.unbind = c.Unbind(a.id, "b", plan, osbtest.Async).Want(http.StatusAccepted).Operation()
		all = append(all, a)
	}
	for _, a := range all {
		c.Succeeds(bindingAt(a.id, "b"), a.unbind)
		c.Fails(bindingAt(a.id, "b"), a.bind, "cancelled")
		c.HasKeys(a.id)
		if made, removed := c.Asked("bind", a.id, "b"), c.Asked("unbind", a.id, "b"); made != removed {
			c.t.Errorf("%s: the backing broker made %d and removed %d", a.id, made, removed)
		}
	}
}

func deleteStranger(c tenant) {
	id := c.NewID()
	c.Control("POST", "/instances", fmt.Sprintf(`{"org":"demo","space":"postgres","name":%q,"offering":"postgres","plan":"small"}`, id))
	op := c.Provision(id, "postgres/small", "").Want(http.StatusAccepted).Operation()
	c.Fails(at(id), op, "name")
	c.Deleted(id, "postgres/small")
	if row := c.Row(id); len(row.Annotations) != 0 {
		c.t.Errorf("the stranger's instance was touched: %+v", row)
	}
	c.AskedFor(0, "deprovision", id, "")
}

func deleteLostDelete(c tenant) {
	for _, when := range []string{"before", "after"} {
		id := c.Ready("postgres/async", "")
		c.Disturb(fault{When: when, Action: "drop"}.On("DELETE", instance, 1))
		c.Gone(id, "postgres/async")
		c.struck()
		c.AskedFor(1, "deprovision", id, "")
	}
}

func deleteBoth(c tenant) {
	const plan = "postgres/async-bindings"
	for _, flag := range []osbtest.Change{osbtest.Sync, osbtest.Async} {
		id, binding := c.Bound(plan)
		unbind := osbtest.Later(func() answer { return c.Unbind(id, binding, plan, flag) })
		deletion := c.removes(id, plan)
		if a := <-unbind; a.Status != http.StatusOK && a.Status != http.StatusAccepted && a.Status != http.StatusGone {
			c.t.Errorf("%s: %d %s, want 200, 202 or 410", a.Request, a.Status, a.Body)
		}
		c.goneFor(id, deletion)
		c.AskedFor(1, "unbind", id, binding)
	}
}

func deleteDuringBind(c tenant) {
	const plan = "postgres/async-bindings"
	id := c.Ready(plan, "")
	bind := c.Bind(id, "b", plan, "", osbtest.Async).Want(http.StatusAccepted).Operation()
	c.Gone(id, plan)
	c.Fails(bindingAt(id, "b"), bind)
}

func deleteDuringUpdate(c tenant) {
	const plan = "faults/update-stalls"
	id := c.Ready(plan, `{"a":1}`)
	update := c.changes(id, plan)
	c.Works("update", id, "")
	op := c.removes(id, plan)
	c.Fails(at(id), update, "cancelled")
	c.runs(at(id), op)
	c.Force(c.Row(id).GUID, "update", "failed", "FAILED")
	c.goneFor(id, op)
}

func deleteLatePatch(c tenant) {
	id := c.Ready("postgres/small", "")
	c.Disturb(fault{When: "before", Action: "delay", DelayMS: 1200}.On("PATCH", instance, 1))
	c.changes(id, "postgres/small")
	c.struck()
	c.Gone(id, "postgres/small")
}

func deleteBesideUpdate(c tenant) {
	for range 5 {
		id := c.Ready("postgres/small", `{"a":1}`)
		update := osbtest.Later(func() answer { return c.Update(id, "postgres/small", `"parameters":{"a":2}`) })
		c.Gone(id, "postgres/small")
		<-update
	}
}
