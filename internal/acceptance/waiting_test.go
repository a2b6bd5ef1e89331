package acceptance

import (
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/ferry-broker/ferry/internal/config"
	"github.com/ferry-broker/ferry/internal/osbtest"
)

// TestWaiting: an operation that waits says what for, and does not wait for ever for what only its platform can change
// (ASY-13, LOI-12, law 5).
func TestWaiting(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]func(*testing.T){
		"a deprovision whose unbind is refused says so and fails": refusedUnbind,
		"deletes that fail one after the other are damped":        dampedDeletes,
		"a missing role is said, and nothing fails for it":        missingRole,
		"no Retry-After outlives the deadline":                    retryBeyondDeadline,
	} {
		t.Run(name, func(t *testing.T) { t.Parallel(); test(t) })
	}
}

func refusedUnbind(t *testing.T) {
	const plan = "faults/unbind-rejected"
	c := start(t)
	id, binding := c.Bound(plan)
	op := c.removes(id, plan)
	c.Fails(at(id), op, "The service binding "+binding+" could not be deleted", "The unbind is refused by this plan")
	c.sentTimes(4, "DELETE "+instance)
}

func dampedDeletes(t *testing.T) {
	const plan = "faults/delete-rejected"
	c := start(t, func(s *settings) { s.config.Polling = config.Polling{First: 500 * time.Millisecond, Max: time.Second} })
	id := c.Ready(plan, "")
	c.Fails(at(id), c.removes(id, plan), "The delete is refused by this plan")
	second := c.removes(id, plan)
	if a := c.Poll(at(id), second); a.State() != "in progress" || !strings.Contains(a.Text("description"), "Deleting it has failed once") {
		t.Errorf("%s: %s, want it to wait for the time of the next try", a.Request, a.Body)
	}
	c.Fails(at(id), second, "The delete is refused by this plan")
	c.AskedFor(2, "deprovision", id, "")
}

func missingRole(t *testing.T) {
	c := start(t, warnings)
	id := c.Ready("postgres/small", "")
	c.Disturb(said(403, 10003, "CF-NotAuthorized", "You are not authorized to perform the requested action").On("DELETE", instance, 0))
	op := c.removes(id, "postgres/small")
	c.Eventually("the poll says what it waits for", func() bool {
		a := c.Poll(at(id), op).Want(http.StatusOK)
		return a.State() == "in progress" && strings.Contains(a.Text("description"), "not authorized")
	})
	c.heal()
	c.Succeeds(at(id), op)
}

func retryBeyondDeadline(t *testing.T) {
	c := start(t, warnings, func(s *settings) {
		s.config.Operations.Deadline, s.config.Operations.SettleAfter = 2*time.Second, time.Second
	})
	f := said(429, 10013, "CF-RateLimitExceeded", "Rate Limit Exceeded")
	f.Headers = map[string]string{"Retry-After": "3600"}
	c.Disturb(f.On("POST", instances, 1))
	id, op := c.starts("postgres/small")
	c.Fails(at(id), op, "The service instance was not created within 2s")
}

// TestLogLevels: what an operator has to look at is louder than INFO, and nothing else is.
func TestLogLevels(t *testing.T) {
	t.Parallel()
	t.Run("what a platform or a backing broker causes is INFO", func(t *testing.T) {
		t.Parallel()
		c := start(t) // its end checks that nothing was louder
		id, op := c.starts("faults/create-fails")
		c.Fails(at(id), op)
		c.Eventually("the failure is logged", func() bool { return len(c.journal.find(slog.LevelInfo, op, "state=failed")) == 1 })
		c.Provision(id, "faults/create-fails", `{"a":3}`).Want(http.StatusConflict)
		c.Send("PUT", at("x"), "{").Want(http.StatusBadRequest)
	})
	t.Run("a Cloud Foundry that cannot be reached is WARN", func(t *testing.T) {
		t.Parallel()
		c := start(t, warnings)
		id, _ := c.starts("faults/create-stalls")
		c.Disturb(html(http.StatusServiceUnavailable))
		c.Eventually("a warning", func() bool { return len(c.journal.find(slog.LevelWarn, id)) > 0 })
		c.heal()
	})
	t.Run("an operation past its deadline is WARN", func(t *testing.T) {
		t.Parallel()
		c := start(t, warnings, func(s *settings) {
			s.config.Operations.Deadline, s.config.Operations.SettleAfter = time.Second, 500*time.Millisecond
			s.config.Operations.TombstoneTTL = time.Hour
		})
		id, op := c.starts("faults/create-stalls")
		c.Fails(at(id), op)
		c.Eventually("the deadline is logged", func() bool { return len(c.journal.find(slog.LevelWarn, op)) == 1 })
	})
	t.Run("refused credentials are WARN", func(t *testing.T) {
		t.Parallel()
		c := start(t, warnings, func(s *settings) { s.config.Clients[1].CloudFoundry.ClientSecret = config.NewSecret("wrong") })
		c.Eventually("a warning", func() bool { return len(c.journal.find(slog.LevelWarn, "second")) > 0 })
	})
	t.Run("somebody else's key that goes with an instance is named at INFO", func(t *testing.T) {
		t.Parallel()
		c := start(t)
		id := c.Ready("postgres/small", "")
		c.Stranger(id, "somebody-elses")
		c.Gone(id, "postgres/small")
		if len(c.journal.find(slog.LevelInfo, "somebody-elses")) == 0 {
			t.Error("no line at INFO names the key of somebody else")
		}
	})
}

