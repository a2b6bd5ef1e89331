package cf

import (
	"bytes"
	"context"
	"encoding/json"
	"net/url"
	"time"

	"github.com/cloudfoundry/go-cfclient/v3/resource"

	"github.com/ferry-broker/ferry/internal/broker"
	"github.com/ferry-broker/ferry/internal/ccapi"
)

// planRow is a plan as the API shows it. Costs stay as they came; go-cfclient makes floating-point numbers of them, and
// fails as a whole on a field that is not as documented.
type planRow struct {
	ccapi.Identity
	Name          string                    `json:"name"`
	Description   ccapi.Optional[string]    `json:"description"`
	Available     bool                      `json:"available"`
	Free          bool                      `json:"free"`
	Costs         json.RawMessage           `json:"costs"`
	Maintenance   ccapi.Optional[versioned] `json:"maintenance_info"`
	BrokerCatalog struct {
		ID       string                       `json:"id"`
		Metadata json.RawMessage              `json:"metadata"`
		Longest  ccapi.Optional[float64]      `json:"maximum_polling_duration"`
		Features resource.ServicePlanFeatures `json:"features"`
	} `json:"broker_catalog"`
	Schemas       ccapi.Optional[planSchemas] `json:"schemas"`
	Relationships struct {
		ServiceOffering *resource.ToOneRelationship `json:"service_offering"`
	} `json:"relationships"`
}

// versioned is the maintenance_info of a plan.
type versioned struct {
	Version     string                 `json:"version"`
	Description ccapi.Optional[string] `json:"description"`
}

// planSchemas are the schemas of parameters; each may be missing.
type planSchemas struct {
	Instance struct {
		Create schema `json:"create"`
		Update schema `json:"update"`
	} `json:"service_instance"`
	Binding struct {
		Create schema `json:"create"`
	} `json:"service_binding"`
}

type schema struct {
	Parameters json.RawMessage `json:"parameters"`
}

// offeringRow is an offering as the API shows it.
type offeringRow struct {
	ccapi.Identity
	Name             string                   `json:"name"`
	Description      ccapi.Optional[string]   `json:"description"`
	Available        bool                     `json:"available"`
	Tags             ccapi.Optional[[]string] `json:"tags"`
	Requires         ccapi.Optional[[]string] `json:"requires"`
	Shareable        ccapi.Optional[bool]     `json:"shareable"`
	DocumentationURL ccapi.Optional[string]   `json:"documentation_url"`
	BrokerCatalog    struct {
		ID       string                           `json:"id"`
		Metadata json.RawMessage                  `json:"metadata"`
		Features resource.ServiceOfferingFeatures `json:"features"`
	} `json:"broker_catalog"`
}

// marketplace reads what the org may order.
type marketplace struct {
	api        *ccapi.Client
	places     *places
	visibility *visibility
	flavors    *flavors
}

// Marketplace returns what the org sees: active offerings with at least one active plan, in the order of the API. It
// takes several requests, so a catalog that changes meanwhile may be seen half old and half new; a plan whose offering
// is missing is left out. When none of its plans belongs to one of its offerings, which a broker that is registered
// again meanwhile looks like, it is read once more. It takes two calls, and one for each further page; an empty one
// takes one more (see visibility).
func (m *marketplace) Marketplace(ctx context.Context) (broker.Marketplace, error) {
	org, err := m.places.org(ctx)
	if err != nil {
		return broker.Marketplace{}, err
	}
	all, torn, err := m.read(ctx, org)
	if err == nil && torn {
		all, _, err = m.read(ctx, org)
	}
	if err == nil && len(all.Offerings) == 0 { // or the login sees nothing any more
		err = m.confirmEmpty(ctx, org)
	}
	if err != nil {
		return broker.Marketplace{}, err
	}
	return all, nil
}

// confirmEmpty fails when the login does not see the org any more, or a space that it saw.
func (m *marketplace) confirmEmpty(ctx context.Context, org string) error {
	if len(m.places.memory.known()) == 0 {
		return m.visibility.seesOrg(ctx, org)
	}
	return m.visibility.confirmAbsence(ctx, "", new(sight))
}

