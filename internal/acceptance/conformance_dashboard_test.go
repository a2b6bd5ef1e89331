package acceptance

import (
	"encoding/json"
	"testing"
)

// TestConformanceDashboard: the simulated backing broker has no dashboards, so Cloud
// Foundry's answer about an instance whose create stalls is replaced by one that says
// that it has ended, with a dashboard and metadata (PROV-25, PROV-27, PROV-29, FI-09, FI-11, UPD-28, CON-10).
func TestConformanceDashboard(t *testing.T) {
	t.Parallel()
	c := start(t)
	s := creating(c)
	const url = "https://dashboard.example.org/?instance=1&view=all"
	c.disturb(fault{Method: "GET", Route: instances, Action: "respond", Status: 200, When: "before", Body: finishedWith(c, s.id, url)})
	c.disturb(fault{Method: "GET", Route: instance, Action: "respond", Status: 200, When: "before", Body: finishedRow(c, s.id, url)})
	c.succeeds(at(s.id), s.operation)
	c.heal()
	c.force(c.row(s.id).GUID, "create", "succeeded", "COMPLETE")
	for range 2 {
		for _, a := range []answer{c.put(s.id, s.plan, s.parameters, async).want(t, 200), c.send("GET", at(s.id), "").want(t, 200)} {
			a.has(t, "dashboard_url", quoted(url))
			a.has(t, "metadata", `{"labels":{"size":"big"},"attributes":{"zone":"a"}}`)
		}
	}
}

// finishedWith is Cloud Foundry's list of instances of this name, as it would be
// when the create had succeeded.
func finishedWith(c tenant, id, url string) string {
	c.t.Helper()
	var list struct {
		Pagination json.RawMessage              `json:"pagination"`
		Resources  []map[string]json.RawMessage `json:"resources"`
	}
	c.operator("GET", "/v3/service_instances?names="+id, "").want(c.t, 200).decode(c.t, &list)
	for _, row := range list.Resources {
		finish(row, url)
	}
	return encoded(c, list)
}

func finishedRow(c tenant, id, url string) string {
	c.t.Helper()
	var row map[string]json.RawMessage
	c.operator("GET", "/v3/service_instances/"+c.row(id).GUID, "").want(c.t, 200).decode(c.t, &row)
	finish(row, url)
	return encoded(c, row)
}

func finish(row map[string]json.RawMessage, url string) {
	row["dashboard_url"] = json.RawMessage(quoted(url))
	row["broker_provided_metadata"] = json.RawMessage(`{"labels":{"size":"big"},"attributes":{"zone":"a"}}`)
	row["last_operation"] = json.RawMessage(`{"type":"create","state":"succeeded","description":"","created_at":"2026-01-01T00:00:00Z","updated_at":"2026-01-01T00:00:00Z"}`)
}

func encoded(c tenant, value any) string {
	c.t.Helper()
	text, err := json.Marshal(value)
	if err != nil {
		c.t.Fatal(err)
	}
	return string(text)
}
