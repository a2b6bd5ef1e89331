package cfsim

import (
	"strings"
	"testing"
)

// TestFatesOfCreate walks the plans whose create goes wrong: what the job and
// the row say.
func TestFatesOfCreate(t *testing.T) {
	t.Parallel()
	tests := map[string]struct{ job, description string }{
		"faults/create-rejected": {"10009 CF-UnableToPerform: provision could not be completed: Service broker error: The create is refused by this plan", "Service broker error: The create is refused by this plan"},
		"faults/create-fails":    {"10009 CF-UnableToPerform: create managed could not be completed: The create fails with this plan", "The create fails with this plan"},
	}
	for plan, want := range tests {
		t.Run(plan, func(t *testing.T) {
			t.Parallel()
			c := start(t, quick())
			guid, job := c.create("it", plan)
			if got := jobError(c.job(job, jobFailed)); got != want.job {
				t.Errorf("job %q, want %q", got, want.job)
			}
			row := c.lastOperation("/v3/service_instances/"+guid, "create failed")
			if got := row.str("last_operation", "description"); got != want.description {
				t.Errorf("description %q, want %q", got, want.description)
			}
			if n := c.calls("it", deprovision); n != 0 {
				t.Errorf("a rejection was cleaned up after %d times", n)
			}
		})
	}
}

func TestFatesOfUpdateAndDelete(t *testing.T) {
	t.Parallel()
	tests := map[string]struct{ method, job, state, description string }{
		"faults/update-rejected": {"PATCH", "update could not be completed: Service broker error: The update is refused by this plan", "update failed", "Service broker error: The update is refused by this plan"},
		"faults/update-fails":    {"PATCH", "update could not be completed: The update fails with this plan", "update failed", "The update fails with this plan"},
		"faults/delete-rejected": {"DELETE", "delete could not be completed: Service instance it: Service broker error: The delete is refused by this plan", "delete failed", "Service instance it: Service broker error: The delete is refused by this plan"},
		"faults/delete-fails":    {"DELETE", "delete could not be completed: The delete fails with this plan", "delete failed", "The delete fails with this plan"},
	}
	for plan, want := range tests {
		t.Run(plan, func(t *testing.T) {
			t.Parallel()
			c := start(t, quick())
			guid := c.ready("it", plan)
			job := c.must(202, want.method, "/v3/service_instances/"+guid, `{"parameters":{}}`).header.Get("Location")
			if got := jobError(c.job(job, jobFailed)); got != "10009 CF-UnableToPerform: "+want.job {
				t.Errorf("job %q, want %q", got, want.job)
			}
			row := c.lastOperation("/v3/service_instances/"+guid, want.state)
			if got := row.str("last_operation", "description"); got != want.description {
				t.Errorf("description %q, want %q", got, want.description)
			}
		})
	}
}

func TestFatesOfKeys(t *testing.T) {
	t.Parallel()
	const class = "VCAP::CloudController::V3::LastOperationFailedState"
	const unbindPrefix = "Service broker failed to delete service binding for instance it: "
	tests := map[string]struct {
		unbind                  bool
		job, state, description string
	}{
		"faults/bind-rejected":   {false, "bind could not be completed: Service broker error: The bind is refused by this plan", "create failed", "Service broker error: The bind is refused by this plan"},
		"faults/bind-fails":      {false, "create could not be completed: " + class, "create failed", "The bind fails with this plan"},
		"postgres/app-only":      {false, "bind could not be completed: This service supports generation of credentials through binding an application only.", "create failed", "This service supports generation of credentials through binding an application only."},
		"faults/unbind-rejected": {true, "unbind could not be completed: " + unbindPrefix + "Service broker error: The unbind is refused by this plan", "delete failed", unbindPrefix + "Service broker error: The unbind is refused by this plan"},
		"faults/unbind-fails":    {true, "delete could not be completed: " + class, "delete failed", "The unbind fails with this plan"},
	}
	for plan, want := range tests {
		t.Run(plan, func(t *testing.T) {
			t.Parallel()
			c := start(t, quick())
			guid, job := c.createKey("k", c.ready("it", plan))
			if want.unbind {
				c.job(job, jobComplete)
				job = c.must(202, "DELETE", "/v3/service_credential_bindings/"+guid, "").header.Get("Location")
			}
			if got := jobError(c.job(job, jobFailed)); got != "10009 CF-UnableToPerform: "+want.job {
				t.Errorf("job %q, want %q", got, want.job)
			}
			row := c.lastOperation("/v3/service_credential_bindings/"+guid, want.state)
			if got := row.str("last_operation", "description"); got != want.description {
				t.Errorf("description %q, want %q", got, want.description)
			}
		})
	}
}

