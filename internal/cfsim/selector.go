package cfsim

import (
	"regexp"
	"slices"
	"strings"
)

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
