// Package cf is broker.Backend on the Cloud Foundry API v3, for one client: one
// org and one login.
//
// The package speaks HTTP itself and takes the words of the API from the resource types of go-cfclient. The client and
// config packages of that library are left out on purpose (docs/cf-contract.md 4.1).
//
// Two implementations of the API are spoken to: the Cloud Controller and Korifi. A
// Backend learns from the answers which it is (see dialect), asks Korifi without the
// filters that it refuses, and names keys there by their operation (LooseKeyName),
// as they cannot be marked.
//
// A login that lost sight of something is shown empty lists. Nothing counts as absent
// before a call that began later has shown that its space, or all spaces, can be seen
// (see confirm).
//
// Trouble that concerns every call of the client (a refused login, a limit, nobody there)
// is found out by one of them, and the others are held back for a while (see pause).
//
// What a call that was sent came to is decided in one table, in errors.go. Nothing
// here repeats a POST or PATCH whose fate is open.
package cf
