// Package gocfclient shows why Ferry takes nothing but the resource types from go-cfclient, each reason of ADR 0018 by
// a test against the version that Ferry's go.mod names. It has tests only. One that fails says that the library is
// better now: then the ADR can be looked at again.
package gocfclient
