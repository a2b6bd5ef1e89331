package cf

import (
	"context"
	"maps"
	"net/http"
	"net/url"
	"slices"

	"github.com/ferry-broker/ferry/internal/ccapi"
)

// found is a row of a list with the header of its page.
type found struct {
	instanceRow
	header http.Header
}

// instanceList is what a list showed, or several.
type instanceList struct {
	rows []found
	// pages is how many pages the longest list had.
	pages int
	// shared: it answers several questions.
	shared bool
	// sight is what the login can see after it.
	sight *sight
}

// mayMiss reports whether a row that is not in the list may be there all the same: rows move between pages while they
// are read (docs/protocol.md 3.9). For whoever asks alone one page is enough.
func (l instanceList) mayMiss() bool { return l.shared && l.pages > 1 }

// with returns the list with what a later one showed.
func (l instanceList) with(later instanceList) instanceList {
	l.rows, l.pages, l.sight = slices.Concat(l.rows, later.rows), max(l.pages, later.pages), later.sight
	return l
}

// list returns the instances of our org that the filter lets through. What other orgs share into it is left out. It
// takes one call; where the API cannot filter by org (Korifi) one more for spaces that were not met before.
func (s *instances) list(ctx context.Context, what string, filter url.Values) (instanceList, error) {
	org, err := s.places.org(ctx)
	if err != nil {
		return instanceList{}, err
	}
	list, err := s.listIn(ctx, what, filter, org)
	list.sight = new(sight)
	return list, err
}

func (s *instances) listIn(ctx context.Context, what string, filter url.Values, org string) (instanceList, error) {
	if s.flavors.known() != korifi {
		list, err := s.listByOrg(ctx, what, filter, org)
		if !filterRefused(err) {
			return list, err
		}
		// Whoever refuses these filters; Korifi is known by one of them alone.
		if _, err := s.flavors.ask(ctx); err != nil {
			return instanceList{}, err
		}
	}
	return s.listAll(ctx, what, filter, org)
}

func (s *instances) listByOrg(ctx context.Context, what string, filter url.Values, org string) (list instanceList, err error) {
	r := ccapi.Request{Path: instancesRoute, What: what, Query: maps.Clone(filter)}
	r.Query.Set("organization_guids", org)
	r.Query.Set("fields[space]", "guid,relationships.organization")
	err = ccapi.Pages(ctx, s.api, r, func(p ccapi.Page[instanceRow]) error {
		list.pages++
		var included struct {
			Spaces []spaceRow `json:"spaces"`
		}
		if err := p.DecodeIncluded(&included); err != nil {
			return err
		}
		foreign := s.places.placed(included.Spaces, org)
		for _, i := range p.Resources {
			if !foreign[spaceOf(i)] {
				list.rows = append(list.rows, found{i, p.Header})
			}
		}
		return nil
	})
	if err != nil {
		return instanceList{}, err
	}
	s.flavors.learn(cloudController)
	return list, nil
}

func (s *instances) listAll(ctx context.Context, what string, filter url.Values, org string) (list instanceList, err error) {
	r := ccapi.Request{Path: instancesRoute, What: what, Query: maps.Clone(filter)}
	err = ccapi.Pages(ctx, s.api, r, func(p ccapi.Page[instanceRow]) error {
		list.pages++
		for _, i := range p.Resources {
			list.rows = append(list.rows, found{i, p.Header})
		}
		return nil
	})
	if err != nil {
		return instanceList{}, err
	}
	list.rows, err = s.withoutForeign(ctx, list.rows, org)
	return list, err
}

// distinct returns the GUIDs, each once; an empty one, which a filter would take for all, is none.
func distinct(guids []string) (each []string) {
	for _, guid := range guids {
		if guid != "" && !slices.Contains(each, guid) {
			each = append(each, guid)
		}
	}
	return each
}

// withoutForeign leaves out what is in spaces of other orgs.
func (s *instances) withoutForeign(ctx context.Context, list []found, org string) ([]found, error) {
	foreign, err := s.foreignSpaces(ctx, list, org)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(list, func(f found) bool { return foreign[spaceOf(f.instanceRow)] }), nil
}

// foreignSpaces asks for the spaces of the rows that are not known to be ours.
func (s *instances) foreignSpaces(ctx context.Context, rows []found, org string) (map[string]bool, error) {
	known := s.places.memory.known()
	asked := map[string]bool{}
	for _, f := range rows {
		if guid := spaceOf(f.instanceRow); guid != "" && !known[guid] {
			asked[guid] = true
		}
	}
	foreign := map[string]bool{}
	for _, guids := range cut(slices.Sorted(maps.Keys(asked)), s.room, sizeOf) {
		r := ccapi.Request{
			Path: "/v3/spaces", What: "find spaces of instances",
			Query: url.Values{"guids": {ccapi.Filter(guids...)}, "per_page": {smallPage}},
		}
		spaces, err := ccapi.List[spaceRow](ctx, s.api, r)
		if err != nil {
			return nil, err
		}
		maps.Copy(foreign, s.places.placed(spaces, org))
	}
	return foreign, nil
}

func spaceOf(i instanceRow) string {
	if i.Relationships.Space == nil || i.Relationships.Space.Data == nil {
		return ""
	}
	return i.Relationships.Space.Data.GUID
}
