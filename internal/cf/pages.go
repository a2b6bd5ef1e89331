package cf

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"

	"github.com/cloudfoundry/go-cfclient/v3/resource"
)

// maxPages ends a list that never does.
const maxPages = 1000

// page is one page of a list; T is the type of its rows.
type page[T any] struct {
	Pagination *resource.Pagination `json:"pagination"`
	Resources  []T                  `json:"resources"`
	Included   struct {
		Spaces []resource.Space `json:"spaces"`
	} `json:"included"`
	header http.Header
}

// pages reads a list to its end, page by page. A page that cannot be read, or that
// is not a page of a list at all, is an error: half a list would pass for absence.
func pages[T any](ctx context.Context, b *Backend, r request, each func(page[T])) error {
	r.method, r.route = http.MethodGet, r.path
	for range maxPages {
		answer, err := b.send(ctx, r)
		if err != nil {
			return err
		}
		var p page[T]
		if err := json.Unmarshal(answer.body, &p); err != nil {
			return &Error{Call: r.what, Status: answer.status, Err: withoutValue(err)}
		}
		if answer.status != http.StatusOK || p.Pagination == nil || p.Resources == nil {
			return &Error{Call: r.what, Status: answer.status, Err: errors.New("the answer is not a list")}
		}
		p.header = answer.header
		each(p)
		if p.Pagination.Next.Href == "" {
			return nil
		}
		if r.query, err = nextQuery(p.Pagination.Next.Href); err != nil {
			return &Error{Call: r.what, Status: answer.status, Err: err}
		}
	}
	return &Error{Call: r.what, Err: errors.New("the list does not end")}
}

// nextQuery returns the query of the next page. Scheme and host are not followed:
// every call, and its token, goes to the configured API.
func nextQuery(href string) (url.Values, error) {
	next, err := url.Parse(href)
	if err != nil {
		return nil, errors.New("the address of the next page cannot be read")
	}
	query, err := url.ParseQuery(next.RawQuery)
	if err != nil || len(query) == 0 {
		return nil, errors.New("the address of the next page cannot be read")
	}
	return query, nil
}
