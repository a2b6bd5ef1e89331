package broker_test

import (
	"encoding/json"
	"testing"

	"github.com/ferry-broker/ferry/internal/broker"
	"github.com/ferry-broker/ferry/internal/brokertest"
	"github.com/ferry-broker/ferry/internal/osb"
)

// TestMaintenanceOfACatalogThatMovedOn [MI-07, UPD-24, ERR-11]: the catalog has another version by now than the
// instance. A PATCH that changes something has to name the catalog's; one that changes nothing is no conflict, since it
// may be a duplicate.
func TestMaintenanceOfACatalogThatMovedOn(t *testing.T) {
	t.Parallel()
	const newer = "2.0.0"
	ready := func(r *run) { r.ready() }
	updateFailed := func(r *run) { r.ready(); r.failed(r.accepted(r.patch(brokertest.PlanLarge))) }
	conflict := string(broker.CodeMaintenanceInfoConflict)
	for name, test := range map[string]struct {
		given               func(*run)
		version, parameters string
		plan                string
		want                string
	}{
		"its own version and nothing else":                  {ready, brokertest.Version, "", "", "exists"},
		"its own version with the parameters in force":      {ready, brokertest.Version, `{"size": 1}`, brokertest.PlanSmall, "exists"},
		"its own version with other parameters":             {ready, brokertest.Version, `{"size": 2}`, "", conflict},
		"its own version with another plan":                 {ready, brokertest.Version, "", brokertest.PlanLarge, conflict},
		"its own version again after an update that failed": {updateFailed, brokertest.Version, "", "", conflict},
		"the catalog's version":                             {ready, newer, "", "", "accepted"},
		"the catalog's version with other parameters":       {ready, newer, `{"size": 2}`, "", "accepted"},
		"the catalog's version with another plan":           {ready, newer, "", brokertest.PlanLarge, "accepted"},
		"neither of them":                                   {ready, "3", "", "", conflict},
		"its own version while it is made":                  {func(r *run) { r.accepted(r.put()) }, brokertest.Version, "", "", string(broker.CodeConcurrency)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRun(t, brokertest.ScheduleOptions{})
			test.given(r)
			plans := brokertest.FakePlans()
			for n := range plans {
				plans[n].MaintenanceVersion = newer
			}
			r.Catalog.Catalog = &brokertest.FakeCatalog{Plans: plans}
			before := r.dump()
			got := r.outcome(patchOf(func(q *broker.UpdateRequest) {
				q.Body.PlanID = ""
				if test.plan != "" {
					q.Body.PlanID = brokertest.PlanID(test.plan)
				}
				q.Body.MaintenanceInfo = &osb.MaintenanceInfo{Version: test.version}
				if test.parameters != "" {
					q.Body.Parameters = json.RawMessage(test.parameters)
				}
			}))
			if got != test.want {
				t.Errorf("got %s, want %s", got, test.want)
			}
			if got != "accepted" {
				r.unchanged(before)
			}
		})
	}
}
