package api

import (
	"context"
	"net/http"
	"strings"
	"time"

	"github.com/ferry-broker/ferry/internal/catalog"
)

// catalog serves the client's catalog and lets platforms ask whether it changed (spec "Catalog Management", RFC 9110
// section 13).
func (h *handler) catalog(ctx context.Context, e *exchange) (answer, error) {
	document, err := h.Catalog.Document(ctx, e.client.Name)
	if err != nil {
		return answer{}, err
	}
	a := answer{status: http.StatusOK, outcome: "ok", document: document.Body, header: h.headerOf(e.client.Name, document)}
	if unchanged(e.request.Header, document) {
		a.status, a.outcome, a.document = http.StatusNotModified, "not_modified", nil
	}
	return a, nil
}

// documentHeader is the header of a catalog that was served.
type documentHeader struct {
	etag     string
	modified time.Time
	header   http.Header
}

// headerOf returns the header of a client's catalog. It is made once for each: nobody may change it.
func (h *handler) headerOf(client string, d catalog.Document) http.Header {
	if last, ok := h.documents.Load(client); ok {
		if last := last.(*documentHeader); last.etag == d.ETag && last.modified.Equal(d.Modified) {
			return last.header
		}
	}
	header := http.Header{
		// Each client has its own, so no shared cache may keep it.
		"Cache-Control": {"private, no-cache"},
		"Etag":          {d.ETag},
		"Last-Modified": {d.Modified.UTC().Format(http.TimeFormat)},
	}
	h.documents.Store(client, &documentHeader{d.ETag, d.Modified, header})
	return header
}

// unchanged reports whether the platform has this document. If-Modified-Since only counts without If-None-Match,
// because seconds are coarse.
func unchanged(header http.Header, d catalog.Document) bool {
	if tags := header.Values("If-None-Match"); len(tags) > 0 {
		return matches(strings.Join(tags, ","), d.ETag)
	}
	value := header.Get("If-Modified-Since")
	if value == "" {
		return false
	}
	since, err := http.ParseTime(value)
	return err == nil && !d.Modified.Truncate(time.Second).After(since)
}

// matches reports whether etag is in a list of entity tags, compared weakly, or the list is a star. A tag may hold
// commas between its quotes. What cannot be read ends the list: the whole catalog is then the safe answer.
func matches(list, etag string) bool {
	for {
		list = strings.TrimLeft(list, ", \t")
		if strings.HasPrefix(list, "*") {
			return true
		}
		list = strings.TrimPrefix(list, "W/")
		if !strings.HasPrefix(list, `"`) {
			return false
		}
		opaque, rest, closed := strings.Cut(list[1:], `"`)
		if !closed {
			return false
		}
		if `"`+opaque+`"` == strings.TrimPrefix(etag, "W/") {
			return true
		}
		list = rest
	}
}
