package acceptance

import (
	"slices"
	"time"
)

func orphanCases() []clause {
	return []clause{
		{"ORP-02 a failed update deletes nothing", func(c tenant) {
			s := updateFailed(c)
			c.send("GET", at(s.id), "").want(c.t, 200).has(c.t, "plan_id", quoted(c.plan(s.plan).plan))
			c.put(s.id, s.plan, s.parameters, async).want(c.t, 200)
		}},
		{"ORP-04 ORP-05 each failing create costs one call, and says why", func(c tenant) {
			id, seen := c.id(), []string{}
			for n := 1; n <= 2; n++ {
				op := c.put(id, "faults/create-rejected", "", async).want(c.t, 202).operation()
				c.fails(at(id), op, "refused by this plan")
				if c.askedFor(n, "provision", id, ""); slices.Contains(seen, op) {
					c.t.Errorf("the second create has the operation %s of the first", op)
				}
				seen = append(seen, op)
			}
		}},
		{"ORP-10 ORP-14 a create that failed before it had a GUID is deleted", func(c tenant) {
			id := c.id()
			c.fails(at(id), c.put(id, "faults/create-rejected", "", async).want(c.t, 202).operation())
			c.gone(id, "faults/create-rejected")
			c.nothingLeft(id)
		}},
		{"ORP-11 LOP-23 a delete is polled at once", func(c tenant) {
			id := c.one()
			op := c.delete(id, "postgres/small", async).want(c.t, 202).operation()
			c.poll(at(id), op).want(c.t, 200)
			c.succeeds(at(id), op)
			c.poll(at(id), op).want(c.t, 200)
		}},
		{"ORP-12 a failed create is not there", func(c tenant) { c.send("GET", at(createFailed(c).id), "").says(c.t, 404, "NotFound") }},
		{"ORP-13 DEL-01 an unbind of what was never there", func(c tenant) { c.unbind(c.one(), c.id(), "postgres/small", plain).bare(c.t, 410) }},
		{"ORP-15 a delete repeated while it runs", func(c tenant) {
			s := deleting(c)
			if a := c.delete(s.id, s.plan, async).want(c.t, 202); a.operation() != s.operation {
				c.t.Errorf("%s: %s, want the operation %s", a.request, a.body, s.operation)
			}
			c.row(s.id)
		}},
		{"ORP-16 DEL-09 after a failed delete it is there, can be bound and deleted again", func(c tenant) {
			s := readyOn(c, "faults/delete-fails-once")
			c.fails(at(s.id), c.delete(s.id, s.plan, async).want(c.t, 202).operation())
			c.send("GET", at(s.id), "").want(c.t, 200)
			c.bind(s.id, c.id(), s.plan, "", plain).want(c.t, 201)
			c.gone(s.id, s.plan)
		}},
	}
}

func pollCases() []clause {
	return []clause{
		{"LOP-01 LOP-03 LOP-04 a finished delete: 200 succeeded however often and whatever is asked for (Decided 1)", finishedDeletes},
		{"LOP-02 LOP-28 what was never there is 404", func(c tenant) {
			for _, op := range []string{"", "create-0123"} {
				c.poll(at(c.id()), op).says(c.t, 404, "NotFound")
			}
		}},
		{"LOP-07 LOP-27 with the operation and without", func(c tenant) {
			s := creating(c)
			c.poll(at(s.id), s.operation).same(c.t, c.poll(at(s.id), ""))
			p := c.plan(s.plan)
			c.send("GET", at(s.id)+"/last_operation?service_id="+p.service+"&plan_id="+p.plan, "").want(c.t, 200)
		}},
		{"LOP-10 CFC-04 the backing broker's words reach the platform", func(c tenant) { createFailed(c) }},
		{"LOP-15 LOP-16 LOP-17 Retry-After on the 202 and on the poll", func(c tenant) {
			s := subject{id: c.id(), plan: "faults/create-stalls"}
			for _, a := range []answer{c.put(s.id, s.plan, "", async).want(c.t, 202), c.poll(at(s.id), "").want(c.t, 200)} {
				if a.header.Get("Retry-After") == "" { // its value is checked of every answer
					c.t.Errorf("%s: no Retry-After", a.request)
				}
			}
		}},
		{"LOP-19 LOP-20 LOP-21 LOP-22 right after each 202: in progress", func(c tenant) {
			update, remove := updating(c), deleting(c)
			unbind := bindingOn("faults/unbind-stalls", true, "in progress")(c)
			for path, op := range map[string]string{
				at(update.id): update.operation, at(remove.id): remove.operation, bindingAt(unbind.id, unbind.binding): unbind.operation,
			} {
				c.poll(path, op).want(c.t, 200).has(c.t, "state", `"in progress"`)
			}
		}},
		{"LOP-24 a failed create whose row is gone", func(c tenant) {
			s := createFailed(c)
			c.gone(s.id, s.plan)
			if a := c.poll(at(s.id), s.operation).want(c.t, 200); a.state() != "failed" || a.text("description") == "" {
				c.t.Errorf("%s: %s", a.request, a.body)
			}
		}},
	}
}

