package catalog

import "time"

// Document is the catalog of one client as the broker serves it.
// It is shared by every reader: nobody may change Body.
type Document struct {
	// Body is the JSON text of the answer to GET /v2/catalog.
	Body []byte
	// ETag is the strong entity tag of Body, quotes included, ready for the
	// ETag header and for comparison with If-None-Match.
	ETag string
	// Modified is the moment Body last became different, for Last-Modified.
	Modified time.Time
}
