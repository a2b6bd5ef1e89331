package catalog

import (
	"slices"

	"github.com/ferry-broker/ferry/internal/broker"
)

// rotatable is the list of Source.Rotatable with what it was good for. Cloud Foundry
// does not know OSB's binding_rotatable, so an operator says which plans have it.
type rotatable struct {
	names []string
	used  map[string]bool
}

// has reports whether the bindings of p can be rotated (OSB "Binding Rotation"). A
// plan that cannot be bound has none.
func (r *rotatable) has(o broker.MarketOffering, p broker.MarketPlan) bool {
	if !p.Bindable {
		return false
	}
	found := false
	for _, name := range []string{o.Name, o.Name + "/" + p.Name} {
		if slices.Contains(r.names, name) {
			r.used[name], found = true, true
		}
	}
	return found
}

// unmatched returns the names that no plan in the catalog has, in their order.
func (r *rotatable) unmatched() []string {
	var names []string
	for _, name := range r.names {
		if !r.used[name] {
			names = append(names, name)
		}
	}
	return names
}