func deleteCases() []clause {
	return []clause{
		{"DEL-03 an unbind of what is gone in Cloud Foundry", func(c tenant) {
			id, binding := c.bound("postgres/small")
			c.operator("DELETE", "/v3/service_credential_bindings/"+c.row(id).Keys[0].GUID, "")
			c.eventually("the key is gone", func() bool { return len(c.row(id).Keys) == 0 })
			c.unbind(id, binding, "postgres/small", plain).bare(c.t, 200)
		}},
		{"DEL-04 a delete of what was never there", func(c tenant) { c.delete(c.id(), "postgres/small", async).bare(c.t, 410) }},
		{"DEL-05 a delete takes the bindings along", removesAll},
		{"DEL-06 a delete while a bind runs: accepted, and the bind fails (Decided 4)", func(c tenant) {
			s := bindingOn("faults/bind-stalls", false, "in progress")(c)
			c.gone(s.id, s.plan)
			c.nothingLeft(s.id)
			if a := c.poll(bindingAt(s.id, s.binding), s.operation); a.status == 200 && a.state() != "failed" {
				c.t.Errorf("%s: %s", a.request, a.body)
			}
		}},
		{"DEL-08 an unbind after somebody removed the instance", func(c tenant) {
			id, binding := c.bound("postgres/small")
			c.operator("DELETE", "/v3/service_instances/"+c.row(id).GUID, "")
			c.eventually("the instance is gone", func() bool { return len(c.rows(id)) == 0 })
			c.unbind(id, binding, "postgres/small", plain).bare(c.t, 200)
			c.gone(id, "postgres/small")
		}},
		{"DEL-10 DEL-12 after a failed update it is bound, updated and deleted", func(c tenant) {
			s := updateFailed(c)
			c.bind(s.id, c.id(), s.plan, "", plain).want(c.t, 201)
			c.fails(at(s.id), c.patch(s.id, s.plan, `"parameters":{"a":2}`, async).want(c.t, 202).operation())
			c.gone(s.id, s.plan)
		}},
		{"DEL-13 a create and an update are ended by a delete alike", deleteDuring},
		{"DEL-14 polls of what is deleted, unknown and alive (Decided 1)", func(c tenant) {
			id := c.one()
			c.poll(at(id), "").want(c.t, 200)
			c.gone(id, "postgres/small")
			c.poll(at(id), "").want(c.t, 200).has(c.t, "state", `"succeeded"`)
			c.poll(at(c.id()), "").want(c.t, 404)
		}},
	}
}

func concurrencyCases() []clause {
	return []clause{
		{"CON-01 updates and deletes that meet all end", func(c tenant) {
			for range 5 {
				id := c.one()
				together(2, func(i int) answer {
					if i == 0 {
						return c.patch(id, "postgres/small", `"parameters":{"a":2}`, async)
					}
					a := c.delete(id, "postgres/small", async)
					return a.want(c.t, 202)
				})
				c.succeeds(at(id), "")
				c.nothingLeft(id)
			}
		}},
		{"CON-04 an unbind and a delete that meet leave nothing", func(c tenant) {
			id, binding := c.bound("postgres/async-bindings")
			answers := together(2, func(i int) answer {
				if i == 0 {
					return c.unbind(id, binding, "postgres/async-bindings", async)
				}
				return c.delete(id, "postgres/async-bindings", async)
			})
			if s := answers[0].status; s != 202 && s != 410 {
				c.t.Errorf("the unbind: %d %s", s, answers[0].body)
			}
			c.succeeds(at(id), answers[1].want(c.t, 202).operation())
			c.nothingLeft(id)
		}},
		{"CON-05 twenty binds of one instance at once", func(c tenant) {
			id := c.one()
			for _, a := range together(20, func(i int) answer { return c.bind(id, string(rune('a'+i)), "postgres/small", "", plain) }) {
				a.want(c.t, 201)
			}
		}},
		{"CON-07 an update while a bind runs: accepted (Decided 4)", func(c tenant) {
			const plan = "postgres/async-bindings"
			id := c.ready(plan, "")
			bind := c.bind(id, "b", plan, "", async).want(c.t, 202).operation()
			update := c.patch(id, plan, `"parameters":{"a":2}`, async).want(c.t, 202).operation()
			c.succeeds(bindingAt(id, "b"), bind)
			c.succeeds(at(id), update)
		}},
		{"CON-10 marks come with the create", func(c tenant) {
			s := creating(c)
			if row := c.row(s.id); row.Labels["ferry-client"] != c.name || row.Annotations["ferry-operation"] != s.operation {
				c.t.Errorf("Cloud Foundry has %+v", row)
			}
		}},
		{"CON-12 many creates within a moment", func(c tenant) {
			ids := make([]string, 30)
			for i := range ids {
				ids[i] = c.id()
			}
			for i, a := range together(len(ids), func(i int) answer { return c.put(ids[i], "postgres/async", "", async) }) {
				c.succeeds(at(ids[i]), a.want(c.t, 202).operation())
			}
		}},
	}
}

