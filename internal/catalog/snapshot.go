package catalog

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/ferry-broker/ferry/internal/broker"
)

// errEmpty: a marketplace without a single plan is never believed. Platforms that
// get an empty catalog may drop what they know, and Cloud Foundry's answer is the
// same when a login has merely lost its role.
var errEmpty = errors.New("the marketplace has no usable service plan; " +
	"check that plans are enabled for the org and that the login may see them")

// snapshot is a catalog, ready to be served. It never changes once published.
type snapshot struct {
	document Document
	// plans by service id and plan id.
	plans   map[string]map[string]broker.Plan
	schemas map[schemaKey]*planSchema
	// digest of the text that it was built of.
	digest [sha256.Size]byte
	// leftOut are sentences about what the catalog misses, in marketplace order.
	leftOut []string
	// unmatched are the names of Source.Rotatable that no plan has.
	unmatched []string
}

// build makes the snapshot of a text that encode wrote, perhaps long ago. errEmpty
// when nothing of it can be offered. Of s only the rules count, not where it is.
func build(text []byte, s Source) (*snapshot, error) {
	var market broker.Marketplace
	if err := json.Unmarshal(text, &market); err != nil {
		return nil, fmt.Errorf("decode the marketplace: %w", err)
	}
	b := newBuilder(s)
	for _, o := range market.Offerings {
		b.offering(o)
	}
	if len(b.catalog.Services) == 0 {
		return nil, errEmpty
	}
	body, err := marshal(b.catalog)
	if err != nil {
		return nil, fmt.Errorf("encode the catalog: %w", err)
	}
	sum := sha256.Sum256(body)
	return &snapshot{
		document: Document{Body: body, ETag: `"` + hex.EncodeToString(sum[:]) + `"`},
		plans:    b.plans,
		schemas:  b.schemas,
		digest:   sha256.Sum256(text),
		leftOut:  b.leftOut,

		unmatched: b.rotatable.unmatched(),
	}, nil
}

// follow dates the snapshot. A body that stays the same keeps its date; a new one
// is dated at, in whole seconds as HTTP has them, and always later than the old.
func (s *snapshot) follow(prev *snapshot, at time.Time) {
	if prev != nil && prev.document.ETag == s.document.ETag {
		s.document = prev.document
		return
	}
	s.document.Modified = at.UTC().Truncate(time.Second)
	if prev != nil && !s.document.Modified.After(prev.document.Modified) {
		s.document.Modified = prev.document.Modified.Add(time.Second)
	}
}

// inherit takes over the schemas that prev has as well, so that a change elsewhere
// neither compiles them again nor reports them again.
func (s *snapshot) inherit(prev *snapshot) {
	if prev == nil {
		return
	}
	for key, schema := range s.schemas {
		if old := prev.schemas[key]; schema.sameAs(old) {
			s.schemas[key] = old
		}
	}
}
