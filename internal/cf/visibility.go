package cf

import (
	"context"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/ferry-broker/ferry/internal/broker"
	"github.com/ferry-broker/ferry/internal/ccapi"
)

// visibility tells what is not there from what the login may not see: Cloud Foundry shows both as if it were not there.
type visibility struct {
	api    *ccapi.Client
	places *places
	now    func() time.Time
	spaces shared[map[string]string] // the names of those that can be seen, by GUID
}

// begin begins a look-up: its time is that before its first call.
func (v *visibility) begin(ctx context.Context) (broker.Look, error) {
	place, err := v.places.Place(ctx)
	return broker.Look{Began: v.now(), Place: place}, err
}

// confirmed returns the look unless it found nothing of ours because the login may not see it any more. What counts as
// ours has our marks or one of the GUIDs that were asked for. A look without such a row costs the calls of
// confirmAbsence; any other costs nothing.
func (v *visibility) confirmed(ctx context.Context, look broker.Look, q broker.Lookup) (broker.Look, error) {
	ours := func(r broker.Row) bool { return r.Marked || slices.Contains(q.GUIDs, r.GUID) }
	if slices.ContainsFunc(look.Rows, ours) {
		return look, nil
	}
	if err := v.confirmAbsence(ctx, q.Offering); err != nil {
		return broker.Look{}, err
	}
	return look, nil
}

// confirmAbsence fails when the login may not see the space of the offering, by calls that all begin after it was
// called; nothing is taken from memory but which spaces there should be. Which space that is, a process that has just
// started knows from its name.
//
// It takes one call, the list of the spaces that can be seen, and one or two more when the space is not among them: the
// org, and whether the login sees every space of it. Without an offering every space that was ever met has to be there,
// and where none was, the login has to see all.
func (v *visibility) confirmAbsence(ctx context.Context, offering string) error {
	org, err := v.places.org(ctx)
	if err != nil {
		return err
	}
	if offering == "" && len(v.places.memory.known()) == 0 {
		return v.spaceMissing(ctx, org, "", nil)
	}
	// Many looks that end at once share one list, which begins after all of them ended.
	visible, err := v.spaces.get(ctx, func(ctx context.Context) (map[string]string, error) { return v.visibleSpaces(ctx, org) })
	if err != nil {
		return err
	}
	if offering != "" {
		if name := nameOf(offering); !v.places.memory.isIn(name, visible) {
			return v.spaceMissing(ctx, org, name, visible)
		}
		return nil
	}
	for _, guid := range slices.Sorted(maps.Keys(v.places.memory.known())) {
		if _, ok := visible[guid]; !ok {
			return v.spaceMissing(ctx, org, guid, visible)
		}
	}
	return nil
}

// visibleSpaces returns the names of the spaces of the org that the login may read, by GUID.
func (v *visibility) visibleSpaces(ctx context.Context, org string) (map[string]string, error) {
	names := map[string]string{}
	r := ccapi.Request{
		Path: "/v3/spaces", What: "see the spaces of org " + strconv.Quote(v.places.name),
		Query: url.Values{"organization_guids": {org}, "per_page": {"1000"}},
	}
	spaces, err := ccapi.List[spaceRow](ctx, v.api, r)
	for _, s := range spaces {
		names[s.GUID] = s.Name
	}
	return names, err
}

// spaceMissing tells a space that does not exist from one that the login may not see: who sees every space of the org
// misses only the former.
func (v *visibility) spaceMissing(ctx context.Context, org, space string, visible map[string]string) error {
	if err := v.seesOrg(ctx, org); err != nil {
		return err
	}
	all, err := seesEverySpace(ctx, v.api, org)
	if err != nil {
		return err
	}
	switch {
	case !all && space == "":
		return &ccapi.Error{
			Call: "see the spaces of org " + strconv.Quote(v.places.name), Title: "some may be out of sight", Advice: ccapi.AdviceRole,
		}
	case !all:
		return &ccapi.Error{
			Call: "see space " + strconv.Quote(space), Title: "the space is out of sight",
			Detail: "or it does not exist", Advice: ccapi.AdviceRole,
		}
	}
	v.places.memory.keepOnly(visible)
	return nil
}

// seesOrg fails when the org cannot be read any more.
func (v *visibility) seesOrg(ctx context.Context, org string) error {
	r := ccapi.Request{
		Method: http.MethodGet, Path: "/v3/organizations/" + url.PathEscape(org), Route: "/v3/organizations/:guid",
		What: "see org " + strconv.Quote(v.places.name),
	}
	var o ccapi.Identity
	_, err := v.api.Get(ctx, r, &o)
	if err == nil && o.GUID == org {
		return nil
	}
	if err != nil && !ccapi.IsAbsent(err) {
		return err
	}
	v.places.memory.forgetAll()
	return &ccapi.Error{Call: r.What, Title: "the org is out of sight", Advice: ccapi.AdviceOrg}
}

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
