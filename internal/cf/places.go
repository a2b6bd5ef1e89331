package cf

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"maps"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/cloudfoundry/go-cfclient/v3/resource"

	"github.com/ferry-broker/ferry/internal/broker"
	"github.com/ferry-broker/ferry/internal/ccapi"
)

// spaceRow is a space as the API shows it.
type spaceRow struct {
	ccapi.Identity
	Name          string `json:"name"`
	Relationships struct {
		Organization *resource.ToOneRelationship `json:"organization"`
	} `json:"relationships"`
}

// orgRow is an org as the API shows it.
type orgRow struct {
	ccapi.Identity
	Name string `json:"name"`
}

// places are the client's org, which must exist, and its spaces: one for each offering, made on demand.
type places struct {
	api     *ccapi.Client
	name    string   // of the org
	address string   // of the API, as a Place has it
	former  []string // addresses that it had before, in the same form
	memory  *placeMemory
	orgs    shared[struct{}, string] // looks the org up
}

func newPlaces(api *ccapi.Client, c Config) *places {
	p := &places{api: api, name: c.Org, address: canonicalAPI(c.API), memory: newPlaceMemory()}
	for _, former := range c.FormerAPIs {
		p.former = append(p.former, canonicalAPI(former))
	}
	return p
}

// Place returns where this backend looks and calls. The address is in one form however it was configured: scheme and
// host in small letters, no port that the scheme implies, no slash at the end. It takes a call until the org is known.
func (p *places) Place(ctx context.Context) (broker.Place, error) {
	org, err := p.org(ctx)
	if err != nil {
		return broker.Place{}, err
	}
	return broker.Place{API: p.address, OrgGUID: org}, nil
}

// Same implements broker.Finder. The org is the same when its GUID is, whatever it is called; the Cloud Foundry is when
// its address is the API's or one of FormerAPIs.
func (p *places) Same(recorded broker.Place) bool {
	api := canonicalAPI(recorded.API)
	return recorded.OrgGUID != "" && recorded.OrgGUID == p.memory.orgGUID() &&
		(api == p.address || slices.Contains(p.former, api))
}

// org returns the GUID of the configured org, which must exist. Where nothing has that very name, its case is ignored,
// as Cloud Foundry does; one call more looks for it where the filter of the API does not.
func (p *places) org(ctx context.Context) (string, error) {
	if guid := p.memory.orgGUID(); guid != "" {
		return guid, nil
	}
	return p.orgs.get(ctx, struct{}{}, p.findOrg)
}

func (p *places) findOrg(ctx context.Context, _ []struct{}) (string, error) {
	if guid := p.memory.orgGUID(); guid != "" {
		return guid, nil // somebody found it meanwhile
	}
	r := ccapi.Request{Path: "/v3/organizations", What: "find org " + strconv.Quote(p.name)}
	guid := ""
	for _, query := range []url.Values{{"names": {ccapi.Filter(p.name)}}, {"per_page": {"1000"}}} {
		var named namesake
		r.Query = query
		orgs, err := ccapi.List[orgRow](ctx, p.api, r)
		if err != nil {
			return "", err
		}
		for _, o := range orgs {
			named.consider(o.Name, o.GUID, p.name)
		}
		if guid = named.guid(); guid != "" {
			break
		}
	}
	if guid == "" {
		return "", &ccapi.Error{Call: r.What, Title: "no such org", Detail: "or the login may not see it", Advice: ccapi.AdviceOrg, Unsent: true}
	}
	p.memory.setOrg(guid)
	return guid, nil
}

// namesake looks for what has a name: letter for letter, or else but for its case.
type namesake struct{ exact, folded string }

func (n *namesake) consider(name, guid, wanted string) {
	switch {
	case name == wanted:
		n.exact = guid
	case sameName(name, wanted):
		n.folded = guid
	}
}

func (n *namesake) guid() string { return cmp.Or(n.exact, n.folded) }

// sameName compares names of orgs, spaces and offerings as Cloud Foundry does: its databases ignore their case. Names
// of instances and keys are compared letter for letter, as they are ids of platforms.
func sameName(a, b string) bool { return strings.EqualFold(a, b) }

// space returns the GUID of the offering's space and makes the space if need be.
func (p *places) space(ctx context.Context, offering string) (string, error) {
	name := nameOf(offering)
	if guid := p.memory.space(name); guid != "" {
		return guid, nil
	}
	org, err := p.org(ctx)
	if err != nil {
		return "", err
	}
	guid, err := p.findSpace(ctx, org, name)
	if err == nil && guid == "" {
		guid, err = p.makeSpace(ctx, org, name)
	}
	if err != nil {
		return "", err
	}
	p.memory.setSpace(name, guid)
	return guid, nil
}

// findSpace returns the GUID of the space of this name, or "".
func (p *places) findSpace(ctx context.Context, org, name string) (string, error) {
	return p.findSpaceAmong(ctx, name, url.Values{"names": {ccapi.Filter(name)}, "organization_guids": {org}})
}

func (p *places) findSpaceAmong(ctx context.Context, name string, query url.Values) (string, error) {
	r := ccapi.Request{Path: "/v3/spaces", What: "find space " + strconv.Quote(name), Query: query}
	var named namesake
	spaces, err := ccapi.List[spaceRow](ctx, p.api, r)
	for _, s := range spaces {
		named.consider(s.Name, s.GUID, name)
	}
	return named.guid(), err
}

