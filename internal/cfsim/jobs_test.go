package cfsim

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// TestOldJobsAreDropped needs jobs of rows that are there and of rows that are
// gone.
func TestOldJobsAreDropped(t *testing.T) {
	t.Parallel()
	var ahead atomic.Int64
	o := quick()
	o.Now = func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
	c := start(t, o)
	_, kept := c.create("kept", "postgres/small")
	c.job(kept, jobComplete)
	guid, dropped := c.create("gone", "postgres/small")
	c.job(dropped, jobComplete)
	c.job(c.must(202, "DELETE", "/v3/service_instances/"+guid, "").header.Get("Location"), jobComplete)
	ahead.Store(int64(jobKept - time.Minute))
	c.ready("other", "postgres/small")
	c.must(200, "GET", dropped, "")
	ahead.Store(int64(jobKept + 2*jobSweepEvery))
	c.ready("another", "postgres/small")
	c.must(404, "GET", dropped, "")
	c.must(200, "GET", kept, "")
}

func TestOptions(t *testing.T) {
	t.Parallel()
	o := DefaultOptions()
	if o.JobDelay != 50*time.Millisecond || o.BrokerDelay != 500*time.Millisecond || o.PollInterval != 100*time.Millisecond || o.BrokerTimeout != time.Minute {
		t.Errorf("defaults %+v", o)
	}
	if f := o.Faithful(); f.JobDelay != 5*time.Second || f.PollInterval != time.Minute || f.BrokerTimeout != time.Minute || f.BrokerDelay != o.BrokerDelay {
		t.Errorf("faithful %+v", f)
	}
}

// TestManyAtOnce is for the race detector, and shows that nothing is left when
// everybody has cleaned up.
func TestManyAtOnce(t *testing.T) {
	t.Parallel()
	c := start(t, quick())
	plans := []string{"postgres/small", "postgres/async", "faults/create-stalls", "faults/create-rejected", "faults/delete-fails-once"}
	bodies := make([]string, 20)
	for i := range bodies {
		bodies[i] = c.instanceBody(fmt.Sprintf("i%d", i), plans[i%len(plans)], "")
	}
	var group sync.WaitGroup
	for i, body := range bodies {
		group.Go(func() {
			name := fmt.Sprintf("i%d", i)
			if r := c.do("POST", "/v3/service_instances", body); r.status != 202 {
				t.Errorf("%s: %d", name, r.status)
				return
			}
			guid := c.do("GET", "/v3/service_instances?names="+name, "").str("resources", 0, "guid")
			deadline := time.Now().Add(10 * time.Second)
			for c.do("GET", "/v3/service_instances/"+guid, "").status != 404 && time.Now().Before(deadline) {
				c.do("GET", "/__sim/state", "")
				c.do("DELETE", "/v3/service_instances/"+guid, "")
				<-time.After(5 * time.Millisecond)
			}
		})
	}
	group.Wait()
	if n := len(c.state().Instances); n != 0 {
		t.Errorf("%d instances are left", n)
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
