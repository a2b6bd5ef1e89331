// Package lambda puts the three functions on AWS together: the API behind API
// Gateway, the poller that Step Functions calls, and the janitor on a schedule. What
// a functions/ folder starts is made and tested here.
//
// A function's environment serves one event after the other, for hours. Clients of
// AWS are made once in its life. Secret and catalogs are read before the first event,
// in parallel; what is made of the configuration is kept until the secret has another
// version. Nothing runs on after init, or after the event that it was started for,
// since the environment is frozen then: there are no goroutines in the background here.
package lambda
