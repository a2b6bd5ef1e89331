package cfsim

import (
	"slices"
	"strings"
	"time"
)

// timeParams are the filters by time, each with the operators lt, lte, gt and
// gte, or with a list of moments.
func timeParams() []string {
	var names []string
	for _, name := range []string{"created_ats", "updated_ats"} {
		names = append(names, name)
		for _, operator := range []string{"lt", "lte", "gt", "gte"} {
			names = append(names, name+"["+operator+"]")
		}
	}
	return names
}

// timeLimit is one such filter.
type timeLimit struct {
	updated bool // about updated_at
	allows  func(time.Time) bool
}

// timeFilter reads them. Rows are compared by the whole seconds that they show.
func (c *call) timeFilter() (func(created, updated time.Time) bool, error) {
	var limits []timeLimit
	for _, name := range timeParams() {
		if !c.query.Has(name) {
			continue
		}
		limit, err := c.timeLimit(name)
		if err != nil {
			return nil, err
		}
		limits = append(limits, limit)
	}
	return func(created, updated time.Time) bool {
		return !slices.ContainsFunc(limits, func(l timeLimit) bool {
			at := created
			if l.updated {
				at = updated
			}
			return !l.allows(at.Truncate(time.Second))
		})
	}, nil
}

func (c *call) timeLimit(name string) (timeLimit, error) {
	field, operator, _ := strings.Cut(strings.TrimSuffix(name, "]"), "[")
	var moments []time.Time
	for _, text := range c.wanted(name) {
		at, err := time.Parse("2006-01-02T15:04:05Z", text)
		if err != nil {
			title := strings.ToUpper(field[:1]) + strings.ReplaceAll(field[1:], "_", " ")
			return timeLimit{}, badQuery(title + " has an invalid timestamp format. Timestamps should be formatted as 'YYYY-MM-DDThh:mm:ssZ'")
		}
		moments = append(moments, at)
	}
	return timeLimit{field == "updated_ats", func(at time.Time) bool {
		return slices.ContainsFunc(moments, func(moment time.Time) bool { return compares(operator, at.Compare(moment)) })
	}}, nil
}

func compares(operator string, order int) bool {
	switch operator {
	case "lt":
		return order < 0
	case "lte":
		return order <= 0
	case "gt":
		return order > 0
	case "gte":
		return order >= 0
	}
	return order == 0
}
