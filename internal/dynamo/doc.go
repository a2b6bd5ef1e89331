// Package dynamo keeps Ferry's records in one DynamoDB table: broker.Store and
// broker.CatalogStore for a broker that runs as many short-lived processes.
//
// # The table
//
// Table is its definition. pk is client#instance_id and sk is "instance" or
// binding#binding_id, so that a query reads the bindings of an instance. Both are
// of type B: ids are any bytes, and bytes need no escaping that would outgrow the
// key limits. Client names have no '#', so the first one divides; a partition
// without any belongs to a client as a whole and holds its catalog.
//
// An item has the attributes that conditions, the index and DynamoDB's TTL ask for,
// and the rest of the record as JSON in body. What a record holds letter for letter
// stays outside of the JSON, in attributes of type B.
//
// # Writes
//
// Every write of a record is one PutItem on condition of the stored revision.
// A refused one comes back with the item that refused it, at no further call. Each
// carries a fresh number in the attribute write, by which a write that the SDK
// repeated, because its answer was lost, recognises itself and counts as won.
//
// DynamoDB may delete what has expired days late, so expires, the exact time, is
// part of every condition and checked on every read; expires_at is for the TTL only.
// The index due is read by Unfinished and by nothing else: it lags behind.
//
// docs/adr/0013-one-table-on-dynamodb.md has the reasons.
package dynamo
