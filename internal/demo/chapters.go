package demo

import (
	"context"
	"encoding/json"
	"net/http"
	"sort"
	"strings"
)

const (
	instance = "/v2/service_instances/orders-db"
	binding  = instance + "/service_bindings/orders-app"
	other    = "/v2/service_instances/mistake"
	flag     = "?accepts_incomplete=true"
)

// provision is the body of a create.
func (t *tour) provision(plan string, parameters any) map[string]any {
	return map[string]any{
		"service_id": t.service, "plan_id": plan, "organization_guid": "org", "space_guid": "space",
		"parameters": parameters,
	}
}

func (t *tour) create(ctx context.Context) {
	t.title("One create, sent five times at once")
	catalog := t.expect(ctx, 200, "GET the catalog", http.MethodGet, "/v2/catalog", nil, "Cloud Foundry's marketplace")
	t.choose(catalog)
	same := t.provision(t.asyncP, map[string]any{"size": 10})
	answers := t.together(ctx, 5, http.MethodPut, instance+flag, same)
	for _, a := range answers {
		t.show("PUT orders-db", a, a.status == 202 && a.operation == answers[0].operation, "one operation for all")
	}
	different := t.provision(t.asyncP, map[string]any{"size": 20})
	t.expect(ctx, 409, "PUT orders-db with another size", http.MethodPut, instance+flag, different, "differs: refused, nothing disturbed")
	t.poll(ctx, instance, answers[0].operation)
	t.expect(ctx, 200, "PUT orders-db again, long after", http.MethodPut, instance+flag, same, "it exists: fine")
	t.expect(ctx, 409, "PUT orders-db with another size", http.MethodPut, instance+flag, different, "still refused")
}

// choose takes the offering and the plans that the tour needs from the catalog.
func (t *tour) choose(catalog answer) {
	for _, s := range catalog.services {
		if s.Name != "postgres" {
			continue
		}
		t.service = s.ID
		for _, p := range s.Plans {
			switch p.Name {
			case "small":
				t.syncPlan = p.ID
			case "async":
				t.asyncP = p.ID
			}
		}
	}
}

func (t *tour) bind(ctx context.Context) {
	t.title("One bind, sent twice at once: the same credentials for both")
	body := map[string]any{"service_id": t.service, "plan_id": t.asyncP}
	answers := t.together(ctx, 2, http.MethodPut, binding, body)
	sort.Slice(answers, func(i, j int) bool { return answers[i].status > answers[j].status })
	t.show("PUT orders-app", answers[0], answers[0].status == 201 && answers[0].credentials != "", "made; credentials in the answer")
	same := answers[1].credentials == answers[0].credentials
	t.show("PUT orders-app", answers[1], answers[1].status == 200 && same, "held until the key was there; same credentials")
	again := t.platform.send(ctx, http.MethodPut, binding, body)
	t.show("PUT orders-app again, long after", again, again.status == 200 && again.credentials == answers[0].credentials, "same credentials")
	body["parameters"] = map[string]any{"role": "admin"}
	t.expect(ctx, 409, "PUT orders-app with other parameters", http.MethodPut, binding, body, "differs: refused")
}

func (t *tour) remove(ctx context.Context) {
	t.title("Unbind and delete, each sent again")
	hints := "service_id=" + t.service + "&plan_id=" + t.asyncP
	t.expect(ctx, 200, "DELETE orders-app", http.MethodDelete, binding+"?"+hints, nil, "the credentials are revoked")
	t.expect(ctx, 410, "DELETE orders-app again", http.MethodDelete, binding+"?"+hints, nil, "it is gone: platforms take that as done")
	answers := t.together(ctx, 2, http.MethodDelete, instance+flag+"&"+hints, nil)
	for _, a := range answers {
		t.show("DELETE orders-db", a, a.status == 202 && a.operation == answers[0].operation, "one operation for both")
	}
	t.poll(ctx, instance, answers[0].operation)
	t.expect(ctx, 410, "DELETE orders-db again", http.MethodDelete, instance+flag+"&"+hints, nil, "it is gone")
}

func (t *tour) cancel(ctx context.Context) {
	t.title("A create that its platform gives up while it runs")
	hints := "service_id=" + t.service + "&plan_id=" + t.asyncP
	made := t.expect(ctx, 202, "PUT mistake", http.MethodPut, other+flag, t.provision(t.asyncP, nil), "being created")
	gone := t.expect(ctx, 202, "DELETE mistake, at once", http.MethodDelete, other+flag+"&"+hints, nil, "never refused: the create is cancelled")
	a := t.platform.send(ctx, http.MethodGet, other+"/last_operation?operation="+made.operation, nil)
	t.show("GET the create's last_operation", a, a.state == "failed", "the create counts as failed")
	t.poll(ctx, other, gone.operation)
}

// seen is the part of the simulator's state that the summary shows.
type seen struct {
	Instances []struct{} `json:"instances"`
	Calls     []struct {
		Instance  string `json:"instance"`
		Binding   string `json:"binding"`
		Operation string `json:"operation"`
		Count     int    `json:"count"`
	} `json:"broker_calls"`
}

func (t *tour) summary(ctx context.Context) {
	t.title("What Cloud Foundry's own backing broker was asked to do")
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, t.SimulatorURL+"/__sim/state", nil)
	if err != nil {
		t.wrong++
		return
	}
	resp, err := t.platform.http.Do(req)
	if err != nil {
		t.wrong++
		t.say("!! %v", err)
		return
	}
	defer func() { _ = resp.Body.Close() }()
	var s seen
	if err := json.NewDecoder(resp.Body).Decode(&s); err != nil {
		t.wrong++
		t.say("!! %v", err)
		return
	}
	t.count(s)
}

// count shows the calls; each may have been made once, whatever the platform sent.
func (t *tour) count(s seen) {
	for _, c := range s.Calls {
		mark := "  "
		if c.Count != 1 {
			mark = "!!"
			t.wrong++
		}
		t.say("%s %-12s %-24s %s", mark, c.Operation, strings.TrimSuffix(c.Instance+"/"+c.Binding, "/"), times(c.Count))
	}
	mark := "  "
	if len(s.Instances) != 0 || len(s.Calls) < 4 {
		mark = "!!"
		t.wrong++
	}
	t.say("%s left in Cloud Foundry: %d service instances", mark, len(s.Instances))
}
