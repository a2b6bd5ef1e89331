package cf

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"net/url"
	"strconv"
)

// maxPages ends a list that never does.
const maxPages = 1000

// page is one page of a list; T is the type of its rows.
type page[T identified] struct {
	Pagination *pagination `json:"pagination"`
	Resources  []T         `json:"resources"`
	Included   struct {
		Spaces []spaceRow `json:"spaces"`
	} `json:"included"`
	header http.Header
}

// pagination is what a page says of its list.
type pagination struct {
	Next       *link         `json:"next"`
	TotalPages optional[int] `json:"total_pages"`
}

type link struct {
	Href string `json:"href"`
}

// pages reads a list to its end, page by page, each row once: rows move between pages
// when the list changes meanwhile. A page that cannot be read, or that is not a page of
// a list at all, and a list that is cut short are errors: half a list would pass for
// absence.
func pages[T identified](ctx context.Context, b *Backend, r request, each func(page[T])) error {
	r.method, r.route = http.MethodGet, r.path
	met := map[string]bool{}
	number := 1
	for range maxPages {
		p, err := readPage[T](ctx, b, r, met)
		if err != nil {
			return err
		}
		each(p)
		next, err := p.Pagination.after(number)
		if err != nil {
			return &Error{Call: r.what, Status: http.StatusOK, Err: err}
		}
		if next == 0 {
			return nil
		}
		number = next
		r.query = maps.Clone(r.query)
		if r.query == nil {
			r.query = url.Values{}
		}
		r.query.Set("page", strconv.Itoa(number))
	}
	return &Error{Call: r.what, Err: errors.New("the list does not end")}
}

// readPage reads one page, without the rows that were met before.
func readPage[T identified](ctx context.Context, b *Backend, r request, met map[string]bool) (p page[T], err error) {
	answer, err := b.send(ctx, r)
	if err != nil {
		return p, err
	}
	if err := json.Unmarshal(answer.body, &p); err != nil {
		return p, &Error{Call: r.what, Status: answer.status, Err: withoutValue(err)}
	}
	if answer.status != http.StatusOK || p.Pagination == nil || p.Resources == nil {
		return p, &Error{Call: r.what, Status: answer.status, Err: errors.New("the answer is not a list")}
	}
	p.header = answer.header
	fresh := make([]T, 0, len(p.Resources))
	for _, row := range p.Resources {
		guid := row.guid()
		if guid == "" {
			return p, &Error{Call: r.what, Status: answer.status, Err: errors.New("the list has a row without a GUID")}
		}
		if !met[guid] {
			met[guid] = true
			fresh = append(fresh, row)
		}
	}
	p.Resources = fresh
	return p, nil
}

// after returns the number of the page that follows page number, 0 when it is the last.
// Nothing but the number is taken from the link, so that it cannot lead elsewhere: not
// to another host, which would get the token, nor to other rows. It must grow, or the
// list would go round in circles.
func (p *pagination) after(number int) (int, error) {
	if p.Next == nil || p.Next.Href == "" {
		if p.TotalPages.value > number {
			return 0, errors.New("the list ends before its last page")
		}
		return 0, nil
	}
	address, err := url.Parse(p.Next.Href)
	if err != nil {
		return 0, errors.New("the address of the next page cannot be read")
	}
	next, err := strconv.Atoi(address.Query().Get("page"))
	if err != nil || next <= number {
		return 0, errors.New("the address of the next page does not name a later page")
	}
	return next, nil
}

// optional is a field of an answer that decides nothing. Missing, null, and a value of
// another type than Cloud Foundry's documentation names count alike as not told: what is
// handed on to a user must not keep the rest from being read. What decides something (a
// GUID, a name, marks, the state of an operation) is never optional, since misreading it
// would pass for absence.
type optional[T any] struct{ value T }

// UnmarshalJSON implements json.Unmarshaler; it never fails.
func (o *optional[T]) UnmarshalJSON(text []byte) error {
	var value T
	if json.Unmarshal(text, &value) == nil {
		o.value = value
	}
	return nil
}

// identity is what every row of a list has.
type identity struct {
	GUID string `json:"guid"`
}

func (i identity) guid() string { return i.GUID }

// identified is a row of a list.
type identified interface{ guid() string }
