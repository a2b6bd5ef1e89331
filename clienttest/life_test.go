package clienttest

import (
	"testing"

	osbc "sigs.k8s.io/go-open-service-broker-client/v2"
)

// TestLife is what service-catalog does with an instance and its bindings from the first request to the last, in the
// two ways it can be configured (HTTP-10, HDR-04, CAT-01, PROV-18, FI-05, BIND-13, UPD-20, UNB-05, DEP-08, LOI-02).
func TestLife(t *testing.T) {
	t.Parallel()
	t.Run("synchronous bindings at 2.13", func(t *testing.T) {
		t.Parallel()
		p := start(t, osbc.Version2_13())
		id := p.ready("postgres/async", map[string]any{"big": 12, "list": []any{"a", nil}})
		binding := p.bound(id, "postgres/async")
		p.updates(id, "postgres/async")
		p.unbound(id, binding, "postgres/async")
		p.deprovisioned(id, "postgres/async")
	})
	t.Run("asynchronous bindings at 2.14", func(t *testing.T) {
		t.Parallel()
		p := start(t, osbc.Version2_14())
		id := p.ready("postgres/async-bindings", map[string]any{"a": 1})
		p.fetched(id, "postgres/async-bindings")
		binding := p.boundLater(id, "postgres/async-bindings")
		p.unboundLater(id, binding, "postgres/async-bindings")
		p.deprovisioned(id, "postgres/async-bindings")
	})
}

// TestCatalog shows what the library reads from a catalog (CAT-10 to CAT-34).
func TestCatalog(t *testing.T) {
	t.Parallel()
	p := start(t, osbc.LatestAPIVersion())
	answer, err := p.GetCatalog()
	for _, s := range must(t, "get the catalog", answer, err).Services {
		if s.ID == "" || s.Name == "" || s.Description == "" || len(s.Plans) == 0 {
			t.Errorf("an offering without a mandatory field: %+v", s)
		}
		for _, pl := range s.Plans {
			if pl.ID == "" || pl.Name == "" || pl.Description == "" || pl.Free == nil || pl.Bindable == nil {
				t.Errorf("a plan of %s without a field that we always send: %+v", s.Name, pl)
			}
			switch s.Name + "/" + pl.Name {
			case "postgres/maintained":
				if pl.MaintenanceInfo == nil || pl.MaintenanceInfo.Version != "2.1.0" {
					t.Errorf("maintenance_info %+v, want version 2.1.0", pl.MaintenanceInfo)
				}
			case "postgres/schema":
				if pl.Schemas == nil || pl.Schemas.ServiceInstance.Create == nil || pl.Schemas.ServiceBinding.Create == nil {
					t.Errorf("schemas %+v, want some", pl.Schemas)
				}
			case "faults/hurried":
				if pl.MaximumPollingDuration == nil || *pl.MaximumPollingDuration != 3 {
					t.Errorf("maximum_polling_duration %v, want 3", pl.MaximumPollingDuration)
				}
			}
		}
	}
}

func (p platform) bound(id, name string) string {
	p.t.Helper()
	binding := p.id()
	made, err := p.Bind(p.bind(id, binding, name))
	if must(p.t, "bind", made, err); made.Async || made.Credentials["uri"] == nil {
		p.t.Fatalf("a synchronous bind: async %v, credentials %v", made.Async, made.Credentials)
	}
	again, err := p.Bind(p.bind(id, binding, name))
	if must(p.t, "bind again", again, err); again.Credentials["uri"] != made.Credentials["uri"] {
		p.t.Errorf("the same bind again: %v, want %v", again.Credentials, made.Credentials)
	}
	return binding
}

func (p platform) boundLater(id, name string) string {
	p.t.Helper()
	binding := p.id()
	request := p.bind(id, binding, name)
	request.AcceptsIncomplete = true
	made, err := p.Bind(request)
	p.began("bind", must(p.t, "bind", made, err).Async, made.OperationKey)
	if made.Credentials != nil {
		p.t.Errorf("credentials came with the 202: %v", made.Credentials)
	}
	if state := p.bindingEnds(id, binding, made.OperationKey); state != osbc.StateSucceeded {
		p.t.Fatalf("bind: %s", state)
	}
	got, err := p.GetBinding(&osbc.GetBindingRequest{InstanceID: id, BindingID: binding})
	if must(p.t, "get the binding", got, err).Credentials["uri"] == nil {
		p.t.Errorf("the binding has the credentials %v", got.Credentials)
	}
	return binding
}

func (p platform) updates(id, name string) {
	p.t.Helper()
	to := p.plan("postgres/small")
	request := &osbc.UpdateInstanceRequest{
		InstanceID: id, AcceptsIncomplete: true, ServiceID: to.service, PlanID: &to.plan, Parameters: map[string]any{"a": 2},
		PreviousValues: &osbc.PreviousValues{PlanID: p.plan(name).plan, ServiceID: to.service}, Context: where(), OriginatingIdentity: user(),
	}
	changed, err := p.UpdateInstance(request)
	p.began("update", must(p.t, "update", changed, err).Async, changed.OperationKey)
	if state := p.ends(id, changed.OperationKey); state != osbc.StateSucceeded {
		p.t.Fatalf("update: %s", state)
	}
	again, err := p.UpdateInstance(request)
	if must(p.t, "update again", again, err).Async {
		p.t.Error("an update that is in force already was begun again")
	}
}

func (p platform) fetched(id, name string) {
	p.t.Helper()
	got, err := p.GetInstance(&osbc.GetInstanceRequest{InstanceID: id})
	want := p.plan(name)
	if must(p.t, "get the instance", got, err); got.ServiceID != want.service || got.PlanID != want.plan || got.Parameters["a"] == nil {
		p.t.Errorf("the instance is %+v, want %+v with its parameters", got, want)
	}
}

func (p platform) unbound(id, binding, name string) {
	p.t.Helper()
	for _, what := range []string{"unbind", "unbind what is gone"} { // the library reads the body of a 410, too
		gone, err := p.Unbind(p.unbind(id, binding, name))
		if must(p.t, what, gone, err).Async {
			p.t.Errorf("%s: asynchronous, though not asked for", what)
		}
	}
}

func (p platform) unboundLater(id, binding, name string) {
	p.t.Helper()
	request := p.unbind(id, binding, name)
	request.AcceptsIncomplete = true
	gone, err := p.Unbind(request)
	p.began("unbind", must(p.t, "unbind", gone, err).Async, gone.OperationKey)
	if state := p.bindingEnds(id, binding, gone.OperationKey); state != osbc.StateSucceeded {
		p.t.Fatalf("unbind: %s", state)
	}
}

func (p platform) deprovisioned(id, name string) {
	p.t.Helper()
	gone, err := p.DeprovisionInstance(p.deprovision(id, name))
	p.began("deprovision", must(p.t, "deprovision", gone, err).Async, gone.OperationKey)
	if state := p.ends(id, gone.OperationKey); state != osbc.StateSucceeded {
		p.t.Fatalf("deprovision: %s", state)
	}
	again, err := p.DeprovisionInstance(p.deprovision(id, name))
	if must(p.t, "deprovision what is gone", again, err).Async { // 410 is success to the library
		p.t.Error("a delete of what is gone was begun")
	}
}
