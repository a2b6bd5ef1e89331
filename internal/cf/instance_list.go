package cf

import (
	"context"
	"maps"
	"net/http"
	"net/url"
	"slices"
)

// maxFilter is how many characters of GUIDs one filter names: an address stays far below
// the 8 KB that proxies take.
const maxFilter = 3000

// found is a row of a list with the header of its page.
type found struct {
	instanceRow
	header http.Header
}

// instances returns the instances of our org that the filter lets through. What
// other orgs share into it is left out. It takes one call; where the API cannot
// filter by org (Korifi) one more for spaces that were not met before.
func (b *Backend) instances(ctx context.Context, what string, filter url.Values) ([]found, error) {
	org, err := b.org(ctx)
	if err != nil {
		return nil, err
	}
	if b.tongue.dialect() != korifi {
		list, err := b.instancesByOrg(ctx, what, filter, org)
		if !filterRefused(err) {
			return list, err
		}
		// Whoever refuses these filters; Korifi is known by one of them alone.
		if _, err := b.dialect(ctx); err != nil {
			return nil, err
		}
	}
	return b.instancesBySpace(ctx, what, filter, org)
}

func (b *Backend) instancesByOrg(ctx context.Context, what string, filter url.Values, org string) ([]found, error) {
	r := request{path: instancesRoute, what: what, query: maps.Clone(filter)}
	r.query.Set("organization_guids", org)
	r.query.Set("fields[space]", "guid,relationships.organization")
	var list []found
	err := pages(ctx, b, r, func(p page[instanceRow]) {
		foreign := b.placed(p.Included.Spaces, org)
		for _, i := range p.Resources {
			if !foreign[spaceOf(i)] {
				list = append(list, found{i, p.header})
			}
		}
	})
	if err != nil {
		return nil, err
	}
	b.tongue.learn(classic)
	return list, nil
}

func (b *Backend) instancesBySpace(ctx context.Context, what string, filter url.Values, org string) ([]found, error) {
	var list []found
	err := pages(ctx, b, request{path: instancesRoute, what: what, query: maps.Clone(filter)}, func(p page[instanceRow]) {
		for _, i := range p.Resources {
			list = append(list, found{i, p.header})
		}
	})
	if err != nil {
		return nil, err
	}
	return b.withoutForeign(ctx, list, org)
}

// instancesByGUID returns those of the instances that are there. It takes one call, and
// on Korifi, which names no filter for it, one for each.
func (b *Backend) instancesByGUID(ctx context.Context, guids []string) ([]found, error) {
	var rows []found
	if b.tongue.dialect() != korifi {
		for _, part := range filters(guids) {
			some, err := b.instances(ctx, "find instances by GUID", url.Values{"guids": {list(part...)}, "per_page": {"200"}})
			if err != nil {
				return nil, err
			}
			rows = append(rows, some...)
		}
		return rows, nil
	}
	for _, guid := range guids {
		switch row, header, err := b.instance(ctx, guid); {
		case err == nil:
			rows = append(rows, found{row, header})
		case !isAbsent(err):
			return nil, err
		}
	}
	org, err := b.org(ctx)
	if err != nil {
		return nil, err
	}
	return b.withoutForeign(ctx, rows, org)
}

// distinct returns the GUIDs, each once; an empty one, which a filter would take for all,
// is none.
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
func (b *Backend) withoutForeign(ctx context.Context, list []found, org string) ([]found, error) {
	foreign, err := b.foreignSpaces(ctx, list, org)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(list, func(f found) bool { return foreign[spaceOf(f.instanceRow)] }), nil
}

// foreignSpaces asks for the spaces of the rows that are not known to be ours.
func (b *Backend) foreignSpaces(ctx context.Context, rows []found, org string) (map[string]bool, error) {
	known := b.places.known()
	asked := map[string]bool{}
	for _, f := range rows {
		if guid := spaceOf(f.instanceRow); guid != "" && !known[guid] {
			asked[guid] = true
		}
	}
	foreign := map[string]bool{}
	for _, guids := range filters(slices.Sorted(maps.Keys(asked))) {
		r := request{
			path: "/v3/spaces", what: "find spaces of instances",
			query: url.Values{"guids": {list(guids...)}, "per_page": {"200"}},
		}
		err := pages(ctx, b, r, func(p page[spaceRow]) { maps.Copy(foreign, b.placed(p.Resources, org)) })
		if err != nil {
			return nil, err
		}
	}
	return foreign, nil
}

// placed remembers which of the spaces are ours and returns those of other orgs. One
// whose org is not told counts as ours: a row too many is judged by its marks, a row
// too few would be absence.
func (b *Backend) placed(spaces []spaceRow, org string) (foreign map[string]bool) {
	foreign = map[string]bool{}
	for _, s := range spaces {
		if s.Relationships.Organization == nil || s.Relationships.Organization.Data == nil {
			continue
		}
		if s.Relationships.Organization.Data.GUID == org {
			b.places.meet(s.GUID)
		} else {
			foreign[s.GUID] = true
		}
	}
	return foreign
}

func spaceOf(i instanceRow) string {
	if i.Relationships.Space == nil || i.Relationships.Space.Data == nil {
		return ""
	}
	return i.Relationships.Space.Data.GUID
}
