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

// Look-ups of keys share lists as those of instances do. A list names the instances and the keys of all who share it,
// so that it may show a key of one instance under the name that is looked for in another. Each look-up takes the keys
// of its own instance alone.

// FindKeys returns the keys of the instance that stand for the binding: those of its name, those with these GUIDs and,
// on Korifi, those whose name carries an operation of it.
//
// Alone it takes one call, one more when a GUID is not among what has the name (none on Korifi, where all keys of the
// instance are read), and another one or more when nothing of ours is left (see visibility). Those who ask together
// share each of these calls, as many as fit into an address: some 95 of them. A look-up is made again, alone, where a
// shared list has several pages and misses something of its own, or has a key that may be its own and does not say of
// which instance it is.
func (s *keys) FindKeys(ctx context.Context, q broker.Lookup) (broker.Look, error) {
	if q.Instance == "" {
		// A filter without a value would list every key.
		return broker.Look{}, &ccapi.Error{Call: "find keys", Err: errors.New("the GUID of their instance is missing"), Unsent: true}
	}
	if _, err := s.flavors.ask(ctx); err != nil {
		return broker.Look{}, err
	}
	look, err := s.visibility.begin(ctx)
	if err != nil {
		return broker.Look{}, err
	}
	asked := keyQuestion{instance: q.Instance, bindingID: q.Name, guids: distinct(q.GUIDs)}
	list, err := s.looks.ask(ctx, asked, s.lookFor, func(l keyList) bool {
		return !asked.mayBeAbout(l) && (!l.mayMiss() || hasOurs(asked.rowsOf(l), q) && len(asked.missing(l)) == 0)
	})
	if err != nil {
		return broker.Look{}, err
	}
	look.Rows = asked.rowsOf(list)
	return s.confirmed(ctx, look, q, list.sight)
}

// keyList is what a list of keys showed, or several.
type keyList struct {
	keys []foundKey
	// pages is how many pages the longest list had.
	pages int
	// shared: it answers several questions.
	shared bool
	// sight is what the login can see after it.
	sight *sight
}

// mayMiss is that of instanceList.
func (l keyList) mayMiss() bool { return l.shared && l.pages > 1 }

// foundKey is a key of a list with its row.
type foundKey struct {
	keyRow
	row broker.Row
	// instance is the one that it is of; empty where neither it nor the list tells.
	instance string
}

// keyQuestion asks for the keys of an instance that stand for a binding, and those with the GUIDs whatever they are
// called.
type keyQuestion struct {
	instance  string
	bindingID string
	guids     []string
}

// names reports whether a key of the right instance is one that the question is about.
func (q keyQuestion) names(k foundKey) bool {
	return k.Name != nil && standsFor(*k.Name, k.row, q.bindingID) || slices.Contains(q.guids, k.GUID)
}

// mayBeAbout reports whether there is a key in the list that the question is about, if it is of its instance, which
// nobody tells.
func (q keyQuestion) mayBeAbout(l keyList) bool {
	return slices.ContainsFunc(l.keys, func(k foundKey) bool { return k.instance == "" && q.names(k) })
}

// rowsOf returns the rows of the list that the question is about, each once.
func (q keyQuestion) rowsOf(l keyList) (rows []broker.Row) {
	for _, k := range l.keys {
		if k.instance == q.instance && q.names(k) && !hasGUID(rows, k.GUID) {
			rows = append(rows, k.row)
		}
	}
	return rows
}

func hasGUID(rows []broker.Row, guid string) bool {
	return slices.ContainsFunc(rows, func(r broker.Row) bool { return r.GUID == guid })
}

// missing returns the GUIDs that are not among the rows of the list that the question is about.
func (q keyQuestion) missing(l keyList) []string {
	rows := q.rowsOf(l)
	return slices.DeleteFunc(slices.Clone(q.guids), func(guid string) bool { return hasGUID(rows, guid) })
}

// standsFor reports whether a key with this name is one of the binding.
func standsFor(name string, row broker.Row, bindingID string) bool {
	if !row.MarkedByName {
		return name == nameOf(bindingID)
	}
	k, ok := readKeyName(name)
	return ok && k.isOf(bindingID)
}

// lookFor lists the keys of all the names, and then those whose GUIDs are not among them; on Korifi, which names no
// filters for it, all keys of the instances.
func (s *keys) lookFor(ctx context.Context, questions []keyQuestion) (keyList, error) {
	list := keyList{shared: len(questions) > 1}
	what := "find keys named " + strconv.Quote(nameOf(questions[0].bindingID)) + " of instance " + strconv.Quote(questions[0].instance)
	if list.shared {
		what += andMore(len(questions))
	}
	byName := url.Values{}
	if s.flavors.known() != korifi {
		names := make([]string, len(questions))
		for i, q := range questions {
			names[i] = nameOf(q.bindingID)
		}
		byName.Set("names", ccapi.Filter(distinct(names)...))
	}
	if err := s.list(ctx, what, questions, byName, &list); err != nil || s.flavors.known() == korifi {
		return list, err
	}
	for _, some := range cut(s.missing(questions, list), s.room, keyQuestion.sizeOfGUIDs) {
		var guids []string
		for _, q := range some {
			guids = append(guids, q.guids...)
		}
		if err := s.list(ctx, what, some, url.Values{"guids": {ccapi.Filter(distinct(guids)...)}}, &list); err != nil {
			return list, err
		}
	}
	return list, nil
}

// missing returns what is left of the questions: the GUIDs that are not in the list, each question's in parts that fit
// into an address.
func (s *keys) missing(questions []keyQuestion, l keyList) (left []keyQuestion) {
	for _, q := range questions {
		for _, guids := range cut(q.missing(l), s.room-sizeOf(q.instance), sizeOf) {
			left = append(left, keyQuestion{instance: q.instance, bindingID: q.bindingID, guids: guids})
		}
	}
	return left
}

func (q keyQuestion) sizeOfGUIDs() int {
	size := sizeOf(q.instance)
	for _, guid := range q.guids {
		size += sizeOf(guid)
	}
	return size
}

// list adds to a list what another one shows of the questions' instances.
func (s *keys) list(ctx context.Context, what string, questions []keyQuestion, query url.Values, into *keyList) error {
	instances := make([]string, len(questions))
	for i, q := range questions {
		instances[i] = q.instance
	}
	instances = distinct(instances)
	query.Set("service_instance_guids", ccapi.Filter(instances...))
	query.Set("type", "key")
	query.Set("per_page", pageFor(into.shared))
	pages := 0
	err := ccapi.Pages(ctx, s.api, ccapi.Request{Path: keysRoute, What: what, Query: query}, func(p ccapi.Page[keyRow]) error {
		pages++
		for _, k := range p.Resources {
			of := k.instanceGUID()
			if of == "" && len(instances) == 1 {
				of = instances[0]
			}
			into.keys = append(into.keys, foundKey{k, s.row(k, p.Header), of})
		}
		return nil
	})
	into.pages, into.sight = max(into.pages, pages), new(sight)
	return err
}

// confirmed is that of visibility for keys: who sees the instance sees its keys. Where the offering is known its space
// is asked for, which many looks share; else the instance itself.
func (s *keys) confirmed(ctx context.Context, look broker.Look, q broker.Lookup, after *sight) (broker.Look, error) {
	if len(look.Rows) == 0 && q.Offering == "" {
		switch _, _, err := s.instances.get(ctx, q.Instance); {
		case err == nil:
			return look, nil
		case !ccapi.IsAbsent(err):
			return broker.Look{}, err
		}
	}
	return s.visibility.confirmed(ctx, look, q, after)
}
