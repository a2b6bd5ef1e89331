package cfsim

import (
	"net/http"
	"strconv"
)

type pagination struct {
	TotalResults int   `json:"total_results"`
	TotalPages   int   `json:"total_pages"`
	First        link  `json:"first"`
	Last         link  `json:"last"`
	Next         *link `json:"next"`
	Previous     *link `json:"previous"`
}

type page struct {
	number, size int
}

type listBody[V any] struct {
	Pagination pagination          `json:"pagination"`
	Resources  []V                 `json:"resources"`
	Included   map[string]included `json:"included,omitempty"`
}

// included is what a list carries beside its resources.
type included any

func (c *call) page() (page, error) {
	p := page{number: 1, size: 50}
	if c.query.Has("page") {
		n, err := strconv.Atoi(c.query.Get("page"))
		if err != nil || n < 1 {
			return p, badQuery("Page must be a positive integer")
		}
		p.number = n
	}
	if c.query.Has("per_page") {
		n, err := strconv.Atoi(c.query.Get("per_page"))
		if err != nil || n < 1 || n > 5000 {
			return p, badQuery("Per page must be between 1 and 5000")
		}
		p.size = n
	}
	return p, nil
}

// cut returns the rows on page p.
func cut[R any](rows []R, p page) []R {
	from := min((p.number-1)*p.size, len(rows))
	to := min(from+p.size, len(rows))
	return rows[from:to]
}

func (c *call) pagination(p page, total int) pagination {
	last := max(1, (total+p.size-1)/p.size)
	result := pagination{
		TotalResults: total, TotalPages: last,
		First: c.pageLink(1, p.size), Last: c.pageLink(last, p.size),
	}
	if p.number < last {
		next := c.pageLink(p.number+1, p.size)
		result.Next = &next
	}
	if p.number > 1 {
		previous := c.pageLink(p.number-1, p.size)
		result.Previous = &previous
	}
	return result
}

func (c *call) pageLink(number, size int) link {
	query := c.request.URL.Query()
	query.Set("page", strconv.Itoa(number))
	query.Set("per_page", strconv.Itoa(size))
	return link{Href: c.base + c.request.URL.Path + "?" + query.Encode()}
}

// takePage renders one page of rows, which come in order of creation and are
// the caller's own slice. by is what they can be ordered by; extra may be nil.
func takePage[R, V any](c *call, rows []R, by func(R) sortKeys, render func(R) V, extra func([]R) map[string]included) (*listPage[V], error) {
	p, err := c.page()
	if err != nil {
		return nil, err
	}
	if err := order(c, rows, by); err != nil {
		return nil, err
	}
	visible := cut(rows, p)
	list := &listPage[V]{listBody[V]{Pagination: c.pagination(p, len(rows)), Resources: make([]V, 0, len(visible))}}
	for _, row := range visible {
		list.body.Resources = append(list.body.Resources, render(row))
	}
	if extra != nil {
		list.body.Included = extra(visible)
	}
	return list, nil
}

// listPage is a page that was taken from the model and is yet to be encoded,
// which needs no lock.
type listPage[V any] struct {
	body listBody[V]
}

// listed answers with what read takes from the model while it is locked.
func listed[V any](s *Simulator, read func() (*listPage[V], error)) (*answer, error) {
	s.mu.Lock()
	list, err := read()
	s.mu.Unlock()
	if err != nil {
		return nil, err
	}
	return jsonAnswer(http.StatusOK, list.body)
}

// passing returns a slice of its own with the rows that are wanted.
func passing[R any](rows []R, wanted func(R) bool) []R {
	var found []R
	for _, row := range rows {
		if wanted(row) {
			found = append(found, row)
		}
	}
	return found
}
