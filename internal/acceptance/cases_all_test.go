package acceptance

import (
	"slices"
	"testing"
	"time"

	"github.com/ferry-broker/ferry/internal/config"
)

// TestCase has public bug reports of other brokers, platforms and libraries, turned
// into requests and right answers. Ids are those of the list of cases and have nothing
// to do with the ids of OSB's duties. Where a later decision differs from the answer
// that a case asks for, the decision counts; docs/osb-choices.md has them.
//
// Not driven here:
//   - PRO-16, LOP-09, CON-02, CON-03: a process that dies, or starts again, in the middle:
//     internal/process kills the built program, internal/broker explores every step.
//   - LOP-05, LOP-13: a store that is slow or away: internal/api and internal/broker.
//   - LOP-18: results are kept for days: internal/lifecycle and internal/bolt with their
//     own clocks.
//   - ORP-08: no status 408 exists in the broker; internal/api walks its table.
//   - CON-08, LAM-03, LAM-04: a late worker is fenced off: internal/broker and
//     internal/lifecycle.
//   - AUT-05: there is no chained broker whose headers would have to be sent on.
//   - CTX-03: the context is kept in the record; its annotations are not written to Cloud
//     Foundry, whose annotations are the backing platform's own.
//   - CAT-02, CAT-03, CAT-05, CAT-06, CAT-07: marketplaces that the simulator does not
//     have: internal/catalog.
//   - CFC-02, CFC-08: paging, and rows in every state: TestCloudFoundryCase.
//   - AUT-11, PAR-10, LAM-01, LAM-05, SFN-01 to SFN-11, and those of AGW-01 to AGW-14 and
//     DDB-01 to DDB-13 that stand nowhere below: API Gateway, Lambda, DynamoDB and Step
//     Functions; there are none here.
func TestCase(t *testing.T) {
	t.Parallel()
	calm, faulty := start(t), start(t, warnings)
	calm.hold(slices.Concat(provisionCases(), bindCases(), orphanCases(), pollCases(), deleteCases(),
		concurrencyCases(), headerCases(), parameterCases(), validationCases(), errorCases()))
	faulty.hold(slices.Concat(faultyCases(), backendCases()))
	for name, run := range lonelyCases() {
		t.Run(name, func(t *testing.T) { t.Parallel(); run(t) })
	}
}

// lonelyCases need a broker of their own.
func lonelyCases() map[string]func(*testing.T) {
	return map[string]func(*testing.T){
		"LOP-11 LOP-25 an operation past its deadline fails and says so": func(t *testing.T) {
			c := start(t, warnings, func(s *settings) { s.config.Operations.Deadline = 3 * time.Second })
			s := creating(c)
			c.fails(at(s.id), s.operation, "within")
			c.gone(s.id, s.plan)
			c.nothingLeft(s.id)
		},
		"LOP-14 polls ask nobody": func(t *testing.T) {
			c := start(t)
			s := creating(c)
			before := c.cf().Requests["POST "+instances]
			catalog := c.cf().Requests["GET /v3/service_plans"]
			for range 30 {
				c.poll(at(s.id), s.operation).want(t, 200)
			}
			if after := c.cf().Requests; after["POST "+instances] != before || after["GET /v3/service_plans"] != catalog {
				t.Errorf("polls made requests: %v", after)
			}
		},
		"ABN-05 AGW-09 a synchronous bind never outlasts its budget": func(t *testing.T) {
			c := start(t, budget(time.Second))
			id, began := c.ready("faults/bind-stalls", ""), time.Now()
			c.bind(id, "b", "faults/bind-stalls", "", plain).says(t, 500, "OutOfTime")
			if took := time.Since(began); took > 10*time.Second {
				t.Errorf("the bind was held for %s", took)
			}
			c.succeeds(bindingAt(id, "b"), c.unbind(id, "b", "faults/bind-stalls", async).want(t, 202).operation())
		},
		"DEL-11 CAT-01 what has a plan that left the catalog is unbound and deleted": func(t *testing.T) {
			c := start(t, restless, warnings)
			id, binding := c.bound("postgres/large")
			c.control("POST", "/marketplace", `{"hide":["postgres/large"]}`)
			c.eventually("the plan leaves the catalog", func() bool { _, found := c.catalog()["postgres/large"]; return !found })
			c.bind(id, c.id(), "postgres/large", "", plain).want(t, 201)
			c.unbind(id, binding, "postgres/large", plain).bare(t, 200)
			c.gone(id, "postgres/large")
		},
		"CAT-08 a backing broker that is registered anew keeps its ids": func(t *testing.T) {
			c := start(t, restless, warnings)
			id := c.one()
			before := c.plans
			c.control("POST", "/marketplace", `{"reregister":true}`)
			refreshed := c.cf().Requests["GET /v3/service_plans"] + 2
			c.eventually("the marketplace was fetched", func() bool { return c.cf().Requests["GET /v3/service_plans"] > refreshed })
			for name, p := range c.catalog() {
				if before[name] != p {
					t.Errorf("%s: the ids %+v, before %+v", name, p, before[name])
				}
			}
			c.put(id, "postgres/small", `{"a":1}`, async).bare(t, 200)
			c.changed(id, "postgres/small", `"parameters":{"a":2}`)
			c.gone(id, "postgres/small")
		},
		"MNT-03 MNT-04 an upgrade is offered and carried out": func(t *testing.T) { maintained(start(t, restless, warnings)) },
		"AUT-02 AUT-03 passwords with colons and umlauts": func(t *testing.T) {
			c := start(t, func(s *settings) {
				s.config.Clients[1].Credentials[0].Username, s.config.Clients[1].Credentials[0].Password = "üser", config.NewSecret("p:ä:ss")
			})
			for password, status := range map[string]int{"p:ä:ss": 200, "p": 401, "p:ä": 401, "": 401} {
				o := c.other()
				o.user, o.secret = "üser", password
				o.send("GET", "/v2/catalog", "").want(t, status)
			}
		},
	}
}
