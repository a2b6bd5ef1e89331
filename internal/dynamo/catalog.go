package dynamo

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/ferry-broker/ferry/internal/broker"
)

// MaxCatalogBytes is how long the body of a catalog may be.
const MaxCatalogBytes = 32 << 20

// catalogReads bounds how often a reader starts again because the catalog was
// replaced under its hands; that takes a writer each time.
const catalogReads = 10

// errReplaced says that parts are gone: another revision took the catalog's place
// after its header was read.
var errReplaced = errors.New("the catalog's parts are gone")

// Catalog implements broker.CatalogStore: one strongly consistent read, and a query
// for the parts of a catalog that is larger than an item. Fetched comes back in UTC.
func (s *Store) Catalog(ctx context.Context, client string) (broker.StoredCatalog, error) {
	c, err := s.catalog(ctx, client)
	if err != nil {
		return broker.StoredCatalog{}, fmt.Errorf("catalog of %s: %w", client, err)
	}
	return c, nil
}

func (s *Store) catalog(ctx context.Context, client string) (broker.StoredCatalog, error) {
	if err := checkClient(client); err != nil {
		return broker.StoredCatalog{}, err
	}
	for range catalogReads {
		head, err := s.get(ctx, catalogPlace(client))
		if err != nil {
			return broker.StoredCatalog{}, err
		}
		if len(head) == 0 {
			return broker.StoredCatalog{}, broker.ErrNotFound
		}
		c, err := s.assemble(ctx, client, head)
		if !errors.Is(err, errReplaced) {
			return c, err
		}
	}
	return broker.StoredCatalog{}, errReplaced
}

// assemble makes the catalog of its header and its parts.
func (s *Store) assemble(ctx context.Context, client string, head item) (broker.StoredCatalog, error) {
	h, err := decodeHeader(head)
	if err != nil {
		return broker.StoredCatalog{}, err
	}
	packed := h.packed
	if h.parts > 0 {
		if packed, err = s.parts(ctx, client, h); err != nil {
			return broker.StoredCatalog{}, err
		}
	}
	body, err := unpack(packed)
	return broker.StoredCatalog{Client: client, Revision: h.revision, Fetched: h.fetched, Body: body}, err
}

// PutCatalog implements broker.CatalogStore. ErrTooLarge above MaxCatalogBytes.
//
// The header is what readers begin with, and the only item that is written on a
// condition. The parts of a large catalog are there before it, under a number that no
// other write has; those that it makes useless are deleted after it.
func (s *Store) PutCatalog(ctx context.Context, c broker.StoredCatalog, revision int64) (broker.StoredCatalog, error) {
	stored, err := s.putCatalog(ctx, c, revision)
	if err != nil {
		return stored, fmt.Errorf("put catalog of %s at revision %d: %w", c.Client, revision, err)
	}
	return stored, nil
}

func (s *Store) putCatalog(ctx context.Context, c broker.StoredCatalog, revision int64) (broker.StoredCatalog, error) {
	if err := checkClient(c.Client); err != nil {
		return broker.StoredCatalog{}, err
	}
	if len(c.Body) > MaxCatalogBytes || len(c.Client) > maxPartitionBytes {
		return broker.StoredCatalog{}, broker.ErrTooLarge
	}
	h, parts, err := s.newHeader(c, revision+1)
	if err != nil {
		return broker.StoredCatalog{}, err
	}
	if len(parts) > 0 {
		if winner, err := s.putParts(ctx, c.Client, h, parts, revision); err != nil {
			return s.refusedCatalog(ctx, c.Client, winner, err)
		}
	}
	in := s.newPut(h.encode(c.Client), revision, s.now())
	in.ReturnValues = types.ReturnValueAllOld
	answer, winner, err := s.write(ctx, in)
	if err != nil {
		if h.parts > 0 && errors.Is(err, broker.ErrConflict) {
			s.discard(ctx, s.under([]byte(c.Client), h.partPrefix()), nil)
		}
		return s.refusedCatalog(ctx, c.Client, winner, err)
	}
	if h.parts > 0 || mayHaveParts(answer, revision) {
		s.discard(ctx, s.upTo(c.Client, revision+1), []byte(h.partPrefix()))
	}
	c.Revision, c.Fetched, c.Body = h.revision, h.fetched, bytes.Clone(c.Body)
	return c, nil
}

// mayHaveParts is about the catalog that was replaced. A write that was made by a try
// whose answer was lost does not know it.
func mayHaveParts(answer *dynamodb.PutItemOutput, revision int64) bool {
	if answer == nil {
		return revision > 0
	}
	parts, err := item(answer.Attributes).number(attrParts)
	return parts > 0 || err != nil
}

// refusedCatalog answers a conflict with the catalog that is stored. When even that
// was replaced while its parts were read, the one after it.
func (s *Store) refusedCatalog(ctx context.Context, client string, winner item, cause error) (broker.StoredCatalog, error) {
	if !errors.Is(cause, broker.ErrConflict) {
		return broker.StoredCatalog{}, cause
	}
	if len(winner) == 0 {
		return broker.StoredCatalog{Client: client}, cause
	}
	stored, err := s.assemble(ctx, client, winner)
	if errors.Is(err, errReplaced) {
		stored, err = s.catalog(ctx, client)
	}
	if err != nil {
		return broker.StoredCatalog{}, err
	}
	return stored, cause
}
