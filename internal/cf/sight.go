package cf

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/cloudfoundry/go-cfclient/v3/resource"

	"github.com/ferry-broker/ferry/internal/broker"
)

// seen returns the look unless it found nothing because the login lost sight of the
// org or of a space: Cloud Foundry shows what a login may not read as if it were not
// there. An empty look therefore costs one call more, to see that the org (while no
// space is known) or the known spaces are still there; a second and third when one
// of these spaces is not. A look with rows costs nothing.
func (b *Backend) seen(ctx context.Context, look broker.Look) (broker.Look, error) {
	if len(look.Rows) > 0 || b.sight.covers(look.Began) {
		return look, nil
	}
	if err := b.confirmSight(ctx); err != nil {
		return broker.Look{}, err
	}
	b.sight.note(b.config.Now())
	return look, nil
}

// sightLasts is for how long one confirmation serves other looks: long enough that
// many operations which look at once do not each ask, and no longer than a look and
// its own confirmation may be apart.
const sightLasts = time.Second

// sight remembers when all was last seen.
type sight struct {
	mu sync.Mutex
	at time.Time
}

func (s *sight) covers(began time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.at.IsZero() && began.Sub(s.at) < sightLasts
}

func (s *sight) note(at time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if at.After(s.at) {
		s.at = at
	}
}

// confirmSight fails when the login may not see all that is in the org.
func (b *Backend) confirmSight(ctx context.Context) error {
	org, err := b.org(ctx)
	if err != nil {
		return err
	}
	known := b.places.known()
	if len(known) == 0 {
		return b.seesOrg(ctx, org)
	}
	r := request{
		path: "/v3/spaces", what: "see the spaces of org " + strconv.Quote(b.config.Org),
		query: url.Values{"organization_guids": {org}, "per_page": {"1000"}},
	}
	err = pages(ctx, b, r, func(p page[resource.Space]) {
		for _, s := range p.Resources {
			delete(known, s.GUID)
		}
	})
	if err != nil || len(known) == 0 {
		return err
	}
	var missing []string
	for guid := range known {
		missing = append(missing, guid)
	}
	slices.Sort(missing)
	return b.spacesMissing(ctx, org, missing)
}

// seesOrg fails when the org cannot be read any more.
func (b *Backend) seesOrg(ctx context.Context, org string) error {
	r := request{
		method: http.MethodGet, path: "/v3/organizations/" + url.PathEscape(org), route: "/v3/organizations/:guid",
		what: "see org " + strconv.Quote(b.config.Org),
	}
	var o resource.Organization
	_, err := b.get(ctx, r, &o)
	if err == nil && o.GUID == org {
		return nil
	}
	if err != nil && !isAbsent(err) {
		return err
	}
	b.places.forgetAll()
	return &Error{Call: r.what, Title: "the org is out of sight", advice: adviceOrg}
}

// spacesMissing tells spaces that were deleted from those that the login may not see
// any more: who may see every space of the org misses only the former.
func (b *Backend) spacesMissing(ctx context.Context, org string, missing []string) error {
	if err := b.seesOrg(ctx, org); err != nil {
		return err
	}
	all, err := b.seesEverySpace(ctx, org)
	if err != nil {
		return err
	}
	if !all {
		return &Error{
			Call: "see space " + strconv.Quote(missing[0]), Title: "the space is out of sight",
			Detail: "or it was deleted", advice: adviceRole,
		}
	}
	b.places.forgetGone(missing)
	return nil
}

// seesEverySpace reports whether the login is an administrator, by its token, or a
// manager of the org.
func (b *Backend) seesEverySpace(ctx context.Context, org string) (bool, error) {
	token, err := b.session.token(ctx, "")
	if err != nil {
		return false, err
	}
	who := claimsOf(token)
	for _, scope := range []string{"cloud_controller.admin", "cloud_controller.admin_read_only", "cloud_controller.global_auditor"} {
		if slices.Contains(who.Scope, scope) {
			return true, nil
		}
	}
	if who.subject() == "" {
		return false, nil
	}
	manager := false
	r := request{path: "/v3/roles", what: "find the roles of the login", query: url.Values{
		"types": {"organization_manager"}, "organization_guids": {org}, "user_guids": {list(who.subject())},
	}}
	err = pages(ctx, b, r, func(p page[resource.Role]) {
		for _, role := range p.Resources {
			manager = manager || role.Type == "organization_manager"
		}
	})
	return manager, err
}
