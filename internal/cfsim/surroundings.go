package cfsim

import (
	"net/http"
	"slices"
	"time"
)

const apiVersion = "3.228.0"

type link struct {
	Href string         `json:"href"`
	Meta map[string]any `json:"meta,omitempty"`
}

// getRoot is what a client looks at first: where the API and the UAA are. As in real answers, links to components that
// are not installed are null.
func getRoot(c *call) (*answer, error) {
	uaa := &link{Href: c.base + "/uaa"}
	links := map[string]*link{
		"self":                {Href: c.base},
		"cloud_controller_v3": {Href: c.base + "/v3", Meta: map[string]any{"version": apiVersion}},
		"network_policy_v0":   {Href: c.base + "/networking/v0/external"},
		"network_policy_v1":   {Href: c.base + "/networking/v1/external"},
		"login":               uaa,
		"uaa":                 uaa,
		"credhub":             nil,
		"routing":             nil,
		"logging":             nil,
		"log_cache":           nil,
		"log_stream":          nil,
		"app_ssh":             nil,
	}
	return jsonAnswer(http.StatusOK, map[string]any{"links": links}), nil
}

// healthRoute is what load balancers look at.
const healthRoute = "/healthz"

func getHealth(*call) (*answer, error) {
	return newAnswer(http.StatusOK, "text/html;charset=utf-8", []byte("OK")), nil
}

func getV3(c *call) (*answer, error) {
	links := map[string]link{"self": {Href: c.base + "/v3"}}
	for _, name := range []string{"organizations", "spaces", "roles", "service_offerings", "service_plans", "service_instances", "service_credential_bindings",
		"service_brokers", "users", "apps", "feature_flags"} {
		links[name] = link{Href: c.base + "/v3/" + name}
	}
	return jsonAnswer(http.StatusOK, map[string]any{"links": links}), nil
}

func getInfo(c *call) (*answer, error) {
	return jsonAnswer(http.StatusOK, map[string]any{
		"build":          "cfsim",
		"cli_version":    map[string]string{"minimum": "", "recommended": ""},
		"custom":         map[string]string{},
		"description":    "Simulated Cloud Foundry",
		"name":           "cfsim",
		"version":        0,
		"osbapi_version": "2.15",
		"rate_limits":    c.limiter.info(),
		"links":          map[string]link{"self": {Href: c.base + "/v3/info"}, "support": {Href: ""}},
	}), nil
}

// brokerRow is the one service broker, which only operators see.
type brokerRow struct{ created time.Time }

func (b brokerRow) sortKeys() sortKeys { return sortKeys{brokerName, b.created} }

type brokerView struct {
	GUID          string           `json:"guid"`
	CreatedAt     string           `json:"created_at"`
	UpdatedAt     string           `json:"updated_at"`
	Name          string           `json:"name"`
	URL           string           `json:"url"`
	Relationships map[string]toOne `json:"relationships"`
	Metadata      metadata         `json:"metadata"`
	Links         map[string]link  `json:"links"`
}

func (b brokerRow) view(c *call) brokerView {
	return brokerView{
		GUID: brokerGUID(), CreatedAt: timestamp(b.created), UpdatedAt: timestamp(b.created), Name: brokerName, URL: "https://backing-broker.example.org",
		Relationships: map[string]toOne{},
		Links: map[string]link{
			"self":              {Href: c.base + "/v3/service_brokers/" + brokerGUID()},
			"service_offerings": {Href: c.base + "/v3/service_offerings?service_broker_guids=" + brokerGUID()},
		},
	}
}

func listBrokers(c *call) (*answer, error) {
	q := &c.query
	q.allow(slices.Concat([]string{"names", "guids", "space_guids", "label_selector", "page", "per_page", "order_by"}, timeParams)...)
	names, guids, labels := q.wanted("names"), q.wanted("guids"), q.selector()
	found := passing([]brokerRow{{c.database.started}}, func(brokerRow) bool {
		return c.administrator() && passes(names, brokerName) && passes(guids, brokerGUID()) && !q.Has("space_guids") && labels.matches(nil)
	})
	return listed(c, found, brokerRow.view, nil)
}

func getBroker(c *call) (*answer, error) {
	if c.guid != brokerGUID() || !c.administrator() {
		return nil, notFound("Service broker")
	}
	return jsonAnswer(http.StatusOK, brokerRow{c.database.started}.view(c)), nil
}

