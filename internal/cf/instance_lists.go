package cf

import (
	"context"
	"maps"
	"net/http"
	"net/url"
	"slices"

	"github.com/ferry-broker/ferry/internal/ccapi"
)

// maxFilter is how many characters of GUIDs one filter names: an address stays far below the 8 KB that proxies take.
const maxFilter = 3000

// found is a row of a list with the header of its page.
type found struct {
	instanceRow
	header http.Header
}

// list returns the instances of our org that the filter lets through. What other orgs share into it is left out. It
// takes one call; where the API cannot filter by org (Korifi) one more for spaces that were not met before.
func (s *instances) list(ctx context.Context, what string, filter url.Values) ([]found, error) {
	org, err := s.places.org(ctx)
	if err != nil {
		return nil, err
	}
	if s.flavors.known() != korifi {
		list, err := s.listByOrg(ctx, what, filter, org)
		if !filterRefused(err) {
			return list, err
		}
		// Whoever refuses these filters; Korifi is known by one of them alone.
		if _, err := s.flavors.ask(ctx); err != nil {
			return nil, err
		}
	}
	return s.listAll(ctx, what, filter, org)
}

func (s *instances) listByOrg(ctx context.Context, what string, filter url.Values, org string) ([]found, error) {
	r := ccapi.Request{Path: instancesRoute, What: what, Query: maps.Clone(filter)}
	r.Query.Set("organization_guids", org)
	r.Query.Set("fields[space]", "guid,relationships.organization")
	var list []found
	err := ccapi.Pages(ctx, s.api, r, func(p ccapi.Page[instanceRow]) error {
		var included struct {
			Spaces []spaceRow `json:"spaces"`
		}
		if err := p.DecodeIncluded(&included); err != nil {
			return err
		}
		foreign := s.places.placed(included.Spaces, org)
		for _, i := range p.Resources {
			if !foreign[spaceOf(i)] {
				list = append(list, found{i, p.Header})
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	s.flavors.learn(cloudController)
	return list, nil
}

func (s *instances) listAll(ctx context.Context, what string, filter url.Values, org string) ([]found, error) {
	var list []found
	err := ccapi.Pages(ctx, s.api, ccapi.Request{Path: instancesRoute, What: what, Query: maps.Clone(filter)}, func(p ccapi.Page[instanceRow]) error {
		for _, i := range p.Resources {
			list = append(list, found{i, p.Header})
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return s.withoutForeign(ctx, list, org)
}

// byGUID returns those of the instances that are there. It takes one call, and on Korifi, which names no filter for it,
// one for each.
func (s *instances) byGUID(ctx context.Context, guids []string) ([]found, error) {
	var rows []found
	if s.flavors.known() != korifi {
		for _, part := range filters(guids) {
			some, err := s.list(ctx, "find instances by GUID", url.Values{"guids": {ccapi.Filter(part...)}, "per_page": {"200"}})
			if err != nil {
				return nil, err
			}
			rows = append(rows, some...)
		}
		return rows, nil
	}
	for _, guid := range guids {
		switch row, header, err := s.get(ctx, guid); {
		case err == nil:
			rows = append(rows, found{row, header})
		case !ccapi.IsAbsent(err):
			return nil, err
		}
	}
	org, err := s.places.org(ctx)
	if err != nil {
		return nil, err
	}
	return s.withoutForeign(ctx, rows, org)
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

// filters cuts GUIDs into lists that are short enough for the filter of one address.
func filters(guids []string) (cut [][]string) {
	length := 0
	for _, guid := range guids {
		length += len(guid)
		if len(cut) == 0 || length > maxFilter {
			cut, length = append(cut, nil), len(guid)
		}
		cut[len(cut)-1] = append(cut[len(cut)-1], guid)
	}
	return cut
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
	for _, guids := range filters(slices.Sorted(maps.Keys(asked))) {
		r := ccapi.Request{
			Path: "/v3/spaces", What: "find spaces of instances",
			Query: url.Values{"guids": {ccapi.Filter(guids...)}, "per_page": {"200"}},
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