// TestNamesThatOthersChange (law 7, docs/protocol.md 1): what an operator renames or shares in Cloud Foundry stays the
// platform's, and DELETE leads to gone.
func TestNamesThatOthersChange(t *testing.T) {
	t.Parallel()
	const plan = "postgres/small"
	for name, change := range map[string]struct {
		by func(c tenant, i osbtest.Instance)
		// classic: Korifi cannot do that.
		classic bool
	}{
		"an instance is renamed": {func(c tenant, i osbtest.Instance) {
			c.Control("PATCH", "/instances/"+i.GUID, `{"name":"by-hand"}`)
		}, false},
		"a key is renamed": {func(c tenant, i osbtest.Instance) {
			c.Control("PATCH", "/keys/"+i.Keys[0].GUID, `{"name":"by-hand"}`)
		}, false},
		"an instance is renamed, and its name is taken": {func(c tenant, i osbtest.Instance) {
			c.Control("PATCH", "/instances/"+i.GUID, `{"name":"by-hand"}`)
			c.Control("POST", "/instances", fmt.Sprintf(`{"org":%q,"space":"postgres","name":%q,"offering":"postgres","plan":"small"}`, c.Org, i.Name))
		}, false},
		"its space is renamed": {func(c tenant, _ osbtest.Instance) {
			c.Operator("PATCH", "/v3/spaces/"+c.spaceGUID("postgres"), `{"name":"by-hand"}`).Want(http.StatusOK)
		}, true},
		"it is shared into a space of another org": {func(c tenant, i osbtest.Instance) {
			c.Control("PATCH", "/instances/"+i.GUID, `{"shared_with":["ferry/elsewhere"]}`)
		}, true},
	} {
		for _, flavour := range []string{"", " on Korifi"} {
			if flavour != "" && change.classic {
				continue
			}
			t.Run(name+flavour, func(t *testing.T) {
				t.Parallel()
				var adjust []func(*settings)
				if flavour != "" {
					adjust = append(adjust, korifi)
				}
				c := start(t, adjust...)
				id, binding := c.Bound(plan)
				before := c.Row(id)
				change.by(c, before)
				c.Bind(id, "another", plan, "").Want(http.StatusCreated)
				c.Unbind(id, binding, plan).Want(http.StatusOK)
				c.Unbind(id, binding, plan).Want(http.StatusGone)
				for _, i := range c.State().Instances {
					for _, k := range i.Keys {
						if k.GUID == before.Keys[0].GUID {
							t.Errorf("the key %s lives on after its unbind", k.GUID)
						}
					}
				}
				c.Deleted(id, plan)
				for _, i := range c.State().Instances {
					if i.GUID == before.GUID {
						t.Errorf("%s lives on after DELETE: %+v", id, i)
					}
				}
			})
		}
	}
}

// spaceGUID is the space of this name in the tenant's org.
func (c tenant) spaceGUID(name string) string {
	c.t.Helper()
	var list struct{ Resources []struct{ GUID string } }
	c.Operator("GET", "/v3/spaces?names="+url.QueryEscape(name), "").Want(http.StatusOK).Decode(&list)
	if len(list.Resources) != 1 {
		c.t.Fatalf("%d spaces %s", len(list.Resources), strings.ToLower(name))
	}
	return list.Resources[0].GUID
}
