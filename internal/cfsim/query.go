package cfsim

import (
	"net/url"
	"slices"
	"strings"
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
