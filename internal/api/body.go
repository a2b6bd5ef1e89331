package api

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net/http"

	"github.com/ferry-broker/ferry/internal/canon"
)

// withBody joins a reader of a body's fields and the use case that takes what it
// read. The order of its checks continues that of serveOSB: size, syntax, types of
// all fields, mandatory fields.
func withBody[B any](read func(*form) B, serve func(*handler, context.Context, *exchange, B) (answer, error)) action {
	return func(h *handler, ctx context.Context, e *exchange) (answer, error) {
		raw, err := readBody(e.request, h.RequestBytes)
		if err != nil {
			return answer{}, err
		}
		fields, err := parseObject(raw)
		if err != nil {
			return answer{}, unreadable(e.request, err)
		}
		f := form{fields: fields, faults: &faults{}, parametersBytes: h.ParametersBytes}
		body := read(&f)
		if err := f.faults.err(); err != nil {
			return answer{}, err
		}
		return serve(h, ctx, e, body)
	}
}

// readBody reads at most limit bytes. The server throws away what is left of a
// larger body, or closes the connection.
func readBody(r *http.Request, limit int64) ([]byte, error) {
	if r.Body == nil {
		return nil, nil
	}
	if r.ContentLength > limit {
		return nil, tooLarge(limit)
	}
	var buffer bytes.Buffer
	if r.ContentLength > 0 {
		buffer.Grow(int(r.ContentLength) + bytes.MinRead)
	}
	_, err := buffer.ReadFrom(io.LimitReader(r.Body, limit+1))
	switch {
	case err != nil:
		return nil, badRequest("The body could not be read to its end. Send the request again.")
	case int64(buffer.Len()) > limit:
		return nil, tooLarge(limit)
	}
	return buffer.Bytes(), nil
}

var errNoBody = errors.New("there is no body")

// parseObject returns the members of the one JSON object in raw. Names are kept as
// they are: encoding/json would fill a struct's service_id from "Service_ID" too,
// and a field that nobody knows must not change anything (HTTP-06).
func parseObject(raw []byte) (map[string]json.RawMessage, error) {
	raw = bytes.TrimSpace(raw)
	if len(raw) == 0 {
		return nil, errNoBody
	}
	if err := canon.Check(raw); err != nil {
		return nil, err
	}
	if raw[0] != '{' {
		return nil, canon.ErrNotObject
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(raw, &fields); err != nil {
		return nil, canon.ErrSyntax
	}
	return fields, nil
}

// unreadable answers for a body that is no JSON object. A wrong Content-Type alone
// is no reason to refuse (HTTP-03): curl sends its form type with perfect JSON. It
// is named when the body cannot be read, as the likely cause.
func unreadable(r *http.Request, err error) error {
	const advice = "a JSON object in UTF-8, each key once"
	kind, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if kind != "" && kind != "application/json" {
		return badRequest("The body cannot be read: %v. Send %s, with Content-Type application/json.", err, advice)
	}
	return badRequest("The body cannot be read: %v. Send %s.", err, advice)
}
