package cfsim

import (
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"
)

// allow refuses query parameters that a route does not know.
func (c *call) allow(names ...string) error {
	var unknown []string
	for name := range c.query {
		if !slices.Contains(names, name) {
			unknown = append(unknown, "'"+name+"'")
		}
	}
	if len(unknown) == 0 {
		return nil
	}
	slices.Sort(unknown)
	valid := "'" + strings.Join(names, "', '") + "'"
	if len(names) == 0 {
		valid = ""
	}
	return badQuery("Unknown query parameter(s): " + strings.Join(unknown, ", ") + ". Valid parameters are: " + valid)
}

// wanted returns the values of a filter, nil when it is not set. Values are
// separated by commas; each is then decoded once more, so that a comma can be
// part of a value as %2C.
func (c *call) wanted(name string) []string {
	if !c.query.Has(name) {
		return nil
	}
	parts := strings.Split(c.query.Get(name), ",")
	for i, part := range parts {
		parts[i] = unescape(strings.TrimSpace(part))
	}
	return parts
}

// passes tells whether a value is among those wanted; a filter that is not set
// lets everything through.
func passes(wanted []string, value string) bool {
	return wanted == nil || slices.Contains(wanted, value)
}

func unescape(text string) string {
	decoded, err := url.QueryUnescape(text)
	if err != nil {
		return text
	}
	return decoded
}

// flag reads a filter that is true or false; nil when it is not set.
func (c *call) flag(name string) (*bool, error) {
	if !c.query.Has(name) {
		return nil, nil
	}
	value := c.query.Get(name) == "true"
	if !value && c.query.Get(name) != "false" {
		return nil, badQuery("only accepts values 'true' or 'false'")
	}
	return &value, nil
}

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

// maxRequirements is how many parts a label selector may have.
const maxRequirements = 50

// requirement is one part of a label selector. Without values it asks whether
// the label is there.
type requirement struct {
	key    string
	values []string
	negate bool
}

// selector is a parsed label_selector; all its requirements must hold.
type selector []requirement

var setRequirement = regexp.MustCompile(`^(\S+)\s+(in|notin)\s*\(([^()]*)\)$`)

// selector reads the label_selector of a list call.
func (c *call) selector() (selector, error) {
	if !c.query.Has("label_selector") {
		return nil, nil
	}
	parts := splitRequirements(c.query.Get("label_selector"))
	if len(parts) > maxRequirements {
		return nil, badQuery("Invalid label_selector value: too many requirements (maximum is 50)")
	}
	var result selector
	for _, part := range parts {
		parsed, ok := parseRequirement(strings.TrimSpace(part))
		if !ok {
			return nil, badQuery("Invalid label_selector value")
		}
		result = append(result, parsed)
	}
	return result, nil
}

// splitRequirements cuts at commas outside of parentheses.
func splitRequirements(text string) []string {
	var parts []string
	depth, from := 0, 0
	for i, char := range text {
		switch {
		case char == '(':
			depth++
		case char == ')':
			depth--
		case char == ',' && depth == 0:
			parts = append(parts, text[from:i])
			from = i + 1
		}
	}
	return append(parts, text[from:])
}

func parseRequirement(text string) (requirement, bool) {
	if set := setRequirement.FindStringSubmatch(text); set != nil {
		values := strings.Split(set[3], ",")
		for i := range values {
			values[i] = strings.TrimSpace(values[i])
		}
		return requirement{key: set[1], values: values, negate: set[2] == "notin"}, true
	}
	for _, operator := range []string{"!=", "==", "="} {
		if key, value, found := strings.Cut(text, operator); found {
			key, value = strings.TrimSpace(key), strings.TrimSpace(value)
			return requirement{key: key, values: []string{value}, negate: operator == "!="}, key != ""
		}
	}
	key, negate := strings.CutPrefix(text, "!")
	return requirement{key: strings.TrimSpace(key), negate: negate}, key != "" && !strings.ContainsAny(key, " ()")
}

// matches tells whether labels meet every requirement. A label that is not
// there meets != and notin.
func (s selector) matches(labels pairs) bool {
	for _, r := range s {
		value, there := labels.get(r.key)
		hit := there && (r.values == nil || slices.Contains(r.values, value))
		if hit == r.negate {
			return false
		}
	}
	return true
}
