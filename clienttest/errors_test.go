package clienttest

import (
	"testing"

	osbc "sigs.k8s.io/go-open-service-broker-client/v2"
)

// TestErrors shows each error that the library tells apart, made by the request that provokes it (ERR-08, ERR-09,
// ERR-10, ERR-14).
func TestErrors(t *testing.T) {
	t.Parallel()
	p := start(t, osbc.LatestAPIVersion())
	tests := map[string]struct {
		provoke    func(platform) error
		recognises func(error) bool
	}{
		"IsConflictError: a create with other parameters":   {otherParameters, osbc.IsConflictError},
		"IsConflictError: a bind with other parameters":     {otherBinding, osbc.IsConflictError},
		"IsGoneError: a poll of a delete that is forgotten": {forgottenDelete, osbc.IsGoneError},
		"IsAsyncRequiredError: a create that cannot wait":   {impatientCreate, osbc.IsAsyncRequiredError},
		"IsAsyncRequiredError: an update that cannot wait":  {impatientUpdate, osbc.IsAsyncRequiredError},
		"IsAsyncRequiredError: a delete that cannot wait":   {impatientDelete, osbc.IsAsyncRequiredError},
		"IsConcurrencyError: an update during a create":     {updateDuringCreate, osbc.IsConcurrencyError},
		"IsConcurrencyError: a create during a delete":      {createDuringDelete, osbc.IsConcurrencyError},
		"IsAppGUIDRequiredError: a bind without an app":     {appOnly, osbc.IsAppGUIDRequiredError},
	}
	helpers := map[string]func(error) bool{
		"IsConflictError": osbc.IsConflictError, "IsGoneError": osbc.IsGoneError, "IsAsyncRequiredError": osbc.IsAsyncRequiredError,
		"IsConcurrencyError": osbc.IsConcurrencyError, "IsAppGUIDRequiredError": osbc.IsAppGUIDRequiredError,
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			err := test.provoke(p.parallel(t))
			if !test.recognises(err) {
				t.Fatalf("the library does not recognise: %v", err)
			}
			others := 0
			for _, recognises := range helpers {
				if recognises(err) {
					others++
				}
			}
			if others != 1 {
				t.Errorf("%d helpers of the library take this error for theirs, want one: %v", others, err)
			}
		})
	}
}

func otherParameters(p platform) error {
	id := p.ready("postgres/small", map[string]any{"a": 1})
	_, err := p.ProvisionInstance(p.provision(id, "postgres/small", map[string]any{"a": 2}))
	return err
}

func otherBinding(p platform) error {
	id := p.ready("postgres/small", nil)
	request := p.bind(id, p.bound(id, "postgres/small"), "postgres/small")
	request.Parameters = map[string]any{"a": 2}
	_, err := p.Bind(request)
	return err
}

func forgottenDelete(p platform) error {
	key := osbc.OperationKey("delete-of-long-ago")
	_, err := p.PollLastOperation(&osbc.LastOperationRequest{InstanceID: p.id(), OperationKey: &key})
	return err
}

func impatientCreate(p platform) error {
	request := p.provision(p.id(), "postgres/small", nil)
	request.AcceptsIncomplete = false
	_, err := p.ProvisionInstance(request)
	return err
}

func impatientUpdate(p platform) error {
	_, err := p.UpdateInstance(p.change(p.ready("postgres/small", nil), "postgres/small", false))
	return err
}

func impatientDelete(p platform) error {
	request := p.deprovision(p.ready("postgres/small", nil), "postgres/small")
	request.AcceptsIncomplete = false
	_, err := p.DeprovisionInstance(request)
	return err
}

func updateDuringCreate(p platform) error {
	id := p.id()
	made, err := p.ProvisionInstance(p.provision(id, "faults/create-stalls", nil))
	p.began("provision", must(p.t, "provision", made, err).Async, made.OperationKey)
	_, err = p.UpdateInstance(p.change(id, "faults/create-stalls", true))
	return err
}

func createDuringDelete(p platform) error {
	id := p.ready("faults/delete-stalls", nil)
	gone, err := p.DeprovisionInstance(p.deprovision(id, "faults/delete-stalls"))
	p.began("deprovision", must(p.t, "deprovision", gone, err).Async, gone.OperationKey)
	_, err = p.ProvisionInstance(p.provision(id, "faults/delete-stalls", nil))
	return err
}

func appOnly(p platform) error {
	id := p.ready("postgres/app-only", nil)
	_, err := p.Bind(p.bind(id, p.id(), "postgres/app-only"))
	return err
}

func (p platform) change(id, name string, incomplete bool) *osbc.UpdateInstanceRequest {
	p.t.Helper()
	return &osbc.UpdateInstanceRequest{
		InstanceID: id, AcceptsIncomplete: incomplete, ServiceID: p.plan(name).service, Parameters: map[string]any{"a": 2},
	}
}
