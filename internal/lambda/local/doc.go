// Package local puts the whole broker into the process of the API function, for
// people who try it with `sam local` and have no cloud: the embedded store in a
// temporary folder, the workflow in the process, and a simulated Cloud Foundry beside
// it. What was provisioned lives as long as the function's environment.
//
// Only functions/api built with the tag `local` imports it, so that nothing of it is
// in a binary that is deployed (a test in internal/stack looks).
package local
