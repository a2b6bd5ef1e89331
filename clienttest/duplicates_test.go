package clienttest

import (
	"sync"
	"testing"

	osbc "sigs.k8s.io/go-open-service-broker-client/v2"
)

// TestDuplicates is the bug report that Ferry exists for, as this library sees it: one create sent five times at once,
// one delete sent five times at once (CON-07, CON-35, CON-64).
func TestDuplicates(t *testing.T) {
	t.Parallel()
	p := start(t, osbc.LatestAPIVersion())
	id := p.id()
	request := p.provision(id, "postgres/async", map[string]any{"a": 1})
	create := p.same(func() (*osbc.OperationKey, error) {
		made, err := p.ProvisionInstance(request)
		if err != nil {
			return nil, err
		}
		return made.OperationKey, nil
	})
	if state := p.ends(id, create); state != osbc.StateSucceeded {
		t.Fatalf("provision: %s", state)
	}
	made, err := p.ProvisionInstance(request)
	if must(t, "provision what is there", made, err).Async {
		t.Error("a create of what is there was begun")
	}
	remove := p.same(func() (*osbc.OperationKey, error) {
		gone, err := p.DeprovisionInstance(p.deprovision(id, "postgres/async"))
		if err != nil {
			return nil, err
		}
		return gone.OperationKey, nil
	})
	if state := p.ends(id, remove); state != osbc.StateSucceeded {
		t.Errorf("deprovision: %s", state)
	}
}

// same sends a request five times at once and returns the operation that all were told of.
func (p platform) same(send func() (*osbc.OperationKey, error)) *osbc.OperationKey {
	p.t.Helper()
	keys, errs := make([]*osbc.OperationKey, 5), make([]error, 5)
	var all sync.WaitGroup
	for i := range keys {
		all.Go(func() { keys[i], errs[i] = send() })
	}
	all.Wait()
	for i, key := range keys {
		if errs[i] != nil || key == nil || *key != *keys[0] {
			p.t.Fatalf("duplicate %d: operation %v, error %v, want the operation of the first", i, key, errs[i])
		}
	}
	return keys[0]
}

// TestMitigation is what service-catalog does after a failure or a timeout: a DELETE in whatever state, then the same
// id again (CON-30, CON-37, CON-17, ORPH-02, ORPH-07).
func TestMitigation(t *testing.T) {
	t.Parallel()
	p := start(t, osbc.LatestAPIVersion())
	for _, state := range []struct{ name, plan string }{
		{"while it is being created", "faults/create-stalls"}, {"after it failed", "faults/create-fails"},
	} {
		t.Run(state.name, func(t *testing.T) {
			p := p.parallel(t)
			id := p.id()
			made, err := p.ProvisionInstance(p.provision(id, state.plan, nil))
			p.began("provision", must(t, "provision", made, err).Async, made.OperationKey)
			if state.plan == "faults/create-fails" && p.ends(id, made.OperationKey) != osbc.StateFailed {
				t.Fatal("the create did not fail")
			}
			p.deprovisioned(id, state.plan)
			if got := p.ends(id, made.OperationKey); got != osbc.StateFailed {
				t.Errorf("the create that a delete ended is %s, want failed", got)
			}
			again, err := p.ProvisionInstance(p.provision(id, "postgres/small", nil))
			p.began("provision again", must(t, "provision again", again, err).Async, again.OperationKey)
			if got := p.ends(id, again.OperationKey); got != osbc.StateSucceeded {
				t.Errorf("the same id again: %s", got)
			}
		})
	}
}
