// The broker that Ferry is measured against. A module of its own, so that the library which it is made with stays out
// of the product's dependencies.
module github.com/ferry-broker/ferry/internal/bench/peer

go 1.26.0

require code.cloudfoundry.org/brokerapi/v13 v13.0.25

require github.com/google/uuid v1.6.0 // indirect
