// Package schema holds parameters against the JSON schema of a plan. The schemas
// come from strangers, the backing brokers, and the parameters from other strangers;
// both compiling and checking are bounded in time and memory whatever they hold.
package schema
