package acceptance

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/ferry-broker/ferry/internal/config"
)

// TestWaiting: an operation that waits says what for, and does not wait for ever for what
// only its platform can change (ASY-13, LOI-12, law 5).
func TestWaiting(t *testing.T) {
	t.Parallel()
	t.Run("a deprovision whose unbind is refused says so and fails", func(t *testing.T) {
		t.Parallel()
		c := start(t)
		const plan = "faults/unbind-rejected"
		id, binding := c.bound(plan)
		op := c.removes(id, plan)
		c.fails(at(id), op, "The service binding "+binding+" could not be deleted", "The unbind is refused by this plan")
		if n := c.sent("DELETE " + instance); n != 4 {
			t.Errorf("%d DELETEs of the instance, want 4", n)
		}
	})
	t.Run("deletes that fail one after the other are damped", func(t *testing.T) {
		t.Parallel()
		c := start(t, func(s *settings) { s.config.Polling = config.Polling{First: 500 * time.Millisecond, Max: time.Second} })
		const plan = "faults/delete-rejected"
		id := c.ready(plan, "")
		first := c.removes(id, plan)
		c.fails(at(id), first, "The delete is refused by this plan")
		second := c.removes(id, plan)
		if a := c.poll(at(id), second); a.state() != "in progress" || !strings.Contains(a.text("description"), "Deleting it has failed once") {
			t.Errorf("%s: %s, want it to wait for the time of the next try", a.request, a.body)
		}
		c.fails(at(id), second, "The delete is refused by this plan")
		c.askedFor(2, "deprovision", id, "")
	})
	t.Run("a missing role is said, and nothing fails for it", func(t *testing.T) {
		t.Parallel()
		c := start(t, warnings)
		const plan = "postgres/small"
		id := c.ready(plan, "")
		c.disturb(said(403, 10003, "CF-NotAuthorized", "You are not authorized to perform the requested action").on("DELETE", instance, 0))
		op := c.removes(id, plan)
		c.eventually("the poll says what it waits for", func() bool {
			a := c.poll(at(id), op).want(t, http.StatusOK)
			return a.state() == "in progress" && strings.Contains(a.text("description"), "not authorized")
		})
		c.heal()
		c.succeeds(at(id), op)
	})
	t.Run("no Retry-After outlives the deadline", func(t *testing.T) {
		t.Parallel()
		c := start(t, warnings, func(s *settings) {
			s.config.Operations.Deadline, s.config.Operations.SettleAfter = 2*time.Second, time.Second
		})
		limited := said(429, 10013, "CF-RateLimitExceeded", "Rate Limit Exceeded")
		limited.Headers = map[string]string{"Retry-After": "3600"}
		c.disturb(limited.on("POST", instances, 1))
		id, op := c.starts("postgres/small")
		c.fails(at(id), op, "The service instance was not created within 2s")
	})
}
