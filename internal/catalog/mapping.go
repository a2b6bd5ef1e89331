package catalog

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"time"

	"github.com/ferry-broker/ferry/internal/broker"
	"github.com/ferry-broker/ferry/internal/osb"
	"github.com/ferry-broker/ferry/internal/schema"
)

// offeringOf translates an offering without its plans.
func offeringOf(o broker.MarketOffering, id string) osb.ServiceOffering {
	return osb.ServiceOffering{
		ID:                   id,
		Name:                 o.Name,
		Description:          described(o.Description, o.Name),
		Tags:                 o.Tags,
		Requires:             permissions(o.Requires),
		Bindable:             o.Bindable,
		InstancesRetrievable: o.InstancesRetrievable,
		BindingsRetrievable:  o.BindingsRetrievable,
		AllowContextUpdates:  o.AllowContextUpdates,
		PlanUpdateable:       o.PlanUpdateable,
		Metadata:             o.Metadata,
	}
}

// semanticVersion is the grammar of semver.org, version 2.0.0.
var semanticVersion = regexp.MustCompile(`^(0|[1-9]\d*)(\.(0|[1-9]\d*)){2}` +
	`(-(0|[1-9]\d*|\d*[A-Za-z-][0-9A-Za-z-]*)(\.(0|[1-9]\d*|\d*[A-Za-z-][0-9A-Za-z-]*))*)?` +
	`(\+[0-9A-Za-z-]+(\.[0-9A-Za-z-]+)*)?$`)

// unpublishable says why a schema may not be in a catalog, or "".
func unpublishable(text json.RawMessage) string {
	switch {
	case len(text) > schema.MaxBytes:
		return fmt.Sprintf("it is longer than %d bytes", schema.MaxBytes)
	case schema.RefersOutside(text):
		return "it refers to something outside itself"
	}
	return ""
}

func planOf(p broker.MarketPlan, id string, rotatable bool) osb.ServicePlan {
	return osb.ServicePlan{
		ID:                     id,
		Name:                   p.Name,
		Description:            described(p.Description, p.Name),
		Metadata:               withCosts(p.Metadata, p.Costs),
		Free:                   p.Free,
		Bindable:               p.Bindable,
		PlanUpdateable:         p.PlanUpdateable,
		BindingRotatable:       rotatable,
		Schemas:                schemas(p),
		MaximumPollingDuration: seconds(p.MaximumPollingDuration),
		MaintenanceInfo:        maintenance(p),
	}
}

// described is the description, which OSB wants non-empty and Cloud Foundry does not.
func described(description, name string) string {
	if description == "" {
		return name
	}
	return description
}

// permissions keeps the words that OSB defines: another one spoils the catalog.
func permissions(requires []string) []string {
	var known []string
	for _, word := range requires {
		switch word {
		case "syslog_drain", "route_forwarding", "volume_mount":
			if !slices.Contains(known, word) {
				known = append(known, word)
			}
		}
	}
	return known
}

// seconds rounds up, so that a platform never gives up before we do.
func seconds(d time.Duration) int64 {
	if d <= 0 {
		return 0
	}
	return int64((d + time.Second - 1) / time.Second)
}

func maintenance(p broker.MarketPlan) *osb.MaintenanceInfo {
	if p.MaintenanceVersion == "" {
		return nil
	}
	return &osb.MaintenanceInfo{Version: p.MaintenanceVersion, Description: p.MaintenanceDescription}
}

// schemas leaves out every level that would be empty.
func schemas(p broker.MarketPlan) *osb.Schemas {
	var all osb.Schemas
	create, update := input(p.CreateSchema), input(p.UpdateSchema)
	if create != nil || update != nil {
		all.ServiceInstance = &osb.InstanceSchemas{Create: create, Update: update}
	}
	if bind := input(p.BindSchema); bind != nil {
		all.ServiceBinding = &osb.BindingSchemas{Create: bind}
	}
	if all == (osb.Schemas{}) {
		return nil
	}
	return &all
}

func input(text json.RawMessage) *osb.InputParameters {
	if len(text) == 0 {
		return nil
	}
	return &osb.InputParameters{Parameters: text}
}
