package acceptance

import (
	"fmt"
	"net/http"
	"testing"
	"time"
)

// TestDelete shows law 7: a DELETE leads to gone from every state, and nothing is left
// at the backing broker or in Cloud Foundry.
func TestDelete(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]func(tenant){
		"while_the_create_runs_CON-30":                          deleteDuringCreate,
		"while_an_update_stalls":                                deleteDuringUpdate,
		"of_an_instance_with_living_bindings_CON-39":            deleteWithBindings,
		"while_a_bind_runs_CON-54":                              deleteDuringBind,
		"while_a_held_bind_runs":                                deleteDuringHeldBind,
		"and_create_again_with_the_same_id_CON-17":              deleteAndCreate,
		"after_a_failed_create_leaves_nothing_CON-37":           deleteFailedCreate,
		"of_a_binding_while_its_POST_is_lost":                   unbindLostPost,
		"of_what_somebody_else_removed_already":                 deleteVanished,
		"does_not_touch_an_instance_of_somebody_else":           deleteStranger,
		"while_the_answer_of_the_DELETE_call_is_lost":           deleteLostDelete,
		"of_bindings_at_once_with_their_instance":               deleteBoth,
		"waits_for_an_update_whose_PATCH_may_still_take_effect": deleteLatePatch,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(start(t, budget(5*time.Second)))
		})
	}
}

func deleteDuringCreate(c tenant) {
	for _, plan := range []string{"postgres/async", "postgres/small", "faults/create-stalls", "faults/create-fails"} {
		s := created(c, plan)
		c.gone(s.id, plan)
		c.nothingLeft(s.id)
		if made, removed := c.asked("provision", s.id, ""), c.asked("deprovision", s.id, ""); made > 1 || made == 1 && removed == 0 && plan != "faults/create-fails" {
			c.t.Errorf("%s: the backing broker made %d and removed %d", plan, made, removed)
		}
		c.fails(at(s.id), s.operation, "cancelled")
	}
}

func deleteDuringUpdate(c tenant) {
	for _, end := range []string{"succeeded", "failed"} {
		s := updating(c)
		op := c.delete(s.id, s.plan, async).want(c.t, http.StatusAccepted).operation()
		c.fails(at(s.id), s.operation, "cancelled")
		if a := c.poll(at(s.id), op); a.state() != "in progress" {
			c.t.Errorf("%s: %s, want in progress while the update runs", a.request, a.body)
		}
		c.force(c.row(s.id).GUID, "update", end, map[string]string{"succeeded": "COMPLETE", "failed": "FAILED"}[end])
		c.succeeds(at(s.id), op)
		c.nothingLeft(s.id)
	}
}

func deleteWithBindings(c tenant) {
	for _, plan := range []string{"postgres/small", "postgres/async-bindings"} {
		id, first := c.bound(plan)
		second := c.id()
		c.bind(id, second, plan, "", plain).want(c.t, http.StatusCreated)
		c.gone(id, plan)
		c.nothingLeft(id)
		for _, binding := range []string{first, second} {
			c.askedFor(1, "unbind", id, binding)
			c.unbind(id, binding, plan, plain).want(c.t, http.StatusGone)
			c.send("GET", bindingAt(id, binding), "").says(c.t, http.StatusNotFound, "NotFound")
		}
	}
}

func deleteDuringBind(c tenant) {
	for _, plan := range []string{"faults/bind-stalls", "postgres/async-bindings"} {
		id, binding := c.ready(plan, ""), c.id()
		bind := c.bind(id, binding, plan, "", async).want(c.t, http.StatusAccepted).operation()
		c.gone(id, plan)
		c.fails(bindingAt(id, binding), bind)
		c.nothingLeft(id)
	}
}

func deleteDuringHeldBind(c tenant) {
	const plan = "faults/bind-stalls"
	id, binding := c.ready(plan, ""), c.id()
	held := later(func() answer { return c.bind(id, binding, plan, "", plain) })
	c.works("bind", id, binding)
	c.gone(id, plan)
	if a := <-held; a.status != http.StatusUnprocessableEntity && a.status != http.StatusInternalServerError {
		c.t.Errorf("the held bind: %d %s, want a refusal", a.status, a.body)
	}
	c.nothingLeft(id)
}

