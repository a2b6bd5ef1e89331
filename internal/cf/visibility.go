package cf

import (
	"context"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/ferry-broker/ferry/internal/broker"
	"github.com/ferry-broker/ferry/internal/ccapi"
)

// seen returns the look unless it found nothing of ours because the login lost sight of it: Cloud Foundry shows what a
// login may not read as if it were not there. What counts as ours has our marks or one of the GUIDs that were asked
// for. A look without such a row costs the calls of confirm; any other costs nothing.
func (b *Backend) seen(ctx context.Context, look broker.Look, guids []string) (broker.Look, error) {
	ours := func(r broker.Row) bool { return r.Marked || slices.Contains(guids, r.GUID) }
	if slices.ContainsFunc(look.Rows, ours) {
		return look, nil
	}
	if err := b.confirm(ctx, broker.OfferingOf(ctx)); err != nil {
		return broker.Look{}, err
	}
	return look, nil
}

// confirm fails when the login may not see the space of the offering, by calls that all begin after confirm was called;
// nothing is taken from memory but which spaces there should be. Which space that is, a process that has just started
// knows from its name.
//
// It takes one call, the list of the spaces in sight, and one or two more when the space is not among them: the org,
// and whether the login sees every space of it. Without an offering every space that was ever met has to be in sight,
// and where none was, the login has to see all.
func (b *Backend) confirm(ctx context.Context, offering string) error {
	org, err := b.org(ctx)
	if err != nil {
		return err
	}
	if offering == "" && len(b.places.known()) == 0 {
		return b.spacesMissing(ctx, org, "", nil)
	}
	// Many looks that end at once share one list, which begins after all of them ended.
	inSight, err := b.spaces.get(ctx, func(ctx context.Context) (map[string]string, error) {
		return b.spacesInSight(ctx, org)
	})
	if err != nil {
		return err
	}
	if offering != "" {
		if name := Name(offering); !b.places.isIn(name, inSight) {
			return b.spacesMissing(ctx, org, name, inSight)
		}
		return nil
	}
	for _, guid := range slices.Sorted(maps.Keys(b.places.known())) {
		if _, ok := inSight[guid]; !ok {
			return b.spacesMissing(ctx, org, guid, inSight)
		}
	}
	return nil
}

// spacesInSight returns the names of the spaces of the org that the login may read, by GUID.
func (b *Backend) spacesInSight(ctx context.Context, org string) (map[string]string, error) {
	names := map[string]string{}
	r := ccapi.Request{
		Path: "/v3/spaces", What: "see the spaces of org " + strconv.Quote(b.config.Org),
		Query: url.Values{"organization_guids": {org}, "per_page": {"1000"}},
	}
	spaces, err := ccapi.List[spaceRow](ctx, b.api, r)
	for _, s := range spaces {
		names[s.GUID] = s.Name
	}
	return names, err
}

// spacesMissing tells a space that does not exist from one that the login may not see: who sees every space of the org
// misses only the former.
func (b *Backend) spacesMissing(ctx context.Context, org, space string, inSight map[string]string) error {
	if err := b.seesOrg(ctx, org); err != nil {
		return err
	}
	all, err := b.seesEverySpace(ctx, org)
	if err != nil {
		return err
	}
	switch {
	case !all && space == "":
		return &ccapi.Error{
			Call: "see the spaces of org " + strconv.Quote(b.config.Org), Title: "some may be out of sight", Advice: ccapi.AdviceRole,
		}
	case !all:
		return &ccapi.Error{
			Call: "see space " + strconv.Quote(space), Title: "the space is out of sight",
			Detail: "or it does not exist", Advice: ccapi.AdviceRole,
		}
	}
	b.places.keepOnly(inSight)
	return nil
}

