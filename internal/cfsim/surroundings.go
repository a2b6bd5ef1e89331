package cfsim

import (
	"net/http"
	"slices"
	"time"
)

// brokerView is the one service broker as a resource, which only operators see.
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

func (c *call) brokerView(since time.Time) brokerView {
	return brokerView{
		GUID: brokerGUID(), CreatedAt: timestamp(since), UpdatedAt: timestamp(since), Name: brokerName, URL: "https://backing-broker.example.org",
		Relationships: map[string]toOne{},
		Links: map[string]link{
			"self":              {Href: c.base + "/v3/service_brokers/" + brokerGUID()},
			"service_offerings": {Href: c.base + "/v3/service_offerings?service_broker_guids=" + brokerGUID()},
		},
	}
}

func (s *Simulator) listBrokers(c *call) (*answer, error) {
	if err := c.allow(slices.Concat([]string{"names", "guids", "space_guids", "label_selector", "page", "per_page", "order_by"}, timeParams())...); err != nil {
		return nil, err
	}
	labels, err := c.selector()
	if err != nil {
		return nil, err
	}
	names, guids := c.wanted("names"), c.wanted("guids")
	return listed(s, func() (*listPage[brokerView], error) {
		found := passing([]time.Time{s.world.started}, func(time.Time) bool {
			return s.administrator(c) && passes(names, brokerName) && passes(guids, brokerGUID()) && !c.query.Has("space_guids") && labels.matches(nil)
		})
		return takePage(c, found, func(since time.Time) sortKeys { return sortKeys{brokerName, since} }, c.brokerView, nil)
	})
}

func (s *Simulator) getBroker(c *call) (*answer, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c.guid != brokerGUID() || !s.administrator(c) {
		return nil, notFound("Service broker")
	}
	return jsonAnswer(http.StatusOK, c.brokerView(s.world.started))
}

// listApps lists nothing: applications are not simulated.
func (s *Simulator) listApps(c *call) (*answer, error) {
	params := []string{"names", "guids", "organization_guids", "space_guids", "stacks", "include", "lifecycle_type", "label_selector", "page", "per_page"}
	if err := c.allow(slices.Concat(params, []string{"order_by"}, timeParams())...); err != nil {
		return nil, err
	}
	c.query.Del("order_by") // may name a state, too
	return listed(s, func() (*listPage[struct{}], error) {
		return takePage(c, nil, func(struct{}) sortKeys { return sortKeys{} }, func(v struct{}) struct{} { return v }, nil)
	})
}

const domainName = "apps.example.org"

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

// listDomains lists the one domain that all organizations share.
func (s *Simulator) listDomains(c *call) (*answer, error) {
	if err := c.allow("names", "guids", "organization_guids", "label_selector", "page", "per_page", "order_by"); err != nil {
		return nil, err
	}
	names, guids := c.wanted("names"), c.wanted("guids")
	guid := fixedGUID("domain", domainName)
	return listed(s, func() (*listPage[domainView], error) {
		if s.world.organization(c.guid) == nil || !s.readable(c) {
			return nil, notFound("Organization")
		}
		found := passing([]time.Time{s.world.started}, func(time.Time) bool {
			return passes(names, domainName) && passes(guids, guid) && !c.query.Has("organization_guids")
		})
		return takePage(c, found, func(since time.Time) sortKeys { return sortKeys{domainName, since} }, func(since time.Time) domainView {
			return domainView{
				GUID: guid, CreatedAt: timestamp(since), UpdatedAt: timestamp(since), Name: domainName, Protocols: []string{"http"},
				Relationships: map[string]any{"organization": toOne{}, "shared_organizations": map[string]any{"data": []guidRef{}}},
				Links:         map[string]link{"self": {Href: c.base + "/v3/domains/" + guid}},
			}
		}, nil)
	})
}

const quotaName = "default"

func quotaGUID() string { return fixedGUID("organization quota", quotaName) }

// getQuota is the quota that all organizations have. It limits nothing; those
// of the control do.
func (s *Simulator) getQuota(c *call) (*answer, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c.guid != quotaGUID() || !s.readable(c) {
		return nil, notFound("Organization quota")
	}
	orgs := []guidRef{}
	for _, o := range s.world.organizations {
		orgs = append(orgs, guidRef{o.guid})
	}
	since := timestamp(s.world.started)
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
	})
}

// getIsolationSegment tells that an organization has no isolation segment.
func (s *Simulator) getIsolationSegment(c *call) (*answer, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.world.organization(c.guid) == nil || !s.readable(c) {
		return nil, notFound("Organization")
	}
	self := c.base + "/v3/organizations/" + c.guid + "/relationships/default_isolation_segment"
	return jsonAnswer(http.StatusOK, map[string]any{"data": nil, "links": map[string]link{"self": {Href: self}}})
}

const apiVersion = "3.228.0"

type link struct {
	Href   string         `json:"href"`
	Method string         `json:"method,omitempty"`
	Meta   map[string]any `json:"meta,omitempty"`
}

// getRoot is what a client looks at first: where the API and the UAA are. As
// in real answers, links to components that are not installed are null.
func (s *Simulator) getRoot(c *call) (*answer, error) {
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
	return jsonAnswer(http.StatusOK, map[string]any{"links": links})
}

// healthRoute is what load balancers look at.
const healthRoute = "/healthz"

func (s *Simulator) getHealth(*call) (*answer, error) {
	return newAnswer(http.StatusOK, "text/html;charset=utf-8", []byte("OK")), nil
}

func (s *Simulator) getV3(c *call) (*answer, error) {
	links := map[string]link{"self": {Href: c.base + "/v3"}}
	for _, name := range []string{"organizations", "spaces", "roles", "service_offerings", "service_plans", "service_instances", "service_credential_bindings",
		"service_brokers", "users", "apps", "feature_flags"} {
		links[name] = link{Href: c.base + "/v3/" + name}
	}
	return jsonAnswer(http.StatusOK, map[string]any{"links": links})
}

func (s *Simulator) getInfo(c *call) (*answer, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return jsonAnswer(http.StatusOK, map[string]any{
		"build":          "cfsim",
		"cli_version":    map[string]string{"minimum": "", "recommended": ""},
		"custom":         map[string]string{},
		"description":    "Simulated Cloud Foundry",
		"name":           "cfsim",
		"version":        0,
		"osbapi_version": "2.15",
		"rate_limits":    map[string]any{"enabled": s.limiter.limit > 0, "general_limit": s.limiter.limit, "reset_interval_in_minutes": int(s.limiter.window.Minutes())},
		"links":          map[string]link{"self": {Href: c.base + "/v3/info"}, "support": {Href: ""}},
	})
}