func faultyCases() []clause {
	return []clause{
		{"ORP-03 LOP-26 a create that the plan's limit ended is deleted", func(c tenant) {
			id := c.id()
			c.fails(at(id), c.put(id, "faults/hurried", "", async).want(c.t, 202).operation())
			c.gone(id, "faults/hurried")
			c.delete(id, "faults/hurried", async).bare(c.t, 410)
			c.nothingLeft(id)
			if limit := c.planOf("faults/hurried").MaximumPollingDuration; limit != 3 {
				c.t.Errorf("maximum_polling_duration %d, want 3", limit)
			}
		}},
		{"BND-09 the answer to a key was lost: it is adopted", func(c tenant) {
			id, binding := c.one(), "lost-key"
			c.disturb(fault{Method: "POST", Route: keys, Match: binding, Times: 1, When: "after", Action: "drop"})
			c.bind(id, binding, "postgres/small", "", plain).want(c.t, 201)
			oneKey(c, id, binding)
		}},
		{"BND-10 many unbinds while Cloud Foundry stumbles", func(c tenant) {
			id := c.one()
			for i := range 12 {
				c.bind(id, string(rune('a'+i)), "postgres/small", "", plain).want(c.t, 201)
			}
			for _, status := range []int{429, 503} {
				c.disturb(fault{Method: "DELETE", Route: key, Times: 4, When: "before", Action: "respond", Status: status, Headers: map[string]string{"Retry-After": "1"}})
			}
			for _, a := range together(12, func(i int) answer { return c.unbind(id, string(rune('a'+i)), "postgres/small", plain) }) {
				a.bare(c.t, 200)
			}
			if n := len(c.row(id).Keys); n != 0 {
				c.t.Errorf("Cloud Foundry has %d keys", n)
			}
		}},
		{"ORP-07 a quota is the operation's failure and leaves nothing (Decided 2)", func(c tenant) {
			const id = "over-quota"
			c.disturb(refusedBy(id, 422, "CF-UnprocessableEntity", "You have exceeded your organization's services limit."))
			c.fails(at(id), c.put(id, "postgres/small", "", async).want(c.t, 202).operation(), "services limit")
			c.nothingLeft(id)
			c.gone(id, "postgres/small")
		}},
		{"ORP-09 a delete is accepted at once while Cloud Foundry hangs", func(c tenant) {
			const id = "hanging"
			c.succeeds(at(id), c.put(id, "postgres/small", "", async).want(c.t, 202).operation())
			c.disturb(fault{Method: "*", Route: "*", Match: id, Times: 2, When: "before", Action: "delay", DelayMS: 1500})
			began := time.Now()
			op := c.delete(id, "postgres/small", async).want(c.t, 202).operation()
			a := c.poll(at(id), op).want(c.t, 200)
			if took := time.Since(began); a.state() != "in progress" && took < time.Second {
				c.t.Errorf("%s: %s after %s, though nothing answers", a.request, a.body, took)
			}
			c.succeeds(at(id), op)
		}},
		{"CON-09 a create that comes late is removed by the delete that overtook it", func(c tenant) {
			const id = "overtaken"
			c.disturb(fault{Method: "POST", Route: instances, Match: id, Times: 1, When: "before", Action: "delay", DelayMS: 1200})
			c.put(id, "postgres/small", "", async).want(c.t, 202)
			c.gone(id, "postgres/small")
			c.nothingLeft(id)
		}},
		{"CON-11 an update that meets another person's operation waits", func(c tenant) {
			id := c.one()
			guid := c.row(id).GUID
			c.disturb(fault{Method: "PATCH", Route: instance, Match: guid, Times: 1, When: "before", Action: "respond", Status: 409,
				Body: `{"errors":[{"code":60016,"title":"CF-AsyncServiceInstanceOperationInProgress","detail":"An operation for service instance x is in progress."}]}`})
			c.changed(id, "postgres/small", `"parameters":{"a":2}`)
			c.askedFor(1, "update", id, "")
		}},
	}
}

func refusedBy(match string, status int, title, detail string) fault {
	return fault{Method: "POST", Route: instances, Match: match, Times: 1, When: "before", Action: "respond", Status: status,
		Body: `{"errors":[{"code":10008,"title":` + quoted(title) + `,"detail":` + quoted(detail) + `}]}`}
}
