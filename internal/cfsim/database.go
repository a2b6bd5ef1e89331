package cfsim

import (
	"crypto/sha256"
	"encoding/hex"
	"io"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

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

// collation is how a column of the database compares names: two names are the
// same when their collations are.
type collation func(string) string

func exactly(name string) string { return name }

// withoutCase is the collation of organizations, spaces, offerings and plans in
// every Cloud Controller, and of instances and keys in some.
func withoutCase(name string) string { return strings.ToLower(name) }

// collations are those of a simulated Cloud Foundry.
type collations struct {
	places collation // organizations, spaces, offerings and plans
	rows   collation // instances and keys
}

func collationsOf(o Options) collations {
	c := collations{places: withoutCase, rows: exactly}
	if o.Korifi {
		c.places = exactly // its names are labels of Kubernetes
	}
	if o.NamesIgnoreCase {
		c.rows = withoutCase
	}
	return c
}

// same tells whether two names are one.
func (c collation) same(a, b string) bool { return c(a) == c(b) }

// passes tells whether a name is among those wanted; a filter that is not set
// lets everything through.
func (c collation) passes(wanted []string, name string) bool {
	return wanted == nil || slices.ContainsFunc(wanted, func(other string) bool { return c.same(other, name) })
}

// randomness stretches a seed that was read once into GUIDs and secrets, so
// that a reader which fails or blocks later cannot disturb a request.
type randomness struct {
	mu     sync.Mutex
	stream *rand.ChaCha8
}

func newRandomness(seed io.Reader) *randomness {
	var key [32]byte
	// A short reader (as tests use) is as good a seed as its bytes are.
	_, _ = io.ReadFull(seed, key[:])
	return &randomness{stream: rand.NewChaCha8(key)}
}

func (r *randomness) bytes(n int) []byte {
	b := make([]byte, n)
	r.mu.Lock()
	defer r.mu.Unlock()
	_, _ = r.stream.Read(b) // documented to never fail
	return b
}

// guid returns a random version 4 UUID.
func (r *randomness) guid() string {
	return formatUUID(r.bytes(16), 4)
}

// secret returns 32 hexadecimal digits.
func (r *randomness) secret() string {
	return hex.EncodeToString(r.bytes(16))
}

// fixedGUID derives a GUID from a kind and a name, so that a restart serves the
// same one.
func fixedGUID(kind, name string) string {
	sum := sha256.Sum256([]byte("cfsim " + kind + " " + name))
	return formatUUID(sum[:16], 8)
}

// unusedGUID is fixedGUID for a name that others may have had before: it goes
// past that many earlier ones, and past GUIDs that are in use.
func unusedGUID(kind, name string, earlier int, used func(guid string) bool) string {
	for ; ; earlier++ {
		seed := name
		if earlier > 0 {
			seed += "#" + strconv.Itoa(earlier)
		}
		if guid := fixedGUID(kind, seed); !used(guid) {
			return guid
		}
	}
}

// formatUUID writes 16 bytes as RFC 9562 does; it changes b.
func formatUUID(b []byte, version byte) string {
	b[6] = b[6]&0x0f | version<<4
	b[8] = b[8]&0x3f | 0x80
	digits := hex.EncodeToString(b)
	return digits[:8] + "-" + digits[8:12] + "-" + digits[12:16] + "-" + digits[16:20] + "-" + digits[20:]
}