func TestStalledOperationsStayPolling(t *testing.T) {
	t.Parallel()
	c := start(t, quick())
	_, job := c.create("it", "faults/create-stalls")
	r := c.job(job, jobPolling)
	if r.str("operation") != "service_instance.create" || r.at("errors", 0) != nil || r.at("warnings") == nil {
		t.Errorf("job %s", r.body)
	}
	key, job := c.createKey("k", c.ready("bound", "faults/bind-stalls"))
	if r := c.job(job, jobPolling); r.str("operation") != "service_keys.create" || !strings.HasSuffix(r.str("links", "service_credential_binding", "href"), key) {
		t.Errorf("job %s", r.body)
	}
}

// TestUpdateFateIsOfTheTargetPlan leaves a plan whose updates are rejected.
func TestUpdateFateIsOfTheTargetPlan(t *testing.T) {
	t.Parallel()
	c := start(t, quick())
	guid := c.ready("it", "faults/update-rejected")
	c.job(c.must(202, "PATCH", "/v3/service_instances/"+guid, c.planPatch("PLAN(faults/create-fails)")).header.Get("Location"), jobComplete)
}

func TestDeleteFailsOnce(t *testing.T) {
	t.Parallel()
	c := start(t, quick())
	guid := c.ready("it", "faults/delete-fails-once")
	c.job(c.must(202, "DELETE", "/v3/service_instances/"+guid, "").header.Get("Location"), jobFailed)
	c.job(c.must(202, "DELETE", "/v3/service_instances/"+guid, "").header.Get("Location"), jobComplete)
	if n := c.calls("it", deprovision); n != 2 {
		t.Errorf("%d deprovisions, want 2", n)
	}
}

// TestJobLinksFollowTheRow is section 1.18.
func TestJobLinksFollowTheRow(t *testing.T) {
	t.Parallel()
	for _, plan := range []string{"postgres/small", "postgres/async", "postgres/async-bindings"} {
		t.Run(plan, func(t *testing.T) {
			t.Parallel()
			c := start(t, quick())
			guid, create := c.create("it", plan)
			if !strings.HasPrefix(create, c.url+"/v3/jobs/") {
				t.Errorf("location %q is not absolute", create)
			}
			href := c.url + "/v3/service_instances/" + guid
			if r := c.job(create, jobComplete); r.str("links", "service_instances", "href") != href || r.str("links", "self", "href") != create {
				t.Errorf("links %v", r.at("links"))
			}
			update := c.must(202, "PATCH", href, `{"parameters":{}}`).header.Get("Location")
			if r := c.job(update, jobComplete); r.str("links", "service_instances", "href") != href || r.str("operation") != "service_instance.update" {
				t.Errorf("update %s", r.body)
			}
			key := c.readyKey("k", guid)
			unbind := c.must(202, "DELETE", "/v3/service_credential_bindings/"+key, "").header.Get("Location")
			if r := c.job(unbind, jobComplete); r.at("links", "service_credential_binding") != nil || r.str("operation") != "service_keys.delete" {
				t.Errorf("unbind %s", r.body)
			}
			remove := c.must(202, "DELETE", href, "").header.Get("Location")
			if r := c.job(remove, jobComplete); r.at("links", "service_instance") != nil || r.str("operation") != "service_instance.delete" {
				t.Errorf("delete %s", r.body)
			}
			if r := c.job(create, jobComplete); r.at("links", "service_instances") != nil {
				t.Errorf("the create still links to its row: %s", r.body)
			}
		})
	}
}
