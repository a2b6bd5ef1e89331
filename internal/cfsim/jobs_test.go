package cfsim

import (
	"fmt"
	"sync"
	"testing"
	"time"
)

// TestOldJobsAreDropped needs jobs of rows that are there and of rows that are gone.
func TestOldJobsAreDropped(t *testing.T) {
	t.Parallel()
	var at clock
	o := quick()
	o.Now = at.now
	c := start(t, o)
	_, kept := c.create("kept", "postgres/small")
	c.job(kept, jobComplete)
	guid, dropped := c.create("gone", "postgres/small")
	c.job(dropped, jobComplete)
	c.job(c.accepted("DELETE", instances+guid, ""), jobComplete)
	at.move(jobKept - time.Minute)
	c.ready("other", "postgres/small")
	c.must(200, "GET", dropped, "")
	at.move(2 * time.Minute)
	c.ready("another", "postgres/small")
	c.must(404, "GET", dropped, "")
	c.must(200, "GET", kept, "")
}

// TestJobLinksFollowTheRow is docs/cf-contract.md 1.18.
func TestJobLinksFollowTheRow(t *testing.T) {
	t.Parallel()
	each(t, quick(), map[string]bool{"postgres/small": true, "postgres/async-bindings": true}, func(c *cloud, plan string, _ bool) {
		guid, create := c.create("it", plan)
		path := c.url + instances + guid
		c.job(create, jobComplete).reads(c.t, "links.service_instances.href="+path, "links.self.href="+create)
		c.job(c.accepted("PATCH", path, `{"parameters":{}}`), jobComplete).reads(c.t, "links.service_instances.href="+path, "operation=service_instance.update")
		key := keys + c.readyKey("k", guid)
		c.job(c.accepted("DELETE", key, ""), jobComplete).reads(c.t, "links.service_credential_binding=", "operation=service_keys.delete")
		c.job(c.accepted("DELETE", path, ""), jobComplete).reads(c.t, "links.service_instance=", "operation=service_instance.delete")
		c.job(create, jobComplete).reads(c.t, "links.service_instances=")
	})
}

// TestManyAtOnce is for the race detector, and shows that nothing is left when everybody has cleaned up.
func TestManyAtOnce(t *testing.T) {
	t.Parallel()
	c := start(t, quick())
	plans := []string{"postgres/small", "postgres/async", "faults/create-stalls", "faults/create-rejected", "faults/delete-fails-once"}
	var group sync.WaitGroup
	for i := range 20 {
		name := fmt.Sprintf("i%d", i)
		body := c.instanceBody(name, plans[i%len(plans)], "")
		group.Go(func() {
			if r := c.do("POST", instances, body); r.status != 202 {
				t.Errorf("%s: %d", name, r.status)
				return
			}
			path := instances + c.do("GET", instances+"?names="+name, "").str("resources", 0, "guid")
			deadline := time.Now().Add(10 * time.Second)
			for c.do("GET", path, "").status != 404 && time.Now().Before(deadline) {
				c.do("GET", "/__sim/state", "")
				c.do("DELETE", path, "")
				<-time.After(5 * time.Millisecond)
			}
		})
	}
	group.Wait()
	c.lists(instances, "")
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