// makeSpace makes the space. Somebody may have been quicker: then it is looked up.
func (p *places) makeSpace(ctx context.Context, org, name string) (string, error) {
	body, err := json.Marshal(resource.SpaceCreate{
		Name: name, Relationships: &resource.SpaceRelationships{Organization: toOne(org)},
	})
	if err != nil {
		return "", err
	}
	r := ccapi.Request{
		Method: http.MethodPost, Path: "/v3/spaces", Route: "/v3/spaces", Body: body,
		What: "create space " + strconv.Quote(name),
	}
	answer, err := p.api.Send(ctx, r)
	if err != nil {
		return p.spaceRefused(ctx, org, name, err)
	}
	var made ccapi.Identity
	if err := json.Unmarshal(answer.Body, &made); err != nil || made.GUID == "" {
		return "", &ccapi.Error{Call: r.What, Status: answer.Status, Err: errors.New("the answer is not the space")}
	}
	return made.GUID, nil
}

func (p *places) spaceRefused(ctx context.Context, org, name string, err error) (string, error) {
	e, ok := errors.AsType[*ccapi.Error](err)
	if !ok || e.Status != http.StatusUnprocessableEntity {
		return "", err
	}
	if strings.HasPrefix(e.Text, "Invalid organization") {
		p.memory.forget(name)
		return "", ccapi.AsUnsent(err) // the next try looks for the org again
	}
	if !strings.HasPrefix(e.Text, "Name must be unique per organization") {
		return "", err
	}
	guid, findErr := p.findSpace(ctx, org, name)
	if findErr == nil && guid == "" {
		// The name is taken by what the filter does not find: by another case, perhaps.
		guid, findErr = p.findSpaceAmong(ctx, name, url.Values{"organization_guids": {org}, "per_page": {"1000"}})
	}
	if findErr == nil && guid == "" {
		return "", ccapi.AsUnsent(err)
	}
	return guid, findErr
}

// placed remembers which of the spaces are ours and returns those of other orgs. One whose org is not told counts as
// ours: a row too many is judged by its marks, a row too few would be absence.
func (p *places) placed(spaces []spaceRow, org string) (foreign map[string]bool) {
	foreign = map[string]bool{}
	for _, s := range spaces {
		if s.Relationships.Organization == nil || s.Relationships.Organization.Data == nil {
			continue
		}
		if s.Relationships.Organization.Data.GUID == org {
			p.memory.meet(s.GUID)
		} else {
			foreign[s.GUID] = true
		}
	}
	return foreign
}

// placeMemory remembers the GUIDs of the org and of its spaces.
type placeMemory struct {
	mu     sync.Mutex
	org    string
	spaces map[string]string // by name
	met    map[string]bool   // GUIDs of spaces of the org, those above and others
}

func newPlaceMemory() *placeMemory {
	return &placeMemory{spaces: map[string]string{}, met: map[string]bool{}}
}

func (m *placeMemory) orgGUID() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.org
}

func (m *placeMemory) setOrg(guid string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.org = guid
}

func (m *placeMemory) space(name string) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.spaces[name]
}

func (m *placeMemory) setSpace(name, guid string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.spaces[name] = guid
	m.met[guid] = true
}

func (m *placeMemory) meet(space string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.met[space] = true
}

// known returns the GUIDs of all spaces that were seen in the org.
func (m *placeMemory) known() map[string]bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return maps.Clone(m.met)
}

// forget drops a space that proved wrong, and the org: it may have been made anew under its name.
func (m *placeMemory) forget(space string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.met, m.spaces[space])
	delete(m.spaces, space)
	m.org = ""
}

// forgetAll starts anew, as the org is gone or cannot be seen.
func (m *placeMemory) forgetAll() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.org, m.spaces, m.met = "", map[string]string{}, map[string]bool{}
}

// keepOnly drops the spaces that are not among those that a login sees which sees all there are.
func (m *placeMemory) keepOnly(visible map[string]string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	gone := func(guid string) bool { _, ok := visible[guid]; return !ok }
	maps.DeleteFunc(m.met, func(guid string, _ bool) bool { return gone(guid) })
	maps.DeleteFunc(m.spaces, func(_, guid string) bool { return gone(guid) })
}

// isIn reports whether the space of this name is among those that can be seen: the one that was met under that name,
// whatever it is called now, or else any that is called so.
func (m *placeMemory) isIn(name string, visible map[string]string) bool {
	if guid := m.space(name); guid != "" {
		_, ok := visible[guid]
		return ok
	}
	for _, called := range visible {
		if sameName(called, name) {
			return true
		}
	}
	return false
}

// canonicalAPI returns an address in the form of Place; what cannot be read comes back as it is.
func canonicalAPI(address string) string {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" {
		return address
	}
	scheme, host, port := strings.ToLower(u.Scheme), strings.ToLower(u.Hostname()), u.Port()
	if port == map[string]string{"http": "80", "https": "443"}[scheme] {
		port = ""
	}
	switch {
	case port != "":
		host = net.JoinHostPort(host, port)
	case strings.Contains(host, ":"):
		host = "[" + host + "]"
	}
	return scheme + "://" + host + strings.TrimRight(u.EscapedPath(), "/")
}
