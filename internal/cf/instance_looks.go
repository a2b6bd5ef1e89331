package cf

import (
	"context"
	"errors"
	"net/url"
	"slices"
	"strconv"

	"github.com/ferry-broker/ferry/internal/broker"
	"github.com/ferry-broker/ferry/internal/ccapi"
)

// Look-ups of instances share lists (see shared): one by name for all who want to look at the same time, and one by
// GUID for those of them whose recorded rows have other names by now. Each look-up takes from the lists what is its
// own, and looks alone for what a list of several pages may have missed.

// FindInstances returns every instance of this name in the org, and those with these GUIDs. Databases that ignore case
// find too much, so the name is compared again.
//
// Alone it takes one call, one more when a GUID is not among what has the name, and another one or more when nothing of
// ours is left (see visibility). Those who ask together share each of these calls, as many as fit into an address: some
// 190 of them. On Korifi, which is asked for each GUID, they share all but that. Where a shared list has several pages,
// a look-up that misses something of its own there is made again, alone.
func (s *instances) FindInstances(ctx context.Context, q broker.Lookup) (broker.Look, error) {
	look, err := s.visibility.begin(ctx)
	if err != nil {
		return broker.Look{}, err
	}
	asked := instanceQuestion{name: nameOf(q.Name), guids: distinct(q.GUIDs)}
	list, err := s.looks.ask(ctx, asked, s.lookFor, func(l instanceList) bool {
		return !l.mayMiss() || hasOurs(s.rowsOf(l, asked.isAbout), q) && len(asked.missing(l)) == 0
	})
	if err != nil {
		return broker.Look{}, err
	}
	if missing := asked.missing(list); len(missing) > 0 && s.flavors.known() == korifi {
		more, err := s.getOurs(ctx, missing)
		if err != nil {
			return broker.Look{}, err
		}
		list = list.with(more)
	}
	look.Rows = s.rowsOf(list, asked.isAbout)
	return s.visibility.confirmed(ctx, look, q, list.sight)
}

// instanceQuestion asks for the instances of a name, and those with the GUIDs whatever they are called.
type instanceQuestion struct {
	name  string
	guids []string
}

func (q instanceQuestion) isAbout(i found) bool {
	return i.Name == q.name || slices.Contains(q.guids, i.GUID)
}

// missing returns the GUIDs that are not in the list.
func (q instanceQuestion) missing(l instanceList) (guids []string) {
	for _, guid := range q.guids {
		if !slices.ContainsFunc(l.rows, func(i found) bool { return i.GUID == guid }) {
			guids = append(guids, guid)
		}
	}
	return guids
}

// rowsOf returns the rows of the list that are wanted.
func (s *instances) rowsOf(list instanceList, wanted func(found) bool) (rows []broker.Row) {
	for _, i := range list.rows {
		if wanted(i) {
			rows = append(rows, s.row(i.instanceRow, i.header))
		}
	}
	return rows
}

// lookFor lists the instances of all the names, and then those whose GUIDs are not among them; on Korifi, which names
// no filter for it, the latter are left to each look-up.
func (s *instances) lookFor(ctx context.Context, questions []instanceQuestion) (instanceList, error) {
	several := len(questions) > 1
	what, names := "find instances named "+strconv.Quote(questions[0].name), make([]string, len(questions))
	if several {
		what += andMore(len(questions))
	}
	for i, q := range questions {
		names[i] = q.name
	}
	list, err := s.list(ctx, what, url.Values{"names": {ccapi.Filter(distinct(names)...)}, "per_page": {pageFor(several)}})
	if err != nil {
		return instanceList{}, err
	}
	list.shared = several
	if s.flavors.known() == korifi {
		return list, nil
	}
	var missing []string
	for _, q := range questions {
		missing = append(missing, q.missing(list)...)
	}
	for _, guids := range cut(distinct(missing), s.room, sizeOf) {
		more, err := s.list(ctx, "find instances by GUID", url.Values{"guids": {ccapi.Filter(guids...)}, "per_page": {pageFor(several)}})
		if err != nil {
			return instanceList{}, err
		}
		list = list.with(more)
	}
	return list, nil
}

// FindInstance returns the instance with this GUID, or an empty Look.
//
// Alone it takes one call; a look that finds nothing takes one more, or two (see visibility). Those who ask together
// share each of these calls, but for Korifi's first. Where a shared list has several pages, a look-up that does not
// find its row there takes one more.
func (s *instances) FindInstance(ctx context.Context, guid, offering string) (broker.Look, error) {
	if guid == "" {
		// A filter without a value would list every instance.
		return broker.Look{}, &ccapi.Error{Call: "find an instance", Err: errors.New("its GUID is missing"), Unsent: true}
	}
	look, err := s.visibility.begin(ctx)
	if err != nil {
		return broker.Look{}, err
	}
	isIt := func(i found) bool { return i.GUID == guid }
	read := s.reads.ask
	if s.flavors.known() == korifi {
		read = alone[string, instanceList]
	}
	list, err := read(ctx, guid, s.read, func(l instanceList) bool { return !l.mayMiss() || slices.ContainsFunc(l.rows, isIt) })
	if err != nil {
		return broker.Look{}, err
	}
	if look.Rows = s.rowsOf(list, isIt); len(look.Rows) > 0 {
		return look, nil
	}
	return s.visibility.confirmed(ctx, look, broker.Lookup{Offering: offering}, list.sight)
}

// read returns those of the instances that are there, by one call; on Korifi, by one for each.
func (s *instances) read(ctx context.Context, guids []string) (instanceList, error) {
	if guids = distinct(guids); len(guids) == 1 {
		return s.getEach(ctx, guids)
	}
	switch flavor, err := s.flavors.ask(ctx); {
	case err != nil:
		return instanceList{}, err
	case flavor == korifi:
		return s.getEach(ctx, guids)
	}
	list, err := s.list(ctx, "find instances by GUID", url.Values{"guids": {ccapi.Filter(guids...)}, "per_page": {largePage}})
	list.shared = true
	return list, err
}

// getOurs returns those of the instances that are there, in our org, by one call for each.
func (s *instances) getOurs(ctx context.Context, guids []string) (instanceList, error) {
	list, err := s.getEach(ctx, guids)
	if err != nil {
		return instanceList{}, err
	}
	org, err := s.places.org(ctx)
	if err != nil {
		return instanceList{}, err
	}
	list.rows, err = s.withoutForeign(ctx, list.rows, org)
	list.sight = new(sight)
	return list, err
}

// getEach returns those of the instances that are there, in whatever org, by one call for each.
func (s *instances) getEach(ctx context.Context, guids []string) (list instanceList, err error) {
	for _, guid := range guids {
		switch row, header, err := s.get(ctx, guid); {
		case err == nil:
			list.rows = append(list.rows, found{row, header})
		case !ccapi.IsAbsent(err):
			return instanceList{}, err
		}
	}
	list.sight = new(sight)
	return list, nil
}
