// Package catalog keeps the catalog of every client: what GET /v2/catalog answers
// (OSB 2.17 "Catalog Management") and what the use cases ask about a plan.
//
// A marketplace of Cloud Foundry is turned into a catalog once, when it was
// fetched. Readers then share the result without a lock, and go on doing so while
// Cloud Foundry cannot be reached: a failed or empty fetch never replaces what is
// known. The last good marketplace is also kept in the store, so that a process
// that starts while Cloud Foundry is down still has a catalog.
//
// There is one way to build: a fetched marketplace is first written as the text
// that the store keeps, and the catalog is made of that text. So every process
// serves the same bytes and the same ETag for the same marketplace.
package catalog
