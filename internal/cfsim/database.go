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

// controller is the Cloud Controller behind the routes: its database, what its operators have decided, its workers, and
// the service broker that it asks.
type controller struct {
	options Options
	random  *randomness
	tokens  *tokenIssuer
	limiter *rateLimiter

	// mu guards the four below and the rows in them. It is held while a handler runs, while a function of the control
	// does, and while a worker takes a step; all functions that are given a row are called with it held. None of them
	// waits.
	mu         sync.Mutex
	database   *database
	conditions conditions
	backing    *backingBroker
	workers    *workers
}

func newController(o Options) *controller {
	random := newRandomness(o.Random)
	cc := &controller{
		options:    o,
		random:     random,
		tokens:     newTokenIssuer(o.Now, random),
		limiter:    newRateLimiter(o),
		database:   newDatabase(o.Now(), collationsOf(o)),
		conditions: noConditions(),
		backing:    newBackingBroker(o.BrokerDelay),
	}
	cc.workers = newWorkers(cc)
	return cc
}

func (cc *controller) now() time.Time { return cc.options.Now() }

// database is what the Cloud Controller keeps.
type database struct {
	names         collations
	started       time.Time
	organizations []*organization
	spaces        []*space
	spaceByGUID   map[string]*space
	spaceByName   map[spaceName]*space
	removed       map[string]int // how many spaces there were before, by GUID of the organization and name
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

func newDatabase(now time.Time, names collations) *database {
	db := &database{
		names:       names,
		started:     now,
		spaceByGUID: map[string]*space{},
		spaceByName: map[spaceName]*space{},
		removed:     map[string]int{},
		users:       newUsers(now),
		roles:       map[roleName]*role{},
		market:      newMarketplace(),
	}
	for _, name := range []string{"ferry", "ferry-b", "demo"} {
		db.addOrganization(name, now)
	}
	db.forget()
	return db
}

// forget drops instances, keys and jobs.
func (db *database) forget() {
	db.market.forgetInstances()
	db.rows = rows{
		sequence:  db.sequence,
		instances: newInstanceTable(db.names.rows),
		keys:      map[string]*key{},
		jobs:      map[string]*job{},
		swept:     db.swept,
	}
}

func (db *database) nextSequence() int64 {
	db.sequence++
	return db.sequence
}

// collation is how a column of the database compares names: two names are the same when their collations are.
type collation func(string) string

func exactly(name string) string { return name }

// withoutCase is the collation of organizations, spaces, offerings and plans in every Cloud Controller, and of
// instances and keys in some.
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

// passes tells whether a name is among those wanted; a filter that is not set lets everything through.
func (c collation) passes(wanted []string, name string) bool {
	return wanted == nil || slices.ContainsFunc(wanted, func(other string) bool { return c.same(other, name) })
}

// randomness stretches a seed that was read once into GUIDs and secrets, so that a reader which fails or blocks later
// cannot disturb a request.
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

// fixedGUID derives a GUID from a kind and a name, so that a restart serves the same one.
func fixedGUID(kind, name string) string {
	sum := sha256.Sum256([]byte("cfsim " + kind + " " + name))
	return formatUUID(sum[:16], 8)
}

// unusedGUID is fixedGUID for a name that others may have had before: it goes past that many earlier ones, and past
// GUIDs that are in use.
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
