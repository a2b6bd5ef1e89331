package acceptance

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
)

// TestNamesThatOthersChange (law 7, docs/protocol.md 1): what an operator renames or shares
// in Cloud Foundry stays the platform's, and DELETE leads to gone.
func TestNamesThatOthersChange(t *testing.T) {
	t.Parallel()
	const plan = "postgres/small"
	for name, change := range map[string]struct {
		by func(c tenant, i cfInstance)
		// classic: Korifi cannot do that.
		classic bool
	}{
		"an instance is renamed": {func(c tenant, i cfInstance) {
			c.control("PATCH", "/instances/"+i.GUID, `{"name":"by-hand"}`)
		}, false},
		"a key is renamed": {func(c tenant, i cfInstance) {
			c.control("PATCH", "/keys/"+i.Keys[0].GUID, `{"name":"by-hand"}`)
		}, false},
		"an instance is renamed, and its name is taken": {func(c tenant, i cfInstance) {
			c.control("PATCH", "/instances/"+i.GUID, `{"name":"by-hand"}`)
			c.control("POST", "/instances", fmt.Sprintf(`{"org":%q,"space":"postgres","name":%q,"offering":"postgres","plan":"small"}`, c.org, i.Name))
		}, false},
		"its space is renamed": {func(c tenant, _ cfInstance) {
			c.operator("PATCH", "/v3/spaces/"+c.spaceGUID("postgres"), `{"name":"by-hand"}`).want(c.t, http.StatusOK)
		}, true},
		"it is shared into a space of another org": {func(c tenant, i cfInstance) {
			c.control("PATCH", "/instances/"+i.GUID, `{"shared_with":["ferry/elsewhere"]}`)
		}, true},
	} {
		for _, flavour := range []string{"", " on Korifi"} {
			if flavour != "" && change.classic {
				continue
			}
			t.Run(name+flavour, func(t *testing.T) {
				t.Parallel()
				var adjust []func(*settings)
				if flavour != "" {
					adjust = append(adjust, korifi)
				}
				c := start(t, adjust...)
				id, binding := c.bound(plan)
				before := c.row(id)
				change.by(c, before)
				c.bind(id, "another", plan, "", plain).want(t, http.StatusCreated)
				c.unbind(id, binding, plan, plain).want(t, http.StatusOK)
				c.unbind(id, binding, plan, plain).want(t, http.StatusGone)
				for _, i := range c.cf().Instances {
					for _, k := range i.Keys {
						if k.GUID == before.Keys[0].GUID {
							t.Errorf("the key %s lives on after its unbind", k.GUID)
						}
					}
				}
				c.gone(id, plan)
				for _, i := range c.cf().Instances {
					if i.GUID == before.GUID {
						t.Errorf("%s lives on after DELETE: %+v", id, i)
					}
				}
			})
		}
	}
}

// spaceGUID is the space of this name in the tenant's org.
func (c tenant) spaceGUID(name string) string {
	c.t.Helper()
	var list struct{ Resources []struct{ GUID string } }
	c.operator("GET", "/v3/spaces?names="+url.QueryEscape(name), "").want(c.t, http.StatusOK).decode(c.t, &list)
	if len(list.Resources) != 1 {
		c.t.Fatalf("%d spaces %s", len(list.Resources), strings.ToLower(name))
	}
	return list.Resources[0].GUID
}
