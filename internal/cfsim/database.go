package cfsim

import "time"

// world is what the Cloud Controller's database holds. It is guarded by the
// simulator's mutex; rows handed out of it are read under the same lock.
type world struct {
	started       time.Time
	organizations []*organization
	spaces        []*space
	spaceByGUID   map[string]*space
	spaceByName   map[spaceName]*space
	names         collations
	vanished      map[string]int // spaces removed, by GUID of the organization and name
	users         []*user
	roles         map[roleName]*role
	market        *marketplace
	rows
}

// rows are what a reset forgets.
type rows struct {
	sequence  int64 // of rows, in order of creation
	instances instanceTable
	keys      map[string]*key
	jobs      map[string]*job
	swept     time.Time // when old jobs were last dropped
}

func newWorld(now time.Time, names collations) *world {
	w := &world{
		started:     now,
		spaceByGUID: map[string]*space{},
		spaceByName: map[spaceName]*space{},
		vanished:    map[string]int{},
		names:       names,
		users:       newUsers(now),
		roles:       map[roleName]*role{},
		market:      newMarketplace(),
	}
	for _, name := range []string{"ferry", "ferry-b", "demo"} {
		w.addOrganization(name, now)
	}
	w.forget()
	return w
}

// forget drops instances, keys and jobs.
func (w *world) forget() {
	w.market.forgetInstances()
	w.rows = rows{
		sequence:  w.sequence,
		instances: newInstanceTable(w.names.rows),
		keys:      map[string]*key{},
		jobs:      map[string]*job{},
		swept:     w.swept,
	}
}

func (w *world) nextSequence() int64 {
	w.sequence++
	return w.sequence
}
