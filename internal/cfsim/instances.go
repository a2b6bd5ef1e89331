package cfsim

import (
	"cmp"
	"encoding/json"
	"slices"
	"time"
)

// instance is a row of service_instances.
type instance struct {
	sequence    int64
	guid, name  string
	space       *space
	plan        *plan
	tags        []string
	metadata    metadata
	maintenance string // version
	last        lastOperation
	created     time.Time
	updated     time.Time
	received    json.RawMessage // parameters that the backing broker last got
	applied     json.RawMessage // parameters that it last accepted
	keys        []*key
	job         *job // the latest, nil when it has none or the job is gone
	forced      int  // how often the control set its state
	dashboard   *string
	deletion    *job      // of the latest delete
	deleted     time.Time // when a delete was asked for (Korifi)
	sharedWith  []*space
}

func (i *instance) sortKeys() sortKeys { return sortKeys{i.name, i.updated} }

func (i *instance) call(operation string) brokerCall {
	return brokerCall{org: i.space.organization.name, instance: i.name, operation: operation}
}

// instanceName is what is unique.
type instanceName struct {
	space *space
	name  string
}

// instanceTable holds instances in order of creation, with the indexes that
// make look-ups cheap however many there are.
type instanceTable struct {
	names   collation
	ordered []*instance
	byGUID  map[string]*instance
	byName  map[string][]*instance // of all spaces, by the name's collation
	taken   map[instanceName]*instance
}

func newInstanceTable(names collation) instanceTable {
	return instanceTable{
		names:  names,
		byGUID: map[string]*instance{},
		byName: map[string][]*instance{},
		taken:  map[instanceName]*instance{},
	}
}

func (t *instanceTable) get(guid string) *instance { return t.byGUID[guid] }

func (t *instanceTable) named(sp *space, name string) *instance {
	if i := t.taken[instanceName{sp, t.names(name)}]; i != nil {
		return i
	}
	return t.sharedInto(sp, name)
}

// sharedInto returns an instance of another space that is shared with sp.
func (t *instanceTable) sharedInto(sp *space, name string) *instance {
	for _, i := range t.byName[t.names(name)] {
		if slices.Contains(i.sharedWith, sp) {
			return i
		}
	}
	return nil
}

func (t *instanceTable) add(i *instance) {
	t.ordered = append(t.ordered, i)
	t.byGUID[i.guid] = i
	t.index(i)
	i.plan.instances++
}

func (t *instanceTable) index(i *instance) {
	name := t.names(i.name)
	t.byName[name] = append(t.byName[name], i)
	t.taken[instanceName{i.space, name}] = i
}

func (t *instanceTable) unindex(i *instance) {
	name := t.names(i.name)
	rest := slices.DeleteFunc(t.byName[name], func(other *instance) bool { return other == i })
	t.byName[name] = rest
	if len(rest) == 0 {
		delete(t.byName, name)
	}
	delete(t.taken, instanceName{i.space, name})
}

func (t *instanceTable) remove(i *instance) {
	at, found := slices.BinarySearchFunc(t.ordered, i.sequence, func(other *instance, sequence int64) int {
		return cmp.Compare(other.sequence, sequence)
	})
	if found {
		t.ordered = slices.Delete(t.ordered, at, at+1)
	}
	delete(t.byGUID, i.guid)
	t.unindex(i)
	i.plan.instances--
}

func (t *instanceTable) rename(i *instance, name string) {
	t.unindex(i)
	i.name = name
	t.index(i)
}

func (t *instanceTable) changePlan(i *instance, p *plan) {
	i.plan.instances--
	i.plan = p
	p.instances++
}

// candidates narrows a search by names or GUIDs down without a scan.
func (t *instanceTable) candidates(names, guids []string) []*instance {
	if names == nil && guids == nil {
		return t.ordered
	}
	var found []*instance
	for _, guid := range guids {
		if i := t.byGUID[guid]; i != nil {
			found = append(found, i)
		}
	}
	if guids == nil {
		for _, name := range names {
			found = append(found, t.byName[t.names(name)]...)
		}
	}
	slices.SortFunc(found, func(a, b *instance) int { return cmp.Compare(a.sequence, b.sequence) })
	return slices.Compact(found)
}

// removeInstance drops a row with its keys.
func (w *world) removeInstance(i *instance) {
	for _, k := range i.keys {
		delete(w.keys, k.guid)
	}
	i.keys = nil
	w.instances.remove(i)
}

// present tells whether the row is still in the table.
func (w *world) present(i *instance) bool { return w.instances.byGUID[i.guid] == i }
