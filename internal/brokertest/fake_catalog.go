package brokertest

import (
	"context"
	"fmt"
	"slices"

	"github.com/ferry-broker/ferry/internal/broker"
	"github.com/ferry-broker/ferry/internal/osb"
)

// The offerings of the fake marketplace: names, which are the names of spaces, and ids of the catalog.
const (
	OfferingDB, ServiceDB         = "db", "service-db"
	OfferingPlain, ServicePlain   = "plain", "service-plain"
	OfferingBroken, ServiceBroken = "broken", "service-broken"
)

// The GUIDs of the plans of the fake marketplace. The id of each in the catalog is what PlanID makes of it.
const (
	// PlanSmall and PlanLarge work, and an instance may move from one to the other.
	PlanSmall, PlanLarge = "plan-guid-small", "plan-guid-large"
	// PlanSlow works, but its creates take a while.
	PlanSlow = "plan-guid-slow"
	// PlanAppOnly answers binds with RequiresApp.
	PlanAppOnly = "plan-guid-app-only"
	// PlanPlain and PlanOther are of an offering whose plans cannot be changed and whose instances and bindings cannot
	// be fetched.
	PlanPlain, PlanOther = "plan-guid-plain", "plan-guid-other"
	// PlanRejecting rejects creates; PlanUnbindable has no bindings.
	PlanRejecting, PlanUnbindable = "plan-guid-rejecting", "plan-guid-unbindable"
)

// PlanID is the id in the catalog of the plan with this GUID.
func PlanID(guid string) string { return "id-of-" + guid }

// Version is the maintenance version of every plan of OfferingDB.
const Version = "1.2.3"

// FakePlans returns the plans of the fake marketplace.
func FakePlans() []broker.Plan {
	db := broker.Plan{
		ServiceID: ServiceDB, OfferingName: OfferingDB, Bindable: true, PlanUpdateable: true,
		InstancesRetrievable: true, BindingsRetrievable: true, AllowContextUpdates: true, MaintenanceVersion: Version,
		BindingRotatable: true,
	}
	plain := broker.Plan{ServiceID: ServicePlain, OfferingName: OfferingPlain, Bindable: true}
	broken := broker.Plan{ServiceID: ServiceBroken, OfferingName: OfferingBroken, BindingsRetrievable: true}
	rejecting := broken
	rejecting.Bindable = true
	return []broker.Plan{
		named(db, PlanSmall), named(db, PlanLarge), named(db, PlanSlow), named(db, PlanAppOnly),
		named(plain, PlanPlain), named(plain, PlanOther), named(rejecting, PlanRejecting), named(broken, PlanUnbindable),
	}
}

func named(p broker.Plan, guid string) broker.Plan {
	p.PlanGUID, p.PlanID, p.PlanName = guid, PlanID(guid), "name-of-"+guid
	return p
}

func planByGUID(guid string) (broker.Plan, bool) {
	plans := FakePlans()
	i := slices.IndexFunc(plans, func(p broker.Plan) bool { return p.PlanGUID == guid })
	if i < 0 {
		return broker.Plan{}, false
	}
	return plans[i], true
}

func plannedCreate(plan string) End {
	if plan == PlanRejecting {
		return Rejected("The backing broker does not like this plan.")
	}
	return End{}
}

func plannedKey(plan string) End {
	if plan == PlanAppOnly {
		return End{Fail: true, FromBackingBroker: true, Code: osb.RequiresApp, Description: "an application is needed"}
	}
	return End{}
}

// FakeCatalog is a broker.Catalog of the same plans for every client, none of which has a schema. Its fields must not
// be set while it is in use by another goroutine.
type FakeCatalog struct {
	Plans []broker.Plan
	// OnRefresh is called by Refresh and returns its error; nil: nothing happens.
	OnRefresh func() error
}

var _ broker.Catalog = (*FakeCatalog)(nil)

// NewFakeCatalog returns a catalog of FakePlans.
func NewFakeCatalog() *FakeCatalog { return &FakeCatalog{Plans: FakePlans()} }

// Ready implements broker.Catalog.
func (*FakeCatalog) Ready(string) bool { return true }

// CheckParameters implements broker.Catalog.
func (*FakeCatalog) CheckParameters(context.Context, broker.ParametersQuery) error { return nil }

// Refresh implements broker.Catalog.
func (c *FakeCatalog) Refresh(context.Context, string) error {
	if c.OnRefresh == nil {
		return nil
	}
	return c.OnRefresh()
}

// Plan implements broker.Catalog.
func (c *FakeCatalog) Plan(_ context.Context, _, serviceID, planID string) (broker.Plan, error) {
	for _, p := range c.Plans {
		if p.ServiceID == serviceID && p.PlanID == planID {
			return p, nil
		}
	}
	return broker.Plan{}, fmt.Errorf("the offering %q with the plan %q: %w", serviceID, planID, broker.ErrUnknownPlan)
}

// PlanOf implements broker.Catalog.
func (c *FakeCatalog) PlanOf(_ context.Context, _, planGUID string) (broker.Plan, error) {
	for _, p := range c.Plans {
		if p.PlanGUID == planGUID {
			return p, nil
		}
	}
	return broker.Plan{}, fmt.Errorf("the plan with the GUID %q: %w", planGUID, broker.ErrUnknownPlan)
}

// Marketplace implements broker.Backend.
func (c *FakeCloud) Marketplace(ctx context.Context) (broker.Marketplace, error) {
	if err := c.enter(ctx); err != nil {
		return broker.Marketplace{}, err
	}
	defer c.mu.Unlock()
	var m broker.Marketplace
	for _, p := range FakePlans() {
		i := slices.IndexFunc(m.Offerings, func(o broker.MarketOffering) bool { return o.Name == p.OfferingName })
		if i < 0 {
			i = len(m.Offerings)
			m.Offerings = append(m.Offerings, broker.MarketOffering{
				GUID: "guid-of-" + p.OfferingName, CatalogID: p.ServiceID, Name: p.OfferingName, Bindable: true,
				InstancesRetrievable: p.InstancesRetrievable, BindingsRetrievable: p.BindingsRetrievable,
			})
		}
		m.Offerings[i].Plans = append(m.Offerings[i].Plans, broker.MarketPlan{
			GUID: p.PlanGUID, CatalogID: p.PlanID, Name: p.PlanName, Bindable: p.Bindable,
			PlanUpdateable: p.PlanUpdateable, MaintenanceVersion: p.MaintenanceVersion,
		})
	}
	return m, nil
}
