package dynamo

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/ferry-broker/ferry/internal/broker"
)

// partBytes is how much of a catalog one item takes, keys and numbers beside it.
const partBytes = 390 << 10

// header is the item of a catalog. It holds the compressed body, or says where the
// parts are: under its revision and the number of its write.
type header struct {
	revision int64
	write    []byte
	fetched  time.Time
	packed   []byte
	parts    int64
}

func catalogPlace(client string) place { return place{pk: []byte(client), sk: []byte(catalogSort)} }

// newHeader compresses the catalog; parts are nil for one that fits into the header.
func (s *Store) newHeader(c broker.StoredCatalog, revision int64) (header, [][]byte, error) {
	write, err := s.writeNumber()
	if err != nil {
		return header{}, nil, err
	}
	packed, err := pack(c.Body)
	if err != nil {
		return header{}, nil, err
	}
	h := header{revision: revision, write: write, fetched: c.Fetched.UTC()}
	if len(packed) <= s.part {
		h.packed = packed
		return h, nil, nil
	}
	var parts [][]byte
	for len(packed) > 0 {
		n := min(s.part, len(packed))
		parts, packed = append(parts, packed[:n]), packed[n:]
	}
	h.parts = int64(len(parts))
	return h, parts, nil
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

// unpack is the reverse of pack. The checksum inside finds parts that do not belong
// together.
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
