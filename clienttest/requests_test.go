package clienttest

import (
	osbc "sigs.k8s.io/go-open-service-broker-client/v2"
)

// catalog maps offering/plan to ids.
func (p platform) catalog() map[string]plan {
	p.t.Helper()
	answer, err := p.GetCatalog()
	plans := map[string]plan{}
	for _, s := range must(p.t, "get the catalog", answer, err).Services {
		for _, pl := range s.Plans {
			plans[s.Name+"/"+pl.Name] = plan{s.ID, pl.ID}
		}
	}
	return plans
}

func (p platform) plan(name string) plan {
	p.t.Helper()
	found, ok := p.plans[name]
	if !ok && p.foreign {
		p.t.Skipf("this needs the plan %s of the simulator, and the broker has another marketplace", name)
	}
	if !ok {
		p.t.Fatalf("the catalog has no plan %s", name)
	}
	return found
}

// where is what service-catalog says of where a request comes from.
func where() map[string]any {
	return map[string]any{"platform": "kubernetes", "namespace": "shop", "clusterid": "cluster-1"}
}

func user() *osbc.OriginatingIdentity {
	return &osbc.OriginatingIdentity{Platform: "kubernetes", Value: `{"username":"someone","uid":"","groups":["system:authenticated"],"extra":{}}`}
}

func (p platform) provision(id, name string, parameters map[string]any) *osbc.ProvisionRequest {
	p.t.Helper()
	pl := p.plan(name)
	return &osbc.ProvisionRequest{
		InstanceID: id, ServiceID: pl.service, PlanID: pl.plan, AcceptsIncomplete: true,
		OrganizationGUID: "cluster-1", SpaceGUID: "namespace-1",
		Parameters: parameters, Context: where(), OriginatingIdentity: user(),
	}
}

func (p platform) bind(id, binding, name string) *osbc.BindRequest {
	p.t.Helper()
	pl := p.plan(name)
	return &osbc.BindRequest{
		InstanceID: id, BindingID: binding, ServiceID: pl.service, PlanID: pl.plan,
		Context: where(), OriginatingIdentity: user(),
	}
}

func (p platform) unbind(id, binding, name string) *osbc.UnbindRequest {
	p.t.Helper()
	pl := p.plan(name)
	return &osbc.UnbindRequest{InstanceID: id, BindingID: binding, ServiceID: pl.service, PlanID: pl.plan, OriginatingIdentity: user()}
}

func (p platform) deprovision(id, name string) *osbc.DeprovisionRequest {
	p.t.Helper()
	pl := p.plan(name)
	return &osbc.DeprovisionRequest{
		InstanceID: id, ServiceID: pl.service, PlanID: pl.plan, AcceptsIncomplete: true, OriginatingIdentity: user(),
	}
}

// ends polls an instance until the operation is over.
func (p platform) ends(id string, key *osbc.OperationKey) osbc.LastOperationState {
	p.t.Helper()
	state := osbc.StateInProgress
	p.eventually("an operation of "+id+" ends", func() bool {
		answer, err := p.PollLastOperation(&osbc.LastOperationRequest{InstanceID: id, OperationKey: key, OriginatingIdentity: user()})
		state = must(p.t, "poll "+id, answer, err).State
		return state != osbc.StateInProgress
	})
	return state
}

// bindingEnds polls a binding until the operation is over.
func (p platform) bindingEnds(id, binding string, key *osbc.OperationKey) osbc.LastOperationState {
	p.t.Helper()
	state := osbc.StateInProgress
	p.eventually("an operation of "+binding+" ends", func() bool {
		answer, err := p.PollBindingLastOperation(&osbc.BindingLastOperationRequest{InstanceID: id, BindingID: binding, OperationKey: key})
		state = must(p.t, "poll "+binding, answer, err).State
		return state != osbc.StateInProgress
	})
	return state
}

// ready makes an instance and returns its id.
func (p platform) ready(name string, parameters map[string]any) string {
	p.t.Helper()
	id := p.id()
	answer, err := p.ProvisionInstance(p.provision(id, name, parameters))
	p.began("provision "+id, must(p.t, "provision", answer, err).Async, answer.OperationKey)
	if state := p.ends(id, answer.OperationKey); state != osbc.StateSucceeded {
		p.t.Fatalf("provision %s: %s", id, state)
	}
	return id
}

// began checks that a 202 was understood as one.
func (p platform) began(what string, async bool, key *osbc.OperationKey) {
	p.t.Helper()
	if !async || key == nil || *key == "" {
		p.t.Fatalf("%s: async %v, operation %v, want an operation to poll", what, async, key)
	}
}
