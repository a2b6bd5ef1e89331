package catalog

import (
	"encoding/json"
	"fmt"

	"github.com/ferry-broker/ferry/internal/broker"
	"github.com/ferry-broker/ferry/internal/osb"
)

// builder collects a catalog in the order of the marketplace. OSB demands unique
// ids and names, and platforms refuse a whole catalog for one clash, so of two that
// clash the later is left out.
type builder struct {
	ids       string
	rotatable rotatable
	catalog   osb.Catalog
	plans     map[string]map[string]broker.Plan
	schemas   map[schemaKey]*planSchema
	// names of the offerings, and ids of the plans of all offerings.
	names, planIDs map[string]bool
	leftOut        []string
}

func newBuilder(s Source) *builder {
	return &builder{
		ids:       s.IDs,
		rotatable: rotatable{names: s.Rotatable, used: map[string]bool{}},
		plans:     map[string]map[string]broker.Plan{},
		schemas:   map[schemaKey]*planSchema{},
		names:     map[string]bool{},
		planIDs:   map[string]bool{},
	}
}

// id chooses between the two ids that everything has.
func (b *builder) id(catalogID, guid string) string {
	if b.ids == IDsCloudFoundry {
		return guid
	}
	return catalogID
}

func (b *builder) skip(format string, args ...any) {
	b.leftOut = append(b.leftOut, fmt.Sprintf(format, args...))
}

// offering adds o and its plans. An offering without plans is skipped silently: it
// is how Cloud Foundry shows one whose plans are not enabled for the org.
func (b *builder) offering(o broker.MarketOffering) {
	id := b.id(o.CatalogID, o.GUID)
	if why := clash(id, o.Name, b.plans[id] != nil, b.names[o.Name]); why != "" {
		b.skip("offering %q (%s): %s", o.Name, o.GUID, why)
		return
	}
	k := pack{builder: b, offering: o, id: id, names: map[string]bool{}, plans: map[string]broker.Plan{}}
	for _, p := range o.Plans {
		k.plan(p)
	}
	if len(k.plans) == 0 {
		return
	}
	service := offeringOf(o, id)
	service.Plans = k.listed
	b.catalog.Services = append(b.catalog.Services, service)
	b.names[o.Name] = true
	b.plans[id] = k.plans
	for planID := range k.plans {
		b.planIDs[planID] = true
	}
}

// clash says why something may not be in the catalog, or "".
func clash(id, name string, idTaken, nameTaken bool) string {
	switch {
	case id == "":
		return "it has no id"
	case name == "":
		return "it has no name"
	case idTaken:
		return fmt.Sprintf("the id %q is taken by an earlier one", id)
	case nameTaken:
		return "the name is taken by an earlier one"
	}
	return ""
}

// pack collects the plans of one offering.
type pack struct {
	*builder
	offering broker.MarketOffering
	id       string
	names    map[string]bool
	plans    map[string]broker.Plan
	listed   []osb.ServicePlan
}

func (k *pack) plan(p broker.MarketPlan) {
	id := k.builder.id(p.CatalogID, p.GUID)
	_, here := k.plans[id]
	if why := clash(id, p.Name, here || k.planIDs[id], k.names[p.Name]); why != "" {
		k.skip("plan %q (%s) of offering %q: %s", p.Name, p.GUID, k.offering.Name, why)
		return
	}
	p = k.presentable(p)
	rotatable := k.rotatable.has(k.offering, p)
	k.names[p.Name] = true
	k.listed = append(k.listed, planOf(p, id, rotatable))
	k.plans[id] = k.known(p, id, rotatable)
	for _, s := range planSchemas(k.offering, p) {
		k.schemas[schemaKey{k.id, id, s.use}] = s
	}
}

// presentable is the plan without what OSB does not allow in a catalog.
func (k *pack) presentable(p broker.MarketPlan) broker.MarketPlan {
	for _, s := range []struct {
		use  schemaUse
		text *json.RawMessage
	}{{createUse, &p.CreateSchema}, {updateUse, &p.UpdateSchema}, {bindUse, &p.BindSchema}} {
		if why := unpublishable(*s.text); why != "" {
			*s.text = nil
			k.skip("the %s schema of plan %q (%s) of offering %q: %s", s.use, p.Name, p.GUID, k.offering.Name, why)
		}
	}
	if p.MaintenanceVersion != "" && !semanticVersion.MatchString(p.MaintenanceVersion) {
		k.skip("the maintenance_info of plan %q (%s) of offering %q: its version is no semantic version",
			p.Name, p.GUID, k.offering.Name)
		p.MaintenanceVersion = ""
	}
	return p
}

// known is what the use cases learn about the plan.
func (k *pack) known(p broker.MarketPlan, id string, rotatable bool) broker.Plan {
	return broker.Plan{
		ServiceID: k.id, PlanID: id,
		OfferingName: k.offering.Name, PlanName: p.Name,
		PlanGUID:               p.GUID,
		Bindable:               p.Bindable,
		BindingRotatable:       rotatable,
		PlanUpdateable:         p.PlanUpdateable,
		InstancesRetrievable:   k.offering.InstancesRetrievable,
		BindingsRetrievable:    k.offering.BindingsRetrievable,
		AllowContextUpdates:    k.offering.AllowContextUpdates,
		MaintenanceVersion:     p.MaintenanceVersion,
		MaximumPollingDuration: p.MaximumPollingDuration,
	}
}
