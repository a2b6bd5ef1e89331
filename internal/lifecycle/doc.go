// Package lifecycle is Ferry's state machine: one pure function, Next, from a
// record and an event to a decision.
//
// It knows neither disk nor network, takes time as a value and returns values
// only, so that every law of the design can be shown on it by search. A caller
// reads a record, calls Next, makes the one conditional write that the decision
// names, and only then carries out the decision's effect: save before you send.
// What the caller learns (a look-up, the state of a job, an answer) goes back in
// as the next event.
//
// Nothing in this package keeps state; everything may be called concurrently.
package lifecycle
