// Package broker holds Ferry's use cases, one verb a file, and the ports that they
// need: Store, Backend, Workflow.
//
// A request verb reads the record, asks lifecycle.Next, makes at most one
// conditional write and answers from the record, or begins with the write
// (Options.ClaimFirst). What waits for Cloud Foundry, as a synchronous bind or a fetch
// does, asks BeginWaiting first. Advance does one step of one operation. The order of
// writes and calls is that of docs/protocol.md.
//
// A Broker may be used by any number of goroutines and processes at once.
package broker