func deleteAndCreate(c tenant) {
	const plan = "postgres/small"
	id, binding := c.bound(plan)
	for life := 2; life <= 3; life++ {
		c.gone(id, plan)
		op := c.put(id, plan, fmt.Sprintf(`{"life":%d}`, life), async).want(c.t, http.StatusAccepted).operation()
		c.succeeds(at(id), op)
		c.unbind(id, binding, plan, plain).want(c.t, http.StatusGone) // of a former life
		c.bind(id, binding, plan, "", plain).want(c.t, http.StatusCreated)
		c.askedFor(life, "provision", id, "")
		c.askedFor(life, "bind", id, binding)
		c.askedFor(life-1, "deprovision", id, "")
	}
}

func deleteFailedCreate(c tenant) {
	for _, plan := range []string{"faults/create-fails", "faults/create-rejected"} {
		s := created(c, plan)
		c.fails(at(s.id), s.operation)
		c.gone(s.id, plan)
		c.nothingLeft(s.id)
	}
}

func deleteVanished(c tenant) {
	id, binding := c.bound("postgres/small")
	for _, k := range c.row(id).Keys {
		c.operator("DELETE", keys+"/"+k.GUID, "").want(c.t, http.StatusAccepted)
	}
	c.eventually("the key is gone", func() bool { return len(c.row(id).Keys) == 0 })
	c.operator("DELETE", instances+"/"+c.row(id).GUID, "").want(c.t, http.StatusAccepted)
	c.eventually("the instance is gone", func() bool { return len(c.rows(id)) == 0 })
	c.unbind(id, binding, "postgres/small", plain).want(c.t, http.StatusOK)
	c.gone(id, "postgres/small")
}

func deleteStranger(c tenant) {
	id := c.id()
	c.control("POST", "/instances", fmt.Sprintf(`{"org":"demo","space":"postgres","name":%q,"offering":"postgres","plan":"small"}`, id))
	op := c.put(id, "postgres/small", "", async).want(c.t, http.StatusAccepted).operation()
	c.fails(at(id), op, "name")
	c.gone(id, "postgres/small")
	if row := c.row(id); len(row.Annotations) != 0 {
		c.t.Errorf("the stranger's instance was touched: %+v", row)
	}
	c.askedFor(0, "deprovision", id, "")
}

// TestDeadline: a plan's maximum_polling_duration goes before the configured deadline
// (CAT-33, ASY-17), and a DELETE still works then.
func TestDeadline(t *testing.T) {
	t.Parallel()
	c := start(t, warnings)
	s := created(c, "faults/hurried")
	c.fails(at(s.id), s.operation)
	c.gone(s.id, s.plan)
	c.nothingLeft(s.id)
}

func deleteLostDelete(c tenant) {
	for _, when := range []string{"before", "after"} {
		id := c.ready("postgres/async", "")
		c.disturb(fault{Method: "DELETE", Route: instance, Times: 1, When: when, Action: "drop"})
		c.gone(id, "postgres/async")
		c.struck()
		c.nothingLeft(id)
		c.askedFor(1, "deprovision", id, "")
	}
}

func deleteBoth(c tenant) {
	const plan = "postgres/async-bindings"
	id, binding := c.bound(plan)
	unbind := later(func() answer { return c.unbind(id, binding, plan, plain) })
	deletion := c.delete(id, plan, async).want(c.t, http.StatusAccepted).operation()
	if a := <-unbind; a.status != http.StatusOK && a.status != http.StatusGone {
		c.t.Errorf("%s: %d %s, want 200 or 410", a.request, a.status, a.body)
	}
	c.succeeds(at(id), deletion)
	c.nothingLeft(id)
	c.askedFor(1, "unbind", id, binding)
}

func deleteLatePatch(c tenant) {
	s := readyInstance(c)
	c.disturb(fault{Method: "PATCH", Route: instance, Times: 1, When: "before", Action: "delay", DelayMS: 1200})
	c.patch(s.id, s.plan, `"parameters":{"a":2}`, async).want(c.t, http.StatusAccepted)
	c.struck()
	c.gone(s.id, s.plan)
	c.nothingLeft(s.id)
}
