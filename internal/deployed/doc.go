// Package deployed holds the end-to-end test: it validates, builds and deploys the stack of template.yaml to a stand-in
// for AWS on this machine, plays platforms against the deployed API, in front of a simulated Cloud Foundry, and deletes
// the stack.
//
// It needs what `make stand-in` installs and skips where that is missing. Every process listens on 127.0.0.1 only and
// ends with the test. `make e2e` runs it alone, and `make e2e-aws` takes the cases that need no simulator to a stack on
// AWS. One case needs the two parts of the deployment beside it: go test -run 'TestDeployed/(sam|one_instance)/handed'.
package deployed
