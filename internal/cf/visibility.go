package cf

import (
	"context"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/ferry-broker/ferry/internal/broker"
	"github.com/ferry-broker/ferry/internal/ccapi"
	"github.com/ferry-broker/ferry/internal/singleflight"
)

// visibility tells what is not there from what the login may not see: Cloud Foundry shows both as if it were not there.
type visibility struct {
	api    *ccapi.Client
	places *places
	now    func() time.Time
	spaces shared[struct{}, map[string]string] // the names of those that can be seen, by GUID
}

// begin begins a look-up: its time is that before its first call.
func (v *visibility) begin(ctx context.Context) (broker.Look, error) {
	place, err := v.places.Place(ctx)
	return broker.Look{Began: v.now(), Place: place}, err
}

// sight is what the login can see after a list has been read. Whoever shares the list shares the sight, which is made
// with the list: what it asks for is asked once for all of them, by the first of them who needs it.
type sight struct {
	visible once[map[string]string] // spaces, as visibleSpaces returns them
	every   once[bool]              // whether it is every space of the org
}

// once is an answer that is asked for until there is one.
type once[T any] struct {
	group singleflight.Group
	known bool
	value T
}

func (o *once[T]) get(ctx context.Context, ask func(context.Context) (T, error)) (T, error) {
	err := o.group.Do(ctx, func(ctx context.Context) (err error) {
		if !o.known {
			o.value, err = ask(ctx)
			o.known = err == nil
		}
		return err
	})
	if err != nil {
		var none T
		return none, err
	}
	return o.value, nil
}

// confirmed returns the look unless it found nothing of ours because the login may not see it any more. A look without
// a row of ours costs the calls of confirmAbsence; any other costs nothing.
func (v *visibility) confirmed(ctx context.Context, look broker.Look, q broker.Lookup, after *sight) (broker.Look, error) {
	if hasOurs(look.Rows, q) {
		return look, nil
	}
	if err := v.confirmAbsence(ctx, q.Offering, after); err != nil {
		return broker.Look{}, err
	}
	return look, nil
}

// hasOurs reports whether one of the rows has our marks or one of the GUIDs that were asked for.
func hasOurs(rows []broker.Row, q broker.Lookup) bool {
	return slices.ContainsFunc(rows, func(r broker.Row) bool { return r.Marked || slices.Contains(q.GUIDs, r.GUID) })
}

// confirmAbsence fails when the login may not see the space of the offering, by calls that all begin after the sight
// was made; nothing is taken from memory but which spaces there should be. Which space that is, a process that has just
// started knows from its name.
//
// It takes one call, the list of the spaces that can be seen, and one or two more when the space is not among them: the
// org, and whether the login sees every space of it. Without an offering every space that was ever met has to be there,
// and where none was, the login has to see all. All who share a sight share these calls, whatever their offerings.
func (v *visibility) confirmAbsence(ctx context.Context, offering string, after *sight) error {
	org, err := v.places.org(ctx)
	if err != nil {
		return err
	}
	if offering == "" && len(v.places.memory.known()) == 0 {
		return v.spaceMissing(ctx, org, "", nil, new(sight)) // that of others has to follow their list of spaces
	}
	visible, err := after.visible.get(ctx, func(ctx context.Context) (map[string]string, error) {
		// Looks that share nothing else, but end while such a list is read, share the next one.
		return v.spaces.get(ctx, struct{}{}, func(ctx context.Context, _ []struct{}) (map[string]string, error) {
			return v.visibleSpaces(ctx, org)
		})
	})
	if err != nil {
		return err
	}
	if offering != "" {
		if name := nameOf(offering); !v.places.memory.isIn(name, visible) {
			return v.spaceMissing(ctx, org, name, visible, after)
		}
		return nil
	}
	for _, guid := range slices.Sorted(maps.Keys(v.places.memory.known())) {
		if _, ok := visible[guid]; !ok {
			return v.spaceMissing(ctx, org, guid, visible, after)
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
func (v *visibility) spaceMissing(ctx context.Context, org, space string, visible map[string]string, after *sight) error {
	all, err := after.every.get(ctx, func(ctx context.Context) (bool, error) {
		if err := v.seesOrg(ctx, org); err != nil {
			return false, err
		}
		return seesEverySpace(ctx, v.api, org)
	})
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