// seesOrg fails when the org cannot be read any more.
func (b *Backend) seesOrg(ctx context.Context, org string) error {
	r := ccapi.Request{
		Method: http.MethodGet, Path: "/v3/organizations/" + url.PathEscape(org), Route: "/v3/organizations/:guid",
		What: "see org " + strconv.Quote(b.config.Org),
	}
	var o ccapi.Identity
	_, err := b.api.Get(ctx, r, &o)
	if err == nil && o.GUID == org {
		return nil
	}
	if err != nil && !ccapi.IsAbsent(err) {
		return err
	}
	b.places.forgetAll()
	return &ccapi.Error{Call: r.What, Title: "the org is out of sight", Advice: ccapi.AdviceOrg}
}

// roleRow is a role of somebody.
type roleRow struct {
	ccapi.Identity
	Type string `json:"type"`
}

// seesEverySpace reports whether the login is an administrator, by its token, or a manager of the org.
func (b *Backend) seesEverySpace(ctx context.Context, org string) (bool, error) {
	who, err := b.api.Claims(ctx)
	if err != nil {
		return false, err
	}
	for _, scope := range []string{"cloud_controller.admin", "cloud_controller.admin_read_only", "cloud_controller.global_auditor"} {
		if slices.Contains(who.Scope, scope) {
			return true, nil
		}
	}
	if who.Subject() == "" {
		return false, nil
	}
	manager := false
	r := ccapi.Request{Path: "/v3/roles", What: "find the roles of the login", Query: url.Values{
		"types": {"organization_manager"}, "organization_guids": {org}, "user_guids": {ccapi.Filter(who.Subject())},
	}}
	roles, err := ccapi.List[roleRow](ctx, b.api, r)
	for _, role := range roles {
		manager = manager || role.Type == "organization_manager"
	}
	return manager, err
}

// sameName compares names of orgs, spaces and offerings as Cloud Foundry does: its databases ignore their case. Names
// of instances and keys are compared letter for letter, as they are ids of platforms.
func sameName(a, b string) bool { return strings.EqualFold(a, b) }

// shared makes one call for many that want its answer at the same time. What a caller gets was always asked for after
// the caller came: who comes while a call runs shares the next one.
type shared[T any] struct {
	mu      sync.Mutex
	running *round[T]
	next    *round[T] // begins when running has ended
}

// round is one call; value and err are set before done closes.
type round[T any] struct {
	done  chan struct{}
	value T
	err   error
}

func (s *shared[T]) get(ctx context.Context, call func(context.Context) (T, error)) (T, error) {
	for {
		r, before, mine := s.join()
		if mine {
			s.run(ctx, r, before, call)
		}
		select {
		case <-r.done:
		case <-ctx.Done():
			var none T
			return none, &ccapi.Error{Call: "wait for a call that is shared", Err: ctx.Err(), Unsent: true}
		}
		// Another caller's call that ended with that caller's own time says nothing.
		if mine || !ccapi.EndedByContext(r.err) || ctx.Err() != nil {
			return r.value, r.err
		}
	}
}

// join returns the round that has not begun yet. The caller has to run it when it is mine, after the one before has
// ended.
func (s *shared[T]) join() (r, before *round[T], mine bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.next != nil {
		return s.next, nil, false
	}
	r = &round[T]{done: make(chan struct{})}
	if s.running == nil {
		s.running = r
		return r, nil, true
	}
	s.next = r
	return r, s.running, true
}

func (s *shared[T]) run(ctx context.Context, r, before *round[T], call func(context.Context) (T, error)) {
	defer close(r.done)
	if before != nil {
		select {
		case <-before.done:
		case <-ctx.Done():
			r.err = &ccapi.Error{Call: "wait for a call that is shared", Err: ctx.Err(), Unsent: true}
		}
		s.mu.Lock()
		s.next = nil // nobody joins any more
		if r.err == nil {
			s.running = r
		}
		s.mu.Unlock()
	}
	if r.err == nil {
		r.value, r.err = call(ctx)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.running == r {
		s.running = nil
	}
}
