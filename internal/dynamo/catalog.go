package dynamo

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/ferry-broker/ferry/internal/broker"
)

// MaxCatalogBytes is how long the body of a catalog may be.
const MaxCatalogBytes = 32 << 20

// catalogReads bounds how often a reader starts again because the catalog was replaced under its hands; that takes a
// writer each time.
const catalogReads = 10

// errReplaced says that parts are gone: another revision took the catalog's place after its header was read.
var errReplaced = errors.New("the catalog's parts are gone")

// Catalog implements broker.CatalogStore: one strongly consistent read, and a query for the parts of a catalog that is
// larger than an item. Fetched comes back in UTC.
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
// The header is what readers begin with, and the only item that is written on a condition. The parts of a large catalog
// are there before it, under a number that no other write has; those that it makes useless are deleted after it.
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
	write, err := s.writeNumber()
	if err != nil {
		return broker.StoredCatalog{}, err
	}
	h := header{revision: revision + 1, write: write, fetched: c.Fetched.UTC()}
	parts, err := h.pack(c.Body, s.part)
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
		s.discard(ctx, partsUpTo(s.table, c.Client, revision+1), []byte(h.partPrefix()))
	}
	c.Revision, c.Fetched, c.Body = h.revision, h.fetched, bytes.Clone(c.Body)
	return c, nil
}

// mayHaveParts is about the catalog that was replaced. A write that was made by a try whose answer was lost does not
// know it.
func mayHaveParts(answer *dynamodb.PutItemOutput, revision int64) bool {
	if answer == nil {
		return revision > 0
	}
	parts, err := item(answer.Attributes).number(attrParts)
	return parts > 0 || err != nil
}

// refusedCatalog answers a conflict with the catalog that is stored. When even that was replaced while its parts were
// read, the one after it.
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

// partBytes is how much of a catalog one item takes, keys and numbers beside it.
const partBytes = 390 << 10

// header is the item of a catalog. It holds the compressed body, or says where the parts are: under its revision and
// the number of its write.
type header struct {
	revision int64
	write    []byte
	fetched  time.Time
	packed   []byte
	parts    int64
}

func catalogPlace(client string) place { return place{pk: []byte(client), sk: []byte(catalogSort)} }

// pack puts the compressed body into the header, or returns it in parts of so many bytes.
func (h *header) pack(body []byte, part int) (parts [][]byte, err error) {
	packed, err := pack(body)
	if err != nil {
		return nil, err
	}
	if len(packed) <= part {
		h.packed = packed
		return nil, nil
	}
	parts = slices.Collect(slices.Chunk(packed, part))
	h.parts = int64(len(parts))
	return parts, nil
}

func (h header) encode(client string) item {
	at := catalogPlace(client)
	it := item{
		attrPK: raw(at.pk), attrSK: raw(at.sk), attrFormat: number(format1), attrRevision: number(h.revision),
		attrFetched: instant(h.fetched),
	}
	it.setRaw(attrWrite, h.write)
	if h.parts > 0 {
		it[attrParts] = number(h.parts)
		return it
	}
	it.setRaw(attrBody, h.packed)
	return it
}

func decodeHeader(it item) (header, error) {
	if err := checkFormat(it); err != nil {
		return header{}, err
	}
	h := header{write: it.raw(attrWrite), packed: it.raw(attrBody)}
	var errs [3]error
	h.revision, errs[0] = it.number(attrRevision)
	h.parts, errs[1] = it.number(attrParts)
	h.fetched, errs[2] = it.time(attrFetched)
	return h, errors.Join(errs[:]...)
}

func pack(body []byte) ([]byte, error) {
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	if _, err := w.Write(body); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

// unpack is the reverse of pack. The checksum inside finds parts that do not belong together.
func unpack(packed []byte) ([]byte, error) {
	r, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errBadItem, err)
	}
	body, err := io.ReadAll(io.LimitReader(r, MaxCatalogBytes+1))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errBadItem, err)
	}
	return body, nil
}

// revisionPrefix begins the sort keys of all parts of a revision, of the write that won it and of those that lost.
// Revisions sort by their number.
func revisionPrefix(revision int64) string {
	return fmt.Sprintf("%s%s%020d%s", catalogSort, separator, revision, separator)
}

func (h header) partPrefix() string {
	return fmt.Sprintf("%s%x%s", revisionPrefix(h.revision), h.write, separator)
}

// putParts stores the parts, which no header names yet. It looks first whether the header can be written at all: with
// parts, losing is dear. Refused: what is stored and ErrConflict.
func (s *Store) putParts(ctx context.Context, client string, h header, parts [][]byte, revision int64) (item, error) {
	stored, err := s.get(ctx, catalogPlace(client))
	if err != nil {
		return nil, err
	}
	if at, err := stored.number(attrRevision); err != nil || at != revision {
		return stored, fmt.Errorf("%w (%d)", broker.ErrConflict, at)
	}
	for n, part := range parts {
		it := item{
			attrPK: raw([]byte(client)), attrSK: raw(fmt.Appendf(nil, "%s%04d", h.partPrefix(), n)),
			attrFormat: number(format1), attrBody: raw(part),
		}
		if _, err := s.client.PutItem(ctx, &dynamodb.PutItemInput{TableName: s.table, Item: it}, s.within(ctx)); err != nil {
			return nil, err
		}
	}
	return nil, nil
}

// parts reads what the header names, all of it or errReplaced.
func (s *Store) parts(ctx context.Context, client string, h header) ([]byte, error) {
	var packed []byte
	found := int64(0)
	err := s.query(ctx, s.under([]byte(client), h.partPrefix()), func(it item) (bool, error) {
		packed = append(packed, it.raw(attrBody)...)
		found++
		return true, nil
	})
	if err == nil && found != h.parts {
		err = errReplaced
	}
	return packed, err
}

// discard deletes the parts that a query finds, but those whose sort keys begin with keep. None of them has a header
// any more, or will have one; whoever still reads them finds that out. What it does not get to, the next one does, so a
// fault is nobody's.
func (s *Store) discard(ctx context.Context, in *dynamodb.QueryInput, keep []byte) {
	in.ConsistentRead = nil
	in.ProjectionExpression = aws.String("#pk, #sk")
	_ = s.query(ctx, in, func(it item) (bool, error) {
		if keep != nil && bytes.HasPrefix(it.raw(attrSK), keep) {
			return true, nil
		}
		_, err := s.client.DeleteItem(ctx, &dynamodb.DeleteItemInput{
			TableName: s.table, Key: map[string]types.AttributeValue{attrPK: it[attrPK], attrSK: it[attrSK]},
		}, s.within(ctx))
		return true, err
	})
}

// partsUpTo asks for the client's parts of all revisions up to one, of which no write can win any more once that one is
// stored.
func partsUpTo(table *string, client string, revision int64) *dynamodb.QueryInput {
	return &dynamodb.QueryInput{
		TableName:                table,
		KeyConditionExpression:   aws.String("#pk = :pk AND #sk BETWEEN :first AND :last"),
		ExpressionAttributeNames: map[string]string{"#pk": attrPK, "#sk": attrSK},
		ExpressionAttributeValues: map[string]types.AttributeValue{
			":pk":    raw([]byte(client)),
			":first": raw([]byte(revisionPrefix(0))),
			":last":  raw([]byte(revisionPrefix(revision) + "\xff")),
		},
	}
}