// app is a row that there is none of: applications are not simulated.
type app struct{}

func (app) sortKeys() sortKeys { return sortKeys{} }

func (app) view(*call) struct{} { return struct{}{} }

func listApps(c *call) (*answer, error) {
	params := []string{"names", "guids", "organization_guids", "space_guids", "stacks", "include", "lifecycle_type", "label_selector", "page", "per_page"}
	c.query.allow(slices.Concat(params, []string{"order_by"}, timeParams)...)
	c.query.Del("order_by") // may name a state, too
	return listed(c, nil, app.view, nil)
}

// domainRow is the one domain that all organizations share.
type domainRow struct{ created time.Time }

const domainName = "apps.example.org"

func domainGUID() string { return fixedGUID("domain", domainName) }

func (d domainRow) sortKeys() sortKeys { return sortKeys{domainName, d.created} }

type domainView struct {
	GUID          string          `json:"guid"`
	CreatedAt     string          `json:"created_at"`
	UpdatedAt     string          `json:"updated_at"`
	Name          string          `json:"name"`
	Internal      bool            `json:"internal"`
	RouterGroup   *string         `json:"router_group"`
	Protocols     []string        `json:"supported_protocols"`
	Relationships map[string]any  `json:"relationships"`
	Metadata      metadata        `json:"metadata"`
	Links         map[string]link `json:"links"`
}

func (d domainRow) view(c *call) domainView {
	return domainView{
		GUID: domainGUID(), CreatedAt: timestamp(d.created), UpdatedAt: timestamp(d.created), Name: domainName, Protocols: []string{"http"},
		Relationships: map[string]any{"organization": toOne{}, "shared_organizations": map[string]any{"data": []guidRef{}}},
		Links:         map[string]link{"self": {Href: c.base + "/v3/domains/" + domainGUID()}},
	}
}

func listDomains(c *call) (*answer, error) {
	q := &c.query
	q.allow("names", "guids", "organization_guids", "label_selector", "page", "per_page", "order_by")
	if err := q.problem(); err != nil {
		return nil, err
	}
	if _, err := c.organization(); err != nil {
		return nil, err
	}
	names, guids := q.wanted("names"), q.wanted("guids")
	found := passing([]domainRow{{c.database.started}}, func(domainRow) bool {
		return passes(names, domainName) && passes(guids, domainGUID()) && !q.Has("organization_guids")
	})
	return listed(c, found, domainRow.view, nil)
}

const quotaName = "default"

func quotaGUID() string { return fixedGUID("organization quota", quotaName) }

// getQuota is the quota that all organizations have. It limits nothing; those of the control do.
func getQuota(c *call) (*answer, error) {
	if c.guid != quotaGUID() || !c.readable() {
		return nil, notFound("Organization quota")
	}
	orgs := []guidRef{}
	for _, o := range c.database.organizations {
		orgs = append(orgs, guidRef{o.guid})
	}
	since := timestamp(c.database.started)
	return jsonAnswer(http.StatusOK, map[string]any{
		"guid": quotaGUID(), "created_at": since, "updated_at": since, "name": quotaName,
		"apps": map[string]any{
			"total_memory_in_mb": nil, "per_process_memory_in_mb": nil, "total_instances": nil, "per_app_tasks": nil, "log_rate_limit_in_bytes_per_second": nil,
		},
		"services":      map[string]any{"paid_services_allowed": true, "total_service_instances": nil, "total_service_keys": nil},
		"routes":        map[string]any{"total_routes": nil, "total_reserved_ports": nil},
		"domains":       map[string]any{"total_domains": nil},
		"relationships": map[string]any{"organizations": map[string]any{"data": orgs}},
		"links":         map[string]link{"self": {Href: c.base + "/v3/organization_quotas/" + quotaGUID()}},
	}), nil
}

// getIsolationSegment tells that an organization has no isolation segment.
func getIsolationSegment(c *call) (*answer, error) {
	if _, err := c.organization(); err != nil {
		return nil, err
	}
	self := c.base + "/v3/organizations/" + c.guid + "/relationships/default_isolation_segment"
	return jsonAnswer(http.StatusOK, map[string]any{"data": nil, "links": map[string]link{"self": {Href: self}}}), nil
}
