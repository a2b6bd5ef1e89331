// Package sfn is broker.Workflow on AWS Step Functions: an execution of the state
// machine in statemachine/operation.asl.json for each operation.
//
// The operation string is the execution's name, so that Step Functions itself makes
// one start of two. That is a saving, not a safeguard: names are free again after 90
// days, and the record alone decides what happens.
package sfn
