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

// places remembers the GUIDs of the org and of its spaces.
type places struct {
	mu     sync.Mutex
	org    string
	spaces map[string]string // by name
	met    map[string]bool   // GUIDs of spaces of the org, those above and others
}

func newPlaces() *places { return &places{spaces: map[string]string{}, met: map[string]bool{}} }

func (p *places) orgGUID() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.org
}

func (p *places) setOrg(guid string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.org = guid
}

func (p *places) space(name string) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.spaces[name]
}

func (p *places) setSpace(name, guid string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.spaces[name] = guid
	p.met[guid] = true
}

func (p *places) meet(space string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.met[space] = true
}

// known returns the GUIDs of all spaces that were seen in the org.
func (p *places) known() map[string]bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return maps.Clone(p.met)
}

// forget drops a space that proved wrong, and the org: it may have been made anew under its name.
func (p *places) forget(space string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.met, p.spaces[space])
	delete(p.spaces, space)
	p.org = ""
}

// forgetAll starts anew, as the org is gone or out of sight.
func (p *places) forgetAll() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.org, p.spaces, p.met = "", map[string]string{}, map[string]bool{}
}

// keepOnly drops the spaces that are not among those in sight of a login that sees all there are.
func (p *places) keepOnly(inSight map[string]string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	gone := func(guid string) bool { _, ok := inSight[guid]; return !ok }
	maps.DeleteFunc(p.met, func(guid string, _ bool) bool { return gone(guid) })
	maps.DeleteFunc(p.spaces, func(_, guid string) bool { return gone(guid) })
}

// isIn reports whether the space of this name is among those in sight: the one that was met under that name, whatever
// it is called now, or else any that is called so.
func (p *places) isIn(name string, inSight map[string]string) bool {
	if guid := p.space(name); guid != "" {
		_, ok := inSight[guid]
		return ok
	}
	for _, called := range inSight {
		if sameName(called, name) {
			return true
		}
	}
	return false
}

// org returns the GUID of the configured org, which must exist. Where nothing has that very name, its case is ignored,
// as Cloud Foundry does; one call more looks for it where the filter of the API does not.
func (b *Backend) org(ctx context.Context) (string, error) {
	if guid := b.places.orgGUID(); guid != "" {
		return guid, nil
	}
	r := ccapi.Request{Path: "/v3/organizations", What: "find org " + strconv.Quote(b.config.Org)}
	guid := ""
	for _, query := range []url.Values{{"names": {ccapi.Filter(b.config.Org)}}, {"per_page": {"1000"}}} {
		var named namesake
		r.Query = query
		orgs, err := ccapi.List[orgRow](ctx, b.api, r)
		if err != nil {
			return "", err
		}
		for _, o := range orgs {
			named.consider(o.Name, o.GUID, b.config.Org)
		}
		if guid = named.guid(); guid != "" {
			break
		}
	}
	if guid == "" {
		return "", &ccapi.Error{Call: r.What, Title: "no such org", Detail: "or the login may not see it", Advice: ccapi.AdviceOrg, Unsent: true}
	}
	b.places.setOrg(guid)
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

// space returns the GUID of the offering's space and makes the space if need be.
func (b *Backend) space(ctx context.Context, offering string) (string, error) {
	name := Name(offering)
	if guid := b.places.space(name); guid != "" {
		return guid, nil
	}
	org, err := b.org(ctx)
	if err != nil {
		return "", err
	}
	guid, err := b.findSpace(ctx, org, name)
	if err == nil && guid == "" {
		guid, err = b.makeSpace(ctx, org, name)
	}
	if err != nil {
		return "", err
	}
	b.places.setSpace(name, guid)
	return guid, nil
}

// findSpace returns the GUID of the space of this name, or "".
func (b *Backend) findSpace(ctx context.Context, org, name string) (string, error) {
	return b.findSpaceAmong(ctx, name, url.Values{"names": {ccapi.Filter(name)}, "organization_guids": {org}})
}

func (b *Backend) findSpaceAmong(ctx context.Context, name string, query url.Values) (string, error) {
	r := ccapi.Request{Path: "/v3/spaces", What: "find space " + strconv.Quote(name), Query: query}
	var named namesake
	spaces, err := ccapi.List[spaceRow](ctx, b.api, r)
	for _, s := range spaces {
		named.consider(s.Name, s.GUID, name)
	}
	return named.guid(), err
}

// makeSpace makes the space. Somebody may have been quicker: then it is looked up.
func (b *Backend) makeSpace(ctx context.Context, org, name string) (string, error) {
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
	answer, err := b.api.Send(ctx, r)
	if err != nil {
		return b.spaceRefused(ctx, org, name, err)
	}
	var made ccapi.Identity
	if err := json.Unmarshal(answer.Body, &made); err != nil || made.GUID == "" {
		return "", &ccapi.Error{Call: r.What, Status: answer.Status, Err: errors.New("the answer is not the space")}
	}
	return made.GUID, nil
}

func (b *Backend) spaceRefused(ctx context.Context, org, name string, err error) (string, error) {
	e, ok := errors.AsType[*ccapi.Error](err)
	if !ok || e.Status != http.StatusUnprocessableEntity {
		return "", err
	}
	if strings.HasPrefix(e.Text, "Invalid organization") {
		b.places.forget(name)
		return "", ccapi.AsUnsent(err) // the next try looks for the org again
	}
	if !strings.HasPrefix(e.Text, "Name must be unique per organization") {
		return "", err
	}
	guid, findErr := b.findSpace(ctx, org, name)
	if findErr == nil && guid == "" {
		// The name is taken by what the filter does not find: by another case, perhaps.
		guid, findErr = b.findSpaceAmong(ctx, name, url.Values{"organization_guids": {org}, "per_page": {"1000"}})
	}
	if findErr == nil && guid == "" {
		return "", ccapi.AsUnsent(err)
	}
	return guid, findErr
}

// Place returns where this backend looks and calls. The address is in one form however it was configured: scheme and
// host in small letters, no port that the scheme implies, no slash at the end. It takes a call until the org is known.
func (b *Backend) Place(ctx context.Context) (broker.Place, error) {
	org, err := b.org(ctx)
	if err != nil {
		return broker.Place{}, err
	}
	return broker.Place{API: b.home, OrgGUID: org}, nil
}

// Same implements broker.Finder. The org is the same when its GUID is, whatever it is called; the Cloud Foundry is when
// its address is the API's or one of FormerAPIs.
func (b *Backend) Same(recorded broker.Place) bool {
	api := canonicalAPI(recorded.API)
	return recorded.OrgGUID != "" && recorded.OrgGUID == b.places.orgGUID() &&
		(api == b.home || slices.Contains(b.formerly, api))
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
