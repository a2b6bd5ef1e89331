// Package bolt keeps Ferry's records in one bbolt file: broker.Store and
// broker.CatalogStore for a broker that runs as one process.
//
// A directory holds two files. ferry.db has the records, the catalogs and three
// indexes. parameter-keys has the keys that the parameters in ferry.db are sealed
// with, one key a slot; when a write drops parameters, their slot gets another key
// in place, and what is left of them in the pages of ferry.db cannot be opened any
// more (docs/adr/0004-parameters-at-rest.md).
//
// What a method answered is on disk: a write answers after the commit that holds
// it was synced, and a read waits for the commit that it saw. Writers that come
// while a commit is under way share the next one.
package bolt
