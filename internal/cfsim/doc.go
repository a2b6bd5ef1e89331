// Package cfsim is a Cloud Foundry to develop and test against: the Cloud
// Controller's v3 API over real HTTP, as far as services and the cf command
// line client need it, a UAA under the same listener, and a backing service broker inside, with one plan for each thing
// that can happen to an operation.
//
// It keeps to what a real Cloud Controller does where a broker can notice it:
// rows are visible as soon as a request is answered with 202, a worker takes a
// job up later, an asynchronous backing broker is polled, a DELETE changes
// nothing that can be seen until the backing broker was asked, names are
// unique for each space, and the error texts are the real ones.
//
// With Options.Korifi it answers as Korifi does instead.
//
// Everything lives in memory and ends with the process. Tests steer it through
// /__sim: what happened so far, faults on the wire, what the backing broker
// answers, quotas and permissions, a changing marketplace, instances of somebody
// else, held workers, clean-up clocks, states that a Cloud Controller only
// reaches by accident. docs/simulator.md lists the calls, and how to stage each
// known race.
//
// # Routes
//
// Requests are counted, and faults are matched, by method and route pattern.
// A GUID in a path is written :guid, as in "/v3/service_instances/:guid" or
// "/v3/service_credential_bindings/:guid/details". The token endpoint is
// "/uaa/oauth/token"; a fault may also name it "/oauth/token".
package cfsim
