package ccapi

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"net/url"
	"strconv"
)

// Identity is what every row of a list has.
type Identity struct {
	GUID string `json:"guid"`
}

func (i Identity) guid() string { return i.GUID }

// Identified is a row of a list: a struct that embeds Identity.
type Identified interface{ guid() string }

// Link is an address in an answer.
type Link struct {
	Href string `json:"href"`
}

// Optional is a field of an answer that decides nothing. Missing, null, and a value of another type than Cloud
// Foundry's documentation names count alike as not told: what is handed on to a user must not keep the rest from being
// read. What decides something (a GUID, a name, marks, the state of an operation) is never optional, since misreading
// it would pass for absence.
type Optional[T any] struct{ Value T }

// UnmarshalJSON implements json.Unmarshaler; it never fails.
func (o *Optional[T]) UnmarshalJSON(text []byte) error {
	var value T
	if json.Unmarshal(text, &value) == nil {
		o.Value = value
	}
	return nil
}

// List returns all rows of a list, as Pages reads it.
func List[T Identified](ctx context.Context, c *Client, r Request) ([]T, error) {
	var all []T
	err := Pages(ctx, c, r, func(p Page[T]) error {
		all = append(all, p.Resources...)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return all, nil
}

// Page is one page of a list; T is the type of its rows.
type Page[T Identified] struct {
	Resources  []T             `json:"resources"`
	Pagination *pagination     `json:"pagination"`
	Included   json.RawMessage `json:"included"`
	Header     http.Header     `json:"-"`
	call       string
}

// DecodeIncluded reads what the page includes beside its rows.
func (p Page[T]) DecodeIncluded(into any) error {
	if len(p.Included) == 0 {
		return nil
	}
	if err := json.Unmarshal(p.Included, into); err != nil {
		return &Error{Call: p.call, Status: http.StatusOK, Err: withoutValue(err)}
	}
	return nil
}

// maxPages ends a list that never does.
const maxPages = 1000

// Pages reads a list to its end and hands each page on, with each row once: rows move between pages when the list
// changes meanwhile. A page that cannot be read, or that is not a page of a list at all, and a list that is cut short
// are errors: half a list would pass for absence. An error of each ends it, too.
func Pages[T Identified](ctx context.Context, c *Client, r Request, each func(Page[T]) error) error {
	r.Method, r.Route = http.MethodGet, r.Path
	met := map[string]bool{}
	number := 1
	for range maxPages {
		p, err := readPage[T](ctx, c, r, met)
		if err != nil {
			return err
		}
		if err := each(p); err != nil {
			return err
		}
		next, err := p.Pagination.after(number)
		if err != nil {
			return &Error{Call: r.What, Status: http.StatusOK, Err: err}
		}
		if next == 0 {
			return nil
		}
		number = next
		r.Query = maps.Clone(r.Query)
		if r.Query == nil {
			r.Query = url.Values{}
		}
		r.Query.Set("page", strconv.Itoa(number))
	}
	return &Error{Call: r.What, Err: errors.New("the list does not end")}
}

// readPage reads one page, without the rows that were met before.
func readPage[T Identified](ctx context.Context, c *Client, r Request, met map[string]bool) (Page[T], error) {
	p := Page[T]{call: r.What}
	answer, err := c.Send(ctx, r)
	if err != nil {
		return p, err
	}
	if err := json.Unmarshal(answer.Body, &p); err != nil {
		return p, &Error{Call: r.What, Status: answer.Status, Err: withoutValue(err)}
	}
	if answer.Status != http.StatusOK || p.Pagination == nil || p.Resources == nil {
		return p, &Error{Call: r.What, Status: answer.Status, Err: errors.New("the answer is not a list")}
	}
	p.Header = answer.Header
	fresh := make([]T, 0, len(p.Resources))
	for _, row := range p.Resources {
		guid := row.guid()
		if guid == "" {
			return p, &Error{Call: r.What, Status: answer.Status, Err: errors.New("the list has a row without a GUID")}
		}
		if !met[guid] {
			met[guid] = true
			fresh = append(fresh, row)
		}
	}
	p.Resources = fresh
	return p, nil
}

// pagination is what a page says of its list.
type pagination struct {
	Next       *Link         `json:"next"`
	TotalPages Optional[int] `json:"total_pages"`
}

// after returns the number of the page that follows page number, 0 when it is the last. Nothing but the number is taken
// from the link, so that it cannot lead elsewhere: not to another host, which would get the token, nor to other rows.
// It must grow, or the list would go round in circles.
func (p *pagination) after(number int) (int, error) {
	if p.Next == nil || p.Next.Href == "" {
		if p.TotalPages.Value > number {
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
