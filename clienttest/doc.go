// Package clienttest drives a whole broker, with a simulated Cloud Foundry behind it, through
// sigs.k8s.io/go-open-service-broker-client: the code that Kubernetes' and OpenShift's service-catalog use to talk to
// brokers. It has tests only, and is a module of its own so that the library stays out of the product's dependencies.
//
// With FERRY_CLIENT_URL, FERRY_CLIENT_USERNAME and FERRY_CLIENT_PASSWORD it drives a broker that runs already, such as
// a deployed one (internal/deployed does); what needs a plan of the simulator that this one does not offer is skipped.
package clienttest
