package cfsim

import "net/http"

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
