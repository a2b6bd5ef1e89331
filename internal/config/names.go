package config

import (
	"strings"

	"go.yaml.in/yaml/v4"
)

// planNames reads a list of offerings and plans by name, an element being
// "offering" or "offering/plan". Whether the marketplace has them is not known
// here: it changes while a configuration stays.
func (o object) planNames(key string) []string {
	items, _ := o.list(key)
	var names []string
	first := map[string]string{}
	for _, item := range items {
		s := object{r: o.r, path: item.path, line: item.node.Line, fields: map[string]*yaml.Node{"": item.node}}
		before := len(o.r.faults)
		name := s.optional("")
		switch at, again := first[name]; {
		case len(o.r.faults) > before: // not even text
		case !isPlanName(name):
			s.fault("", "must be the name of an offering, or of one plan in the form offering/plan")
		case again:
			s.fault("", "says the same as "+at+"; keep one")
		default:
			first[name] = item.path
			names = append(names, name)
		}
	}
	return names
}

func isPlanName(name string) bool {
	offering, plan, both := strings.Cut(name, "/")
	if both && (plan == "" || strings.Contains(plan, "/")) {
		return false
	}
	return offering != "" && name == strings.TrimSpace(name)
}