// read reports it as torn when there are plans and offerings that have nothing to do with each other.
func (m *marketplace) read(ctx context.Context, org string) (all broker.Marketplace, torn bool, err error) {
	plans, err := m.plans(ctx, org)
	if err != nil {
		return all, false, err
	}
	offerings, err := listOf[offeringRow](ctx, m, "offerings", org)
	if err != nil {
		return all, false, err
	}
	for _, o := range offerings {
		if own := plans[o.GUID]; o.Available && len(own) > 0 {
			all.Offerings = append(all.Offerings, marketOffering(o, own))
		}
	}
	return all, len(all.Offerings) == 0 && len(plans) > 0 && len(offerings) > 0, nil
}

// listOf lists offerings or plans of the org. Korifi knows no filter for it; it has one marketplace for all.
func listOf[T ccapi.Identified](ctx context.Context, m *marketplace, kind, org string) ([]T, error) {
	r := ccapi.Request{Path: "/v3/service_" + kind, What: "list " + kind, Query: url.Values{"per_page": {"200"}}}
	if m.flavors.known() != korifi {
		filtered := r
		filtered.Query = url.Values{"organization_guids": {org}, "available": {"true"}, "per_page": {"200"}}
		list, err := ccapi.List[T](ctx, m.api, filtered)
		switch {
		case err == nil:
			m.flavors.learn(cloudController)
			return list, nil
		case !filterRefused(err):
			return nil, err
		}
		if _, err := m.flavors.ask(ctx); err != nil {
			return nil, err
		}
	}
	return ccapi.List[T](ctx, m.api, r)
}

// plans returns the active plans by the GUID of their offering.
func (m *marketplace) plans(ctx context.Context, org string) (map[string][]broker.MarketPlan, error) {
	byOffering := map[string][]broker.MarketPlan{}
	rows, err := listOf[planRow](ctx, m, "plans", org)
	for _, row := range rows {
		if offering := row.Relationships.ServiceOffering; row.Available && offering != nil && offering.Data != nil {
			byOffering[offering.Data.GUID] = append(byOffering[offering.Data.GUID], marketPlan(row))
		}
	}
	return byOffering, err
}

func marketOffering(o offeringRow, plans []broker.MarketPlan) broker.MarketOffering {
	features := o.BrokerCatalog.Features
	return broker.MarketOffering{
		GUID: o.GUID, CatalogID: o.BrokerCatalog.ID, Name: o.Name, Description: o.Description.Value,
		Tags: o.Tags.Value, Requires: o.Requires.Value,
		Bindable: features.Bindable, PlanUpdateable: features.PlanUpdateable,
		InstancesRetrievable: features.InstancesRetrievable, BindingsRetrievable: features.BindingsRetrievable,
		AllowContextUpdates: features.AllowContextUpdates, Shareable: o.Shareable.Value,
		DocumentationURL: o.DocumentationURL.Value, Metadata: raw(o.BrokerCatalog.Metadata), Plans: plans,
	}
}

func marketPlan(p planRow) broker.MarketPlan {
	schemas := p.Schemas.Value
	return broker.MarketPlan{
		GUID: p.GUID, CatalogID: p.BrokerCatalog.ID, Name: p.Name, Description: p.Description.Value, Free: p.Free,
		Bindable: p.BrokerCatalog.Features.Bindable, PlanUpdateable: p.BrokerCatalog.Features.PlanUpdateable,
		MaximumPollingDuration: ccapi.Seconds(p.BrokerCatalog.Longest.Value, longestPolling),
		MaintenanceVersion:     p.Maintenance.Value.Version, MaintenanceDescription: p.Maintenance.Value.Description.Value,
		Costs: raw(p.Costs), Metadata: raw(p.BrokerCatalog.Metadata),
		CreateSchema: raw(schemas.Instance.Create.Parameters),
		UpdateSchema: raw(schemas.Instance.Update.Parameters),
		BindSchema:   raw(schemas.Binding.Create.Parameters),
	}
}

// longestPolling is the longest maximum_polling_duration that can be meant.
const longestPolling = 366 * 24 * time.Hour

// raw returns the JSON of a field as it came; nothing for what says nothing.
func raw(text json.RawMessage) json.RawMessage {
	switch string(bytes.TrimSpace(text)) {
	case "", "null", "{}", "[]":
		return nil
	}
	return text
}
