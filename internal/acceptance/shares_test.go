package acceptance

import (
	"fmt"
	"net/http"
	"testing"
)

// TestABacklogConcernsNobodyElse: law 10. While Cloud Foundry makes no key, a platform's
// binds may fill what its requests may hold, and the rest are turned away without a
// trace: catalogs, polls and duplicates are answered all the same, to everybody.
func TestABacklogConcernsNobodyElse(t *testing.T) {
	t.Parallel()
	const many, plan = 12, "postgres/small"
	// Eight requests may wait: four, shared, beside two of each platform.
	const held = 6
	c := start(t, warnings, func(s *settings) { s.config.Limits.ConcurrentRequests = 16 })
	id := c.ready(plan, "")
	running := c.id()
	op := c.put(running, "faults/create-stalls", "", async).want(t, http.StatusAccepted).operation()
	c.disturb(fault{Method: "POST", Route: keys, When: "before", Action: "respond", Status: http.StatusServiceUnavailable, Body: "{}"})
	bind := func(i int) answer { return c.bind(id, fmt.Sprint("b", i), plan, "", plain) }
	type numbered struct {
		i int
		answer
	}
	answers := make(chan numbered, many)
	for i := range many {
		go func() { answers <- numbered{i, bind(i)} }()
	}
	var refused []int
	for range many - held {
		a := <-answers
		a.says(t, http.StatusServiceUnavailable, "TooManyRequests", "nothing of this one was carried out")
		refused = append(refused, a.i)
	}
	for _, platform := range []tenant{c, c.other()} {
		for range held {
			platform.send("GET", "/v2/catalog", "").want(t, http.StatusOK)
		}
	}
	c.poll(at(running), op).want(t, http.StatusOK)
	c.put(running, "faults/create-stalls", "", async).want(t, http.StatusAccepted)
	c.bind(id, "later", plan, "", async).want(t, http.StatusAccepted)
	c.poll(bindingAt(id, fmt.Sprint("b", refused[0])), "").want(t, http.StatusNotFound)
	theirs := c.other().put(id, plan, "", async).want(t, http.StatusAccepted).operation()
	c.other().succeeds(at(id), theirs)
	c.heal()
	for range held {
		a := <-answers
		a.want(t, http.StatusCreated)
	}
	for _, i := range refused {
		bind(i).want(t, http.StatusCreated)
	}
}
