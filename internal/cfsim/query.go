package cfsim

import (
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// query are the parameters of a request while they are being read. The first thing that is wrong with them is kept: a
// handler reads all parameters that it knows and asks for the problem then.
type query struct {
	url.Values
	err error
}

func newQuery(r *http.Request) query { return query{Values: r.URL.Query()} }

func (q *query) refuse(detail string) {
	if q.err == nil {
		q.err = failure(http.StatusBadRequest, 10005, "CF-BadQueryParameter", "The query parameter is invalid: "+detail)
	}
}

// problem is the error for what was refused first, nil when nothing was.
func (q *query) problem() error { return q.err }

// allow refuses query parameters that a route does not know.
func (q *query) allow(names ...string) {
	var unknown []string
	for name := range q.Values {
		if !slices.Contains(names, name) {
			unknown = append(unknown, "'"+name+"'")
		}
	}
	if len(unknown) == 0 {
		return
	}
	slices.Sort(unknown)
	valid := ""
	if len(names) > 0 {
		valid = "'" + strings.Join(names, "', '") + "'"
	}
	q.refuse("Unknown query parameter(s): " + strings.Join(unknown, ", ") + ". Valid parameters are: " + valid)
}

// only is allow for a handler that reads nothing else of the query.
func (q *query) only(names ...string) error {
	q.allow(names...)
	return q.problem()
}

// wanted returns the values of a filter, nil when it is not set. Values are separated by commas; each is then decoded
// once more, so that a comma can be part of a value as %2C.
func (q *query) wanted(name string) []string {
	if !q.Has(name) {
		return nil
	}
	parts := strings.Split(q.Get(name), ",")
	for i, part := range parts {
		parts[i] = unescape(strings.TrimSpace(part))
	}
	return parts
}

// passes tells whether a value is among those wanted; a filter that is not set lets everything through.
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

// oneOf is wanted for a filter whose values are known beforehand; kinds is how a refusal lists them.
func (q *query) oneOf(name, kinds string, known ...string) []string {
	values := q.wanted(name)
	for _, value := range values {
		if !slices.Contains(known, value) {
			q.refuse(strings.ToUpper(name[:1]) + name[1:] + " must be one of " + kinds)
		}
	}
	return values
}

// includes reads the include parameter; valid is how a refusal lists what is known.
func (q *query) includes(valid string, known ...string) []string {
	asked := q.wanted("include")
	for _, name := range asked {
		if !slices.Contains(known, name) {
			q.refuse("Invalid included resource: '" + name + "'. Valid included resources are: " + valid)
		}
	}
	return asked
}

// flag reads a filter that is true or false; nil when it is not set.
func (q *query) flag(name string) *bool {
	if !q.Has(name) {
		return nil
	}
	value := q.Get(name) == "true"
	if !value && q.Get(name) != "false" {
		q.refuse("only accepts values 'true' or 'false'")
	}
	return &value
}

// page is the part of a list that a request asks for.
type page struct {
	number, size int
}

func (q *query) page() page {
	p := page{number: 1, size: 50}
	if q.Has("page") {
		n, err := strconv.Atoi(q.Get("page"))
		if err != nil || n < 1 {
			q.refuse("Page must be a positive integer")
		}
		p.number = n
	}
	if q.Has("per_page") {
		n, err := strconv.Atoi(q.Get("per_page"))
		if err != nil || n < 1 || n > 5000 {
			q.refuse("Per page must be between 1 and 5000")
		}
		p.size = n
	}
	return p
}

// timeParams are the filters by time, each with the operators lt, lte, gt and gte, or with a list of moments.
var timeParams = []string{
	"created_ats", "created_ats[lt]", "created_ats[lte]", "created_ats[gt]", "created_ats[gte]",
	"updated_ats", "updated_ats[lt]", "updated_ats[lte]", "updated_ats[gt]", "updated_ats[gte]",
}

// timeFilter reads the filters by time. Rows are compared by the whole seconds that they show.
func (q *query) timeFilter() func(created, updated time.Time) bool {
	var tests []func(created, updated time.Time) bool
	for _, name := range timeParams {
		if q.Has(name) {
			tests = append(tests, q.timeLimit(name))
		}
	}
	return func(created, updated time.Time) bool {
		return !slices.ContainsFunc(tests, func(test func(created, updated time.Time) bool) bool { return !test(created, updated) })
	}
}

func (q *query) timeLimit(name string) func(created, updated time.Time) bool {
	field, operator, _ := strings.Cut(strings.TrimSuffix(name, "]"), "[")
	var moments []time.Time
	for _, text := range q.wanted(name) {
		at, err := time.Parse("2006-01-02T15:04:05Z", text)
		if err != nil {
			title := strings.ToUpper(field[:1]) + strings.ReplaceAll(field[1:], "_", " ")
			q.refuse(title + " has an invalid timestamp format. Timestamps should be formatted as 'YYYY-MM-DDThh:mm:ssZ'")
		}
		moments = append(moments, at)
	}
	return func(created, updated time.Time) bool {
		at := created
		if field == "updated_ats" {
			at = updated
		}
		at = at.Truncate(time.Second)
		return slices.ContainsFunc(moments, func(moment time.Time) bool { return compares(operator, at.Compare(moment)) })
	}
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

// requirement is one part of a label selector. Without values it asks whether the label is there.
type requirement struct {
	key    string
	values []string
	negate bool
}

// selector is a parsed label_selector; all its requirements must hold.
type selector []requirement

var setRequirement = regexp.MustCompile(`^(\S+)\s+(in|notin)\s*\(([^()]*)\)$`)

// selector reads the label_selector of a list.
func (q *query) selector() selector {
	if !q.Has("label_selector") {
		return nil
	}
	parts := splitRequirements(q.Get("label_selector"))
	if len(parts) > maxRequirements {
		q.refuse("Invalid label_selector value: too many requirements (maximum is 50)")
	}
	var result selector
	for _, part := range parts {
		parsed, ok := parseRequirement(strings.TrimSpace(part))
		if !ok {
			q.refuse("Invalid label_selector value")
		}
		result = append(result, parsed)
	}
	return result
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

// matches tells whether labels meet every requirement. A label that is not there meets != and notin.
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
