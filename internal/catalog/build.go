package catalog

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/ferry-broker/ferry/internal/broker"
	"github.com/ferry-broker/ferry/internal/osb"
)

// errEmpty: a marketplace without a single plan is never believed. Platforms that get an empty catalog may drop what
// they know, and Cloud Foundry's answer is the same when a login has merely lost its role.
var errEmpty = errors.New("the marketplace has no usable service plan; " +
	"check that plans are enabled for the org and that the login may see them")

// snapshot is a catalog, ready to be served. It never changes once published.
type snapshot struct {
	document Document
	// plans by service id and plan id.
	plans   map[string]map[string]broker.Plan
	schemas map[schemaKey]*planSchema
	// digest of the text that it was built of.
	digest [sha256.Size]byte
	// leftOut are sentences about what the catalog misses, in marketplace order.
	leftOut []string
	// unmatched are the names of Source.Rotatable that no plan has.
	unmatched []string
}

// build makes the snapshot of a text that encode wrote, perhaps long ago. errEmpty when nothing of it can be offered.
// Of s only IDs and Rotatable count.
func build(text []byte, s Source) (*snapshot, error) {
	var market broker.Marketplace
	if err := json.Unmarshal(text, &market); err != nil {
		return nil, fmt.Errorf("decode the marketplace: %w", err)
	}
	b := newBuilder(s)
	for _, o := range market.Offerings {
		b.offering(o)
	}
	if len(b.catalog.Services) == 0 {
		return nil, errEmpty
	}
	body, err := marshal(b.catalog)
	if err != nil {
		return nil, fmt.Errorf("encode the catalog: %w", err)
	}
	sum := sha256.Sum256(body)
	return &snapshot{
		document: Document{Body: body, ETag: `"` + hex.EncodeToString(sum[:]) + `"`},
		plans:    b.plans, schemas: b.schemas, digest: sha256.Sum256(text),
		leftOut: b.leftOut, unmatched: b.rotatable.unmatched(),
	}, nil
}

// follow dates the snapshot. A body that stays the same keeps its date; a new one is dated at, in whole seconds as HTTP
// has them, and always later than the old.
func (s *snapshot) follow(prev *snapshot, at time.Time) {
	if prev != nil && prev.document.ETag == s.document.ETag {
		s.document = prev.document
		return
	}
	s.document.Modified = at.UTC().Truncate(time.Second)
	if prev != nil && !s.document.Modified.After(prev.document.Modified) {
		s.document.Modified = prev.document.Modified.Add(time.Second)
	}
}

// inherit takes over the schemas that prev has as well, so that a change elsewhere neither compiles them again nor
// reports them again.
func (s *snapshot) inherit(prev *snapshot) {
	if prev == nil {
		return
	}
	for key, schema := range s.schemas {
		if old := prev.schemas[key]; schema.sameAs(old) {
			s.schemas[key] = old
		}
	}
}

// builder collects a catalog in the order of the marketplace. OSB demands unique ids and names, and platforms refuse a
// whole catalog for one clash, so of two that clash the later is left out.
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

func (b *builder) leaveOut(format string, args ...any) {
	b.leftOut = append(b.leftOut, fmt.Sprintf(format, args...))
}

// offering adds o and its plans. An offering without plans is left out without a word: it is how Cloud Foundry shows
// one whose plans are not enabled for the org.
func (b *builder) offering(o broker.MarketOffering) {
	id := b.id(o.CatalogID, o.GUID)
	if why := clash(id, o.Name, b.plans[id] != nil, b.names[o.Name]); why != "" {
		b.leaveOut("offering %q (%s): %s", o.Name, o.GUID, why)
		return
	}
	one := offeringBuilder{all: b, offering: o, id: id, names: map[string]bool{}, plans: map[string]broker.Plan{}}
	for _, p := range o.Plans {
		one.plan(p)
	}
	if len(one.plans) == 0 {
		return
	}
	service := offeringOf(o, id)
	service.Plans = one.listed
	b.catalog.Services = append(b.catalog.Services, service)
	b.names[o.Name] = true
	b.plans[id] = one.plans
	for planID := range one.plans {
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

// offeringBuilder collects the plans of one offering.
type offeringBuilder struct {
	all      *builder
	offering broker.MarketOffering
	id       string
	names    map[string]bool
	plans    map[string]broker.Plan
	listed   []osb.ServicePlan
}

func (o *offeringBuilder) plan(p broker.MarketPlan) {
	id := o.all.id(p.CatalogID, p.GUID)
	_, idTaken := o.plans[id]
	if why := clash(id, p.Name, idTaken || o.all.planIDs[id], o.names[p.Name]); why != "" {
		o.all.leaveOut("plan %q (%s) of offering %q: %s", p.Name, p.GUID, o.offering.Name, why)
		return
	}
	p = o.presentable(p)
	rotatable := o.all.rotatable.has(o.offering, p)
	o.names[p.Name] = true
	o.listed = append(o.listed, planOf(p, id, rotatable))
	o.plans[id] = o.known(p, id, rotatable)
	for _, s := range schemasOf(&p) {
		if len(*s.text) > 0 {
			o.all.schemas[schemaKey{o.id, id, s.use}] = &planSchema{offering: o.offering.Name, plan: p.Name, use: s.use, text: *s.text}
		}
	}
}

// presentable is the plan without what OSB does not allow in a catalog.
func (o *offeringBuilder) presentable(p broker.MarketPlan) broker.MarketPlan {
	for _, s := range schemasOf(&p) {
		if why := unpublishable(*s.text); why != "" {
			*s.text = nil
			o.all.leaveOut("the %s schema of plan %q (%s) of offering %q: %s", s.use, p.Name, p.GUID, o.offering.Name, why)
		}
	}
	if p.MaintenanceVersion != "" && !semanticVersion.MatchString(p.MaintenanceVersion) {
		o.all.leaveOut("the maintenance_info of plan %q (%s) of offering %q: its version is no semantic version",
			p.Name, p.GUID, o.offering.Name)
		p.MaintenanceVersion = ""
	}
	return p
}

// known is what the use cases learn about the plan.
func (o *offeringBuilder) known(p broker.MarketPlan, id string, rotatable bool) broker.Plan {
	return broker.Plan{
		ServiceID: o.id, PlanID: id,
		OfferingName: o.offering.Name, PlanName: p.Name,
		PlanGUID:               p.GUID,
		Bindable:               p.Bindable,
		BindingRotatable:       rotatable,
		PlanUpdateable:         p.PlanUpdateable,
		InstancesRetrievable:   o.offering.InstancesRetrievable,
		BindingsRetrievable:    o.offering.BindingsRetrievable,
		AllowContextUpdates:    o.offering.AllowContextUpdates,
		MaintenanceVersion:     p.MaintenanceVersion,
		MaximumPollingDuration: p.MaximumPollingDuration,
	}
}

// rotatable is the list of Source.Rotatable with the names that some plan has. Cloud Foundry does not know OSB's
// binding_rotatable, so an operator says which plans have it.
type rotatable struct {
	names []string
	used  map[string]bool
}

// has reports whether the bindings of p can be rotated (OSB "Binding Rotation"). Names are compared without case, as
// Cloud Foundry compares them. A plan that cannot be bound has none.
func (r *rotatable) has(o broker.MarketOffering, p broker.MarketPlan) bool {
	if !p.Bindable {
		return false
	}
	found := false
	for _, name := range r.names {
		if strings.EqualFold(name, o.Name) || strings.EqualFold(name, o.Name+"/"+p.Name) {
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
