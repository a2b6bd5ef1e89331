package cfsim

import (
	"cmp"
	"slices"
	"strings"
	"time"
)

// sortKeys are what rows can be ordered by beside their creation.
type sortKeys struct {
	name    string
	updated time.Time
}

// order applies order_by to rows that are in order of creation.
func order[R any](c *call, rows []R, by func(R) sortKeys) error {
	if !c.query.Has("order_by") {
		return nil
	}
	asked := c.query.Get("order_by")
	switch strings.TrimLeft(asked, "+- ") { // a plus sign that was not encoded is a blank
	case "created_at":
	case "updated_at":
		slices.SortStableFunc(rows, func(a, b R) int { return by(a).updated.Compare(by(b).updated) })
	case "name":
		slices.SortStableFunc(rows, func(a, b R) int { return cmp.Compare(by(a).name, by(b).name) })
	default:
		return badQuery("Order by can only be: 'created_at', 'updated_at', 'name'")
	}
	if strings.HasPrefix(asked, "-") {
		slices.Reverse(rows)
	}
	return nil
}
