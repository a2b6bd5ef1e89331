package api

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"io"
	"net/http"
	"runtime"
	"sync"

	"golang.org/x/crypto/bcrypt"
)

// digest is a keyed hash of a text, by which texts of any length are compared in constant time.
type digest [sha256.Size]byte

// digestKey is the process's own: digests under it are worth nothing elsewhere.
type digestKey [32]byte

// newDigestKey reads a key from random, from the system when that is nil or fails.
func newDigestKey(random io.Reader) (key digestKey) {
	if random != nil {
		if _, err := io.ReadFull(random, key[:]); err == nil {
			return key
		}
	}
	_, _ = rand.Read(key[:]) // never returns an error
	return key
}

// digest is made on the stack. A keyed hash is enough: the digests never leave the process, so that nobody can extend
// one, and the key's length is fixed.
func (k digestKey) digest(text string) digest {
	var room [128]byte
	return sha256.Sum256(append(append(room[:0], k[:]...), text...))
}

// login is one credential, prepared for comparison.
type login struct {
	client   Client
	username digest
	// password is set unless hash is.
	password digest
	hash     string
}

// guard knows the credentials that open one part of the broker. It is fixed after the calls of admit and may be used
// concurrently.
type guard struct {
	key    digestKey
	logins []login
	// same is the comparison of digests, in constant time: 1 when they are equal.
	same   func(x, y digest) int
	hashes *hashes
}

func newGuard(key digestKey) *guard {
	return &guard{key: key, same: same, hashes: newHashes()}
}

func same(x, y digest) int { return subtle.ConstantTimeCompare(x[:], y[:]) }

// admit adds credentials, each of which lets its holder in as client.
func (g *guard) admit(credentials []Credential, client Client) {
	client.Credentials = nil // they are not needed in what travels with a request
	ofUser := map[string][]string{}
	for _, c := range credentials {
		l := login{client: client, username: g.key.digest(c.Username)}
		switch {
		case c.PasswordHash != "":
			l.hash = c.PasswordHash
			ofUser[c.Username] = append(ofUser[c.Username], c.PasswordHash)
		case c.Password != "":
			l.password = g.key.digest(c.Password)
		default:
			continue
		}
		g.logins = append(g.logins, l)
	}
	for _, list := range ofUser {
		g.hashes.expect(list)
	}
}

var (
	// errWrongLogin says that nobody has this username with this password.
	errWrongLogin = errors.New("wrong username or password")
	// errManyLogins says that the login was not checked.
	errManyLogins = errors.New("too many logins wait to be checked")
)

// open returns whose username and password these are. Every credential is compared, also after one that fits, so that
// the time taken does not tell how near a guess came. Hashes cost a tenth of a second and are asked last, in a queue of
// their own: a right password in plain text, and one that a hash was asked about before, never wait there. Errors are
// errWrongLogin and errManyLogins.
func (g *guard) open(ctx context.Context, username, password string) (Client, error) {
	user, secret := g.key.digest(username), g.key.digest(password)
	found := -1
	var own []int
	for i := range g.logins {
		l := &g.logins[i]
		known, right := g.same(l.username, user), g.same(l.password, secret)
		if l.hash == "" && known&right == 1 {
			found = i
		}
		if l.hash != "" && known == 1 {
			own = append(own, i)
		}
	}
	if found < 0 {
		var err error
		// A username in HTTP Basic has no colon: the two together are like no others.
		if found, err = g.hashes.find(ctx, user, g.key.digest(username+":"+password), password, g.hashesOf(own)); err != nil {
			return Client{}, err
		}
	}
	return g.logins[found].client, nil
}

// hashesOf returns the hashes of logins by their index.
func (g *guard) hashesOf(logins []int) map[int]string {
	hashes := make(map[int]string, len(logins))
	for _, i := range logins {
		hashes[i] = g.logins[i].hash
	}
	return hashes
}

// admitted asks the guard who sent the request. Whatever is wrong with a login, the answer is the same.
func (g *guard) admitted(r *http.Request, realm string) (Client, error) {
	username, password, found := r.BasicAuth()
	if !found {
		return Client{}, unauthorized(realm)
	}
	client, err := g.open(r.Context(), username, password)
	switch {
	case errors.Is(err, errManyLogins):
		return Client{}, tooBusy("Too many logins wait to be checked, and this one was not looked at.", 1)
	case err != nil:
		return Client{}, unauthorized(realm)
	}
	return client, nil
}

// authenticate finds the client of the request.
func (h *handler) authenticate(e *exchange) (err error) {
	e.client, err = h.platforms.admitted(e.request, "osb")
	return err
}

const (
	// maxRemembered bounds the logins whose outcome is kept, of each kind.
	maxRemembered = 1024
	// bcryptBytes is how much of a password bcrypt looks at; a longer one would let in everybody who knows its
	// beginning.
	bcryptBytes = 72
	// queueWork is the work that may wait, in steps of bcrypt: some ten seconds.
	queueWork = 1 << 17
	// fewestPlaces and mostPlaces bound how many logins that makes.
	fewestPlaces, mostPlaces = 8, 64
)

// nobody is the outcome of a login that opens nothing.
const nobody = -1

// hashes checks logins against bcrypt hashes. Each login is checked once: its outcome is kept, since a platform sends
// the same password all day. It may be used concurrently after the calls of expect.
//
// Whether a username is known does not show in the time: every login that is checked costs the same, for each cost as
// many comparisons as the user with the most hashes of that cost needs.
type hashes struct {
	// compare is bcrypt's comparison: nil when the password fits.
	compare func(hash, password []byte) error
	// samples has, for each cost, as many hashes as are compared with each login.
	samples map[int][]string
	queue   *queue

	mu sync.Mutex
	// opened and refused are the outcomes so far. Guesses cannot push out of opened what is right.
	opened  map[digest]int
	refused map[digest]bool
	// checked are the logins that are being checked, closed when one has been.
	checked map[digest]chan struct{}
}

func newHashes() *hashes {
	return &hashes{
		compare: bcrypt.CompareHashAndPassword, samples: map[int][]string{}, queue: newQueue(0),
		opened: map[digest]int{}, refused: map[digest]bool{}, checked: map[digest]chan struct{}{},
	}
}

// expect makes room in the cost of every login for a user who has these hashes.
func (h *hashes) expect(list []string) {
	for cost, own := range byCost(list) {
		if len(own) > len(h.samples[cost]) {
			h.samples[cost] = own
		}
	}
	work := 0
	for cost, list := range h.samples {
		work += len(list) << cost
	}
	h.queue = newQueue(work)
}

func byCost(list []string) map[int][]string {
	sorted := map[int][]string{}
	for _, hash := range list {
		cost, _ := bcrypt.Cost([]byte(hash)) // 0 for what is no hash; it opens nothing
		sorted[cost] = append(sorted[cost], hash)
	}
	return sorted
}

// find returns which of the user's own hashes the password fits. Login and user are digests, user the part of login by
// which the queue is shared.
func (h *hashes) find(ctx context.Context, user, login digest, password string, own map[int]string) (int, error) {
	if len(h.samples) == 0 || len(password) > bcryptBytes {
		return 0, errWrongLogin
	}
	for {
		outcome, known, wait, first := h.recall(login)
		if known {
			return outcomeOf(outcome)
		}
		if first {
			return h.check(ctx, user, login, password, own)
		}
		select {
		case <-wait: // somebody else's check of the same login
		case <-ctx.Done():
			return 0, errManyLogins
		}
	}
}

func outcomeOf(outcome int) (int, error) {
	if outcome == nobody {
		return 0, errWrongLogin
	}
	return outcome, nil
}

// recall returns the outcome when it is known. When it is not, first says that the caller is to check, and else wait is
// closed when somebody has done so.
func (h *hashes) recall(login digest) (outcome int, known bool, wait chan struct{}, first bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if i, ok := h.opened[login]; ok {
		return i, true, nil, false
	}
	if h.refused[login] {
		return nobody, true, nil, false
	}
	if wait, ok := h.checked[login]; ok {
		return 0, false, wait, false
	}
	h.checked[login] = make(chan struct{})
	return 0, false, nil, true
}

// check compares once a place in the queue has come to its turn.
func (h *hashes) check(ctx context.Context, user, login digest, password string, own map[int]string) (int, error) {
	defer h.done(login)
	if !h.queue.enter(ctx, user) {
		return 0, errManyLogins
	}
	defer h.queue.leave(user)
	outcome := h.compareAll(password, own)
	h.remember(login, outcome)
	return outcomeOf(outcome)
}

// compareAll compares with the user's own hashes, and with as many others as make the cost that of every login.
func (h *hashes) compareAll(password string, own map[int]string) int {
	outcome, list := nobody, make([]string, 0, len(own))
	for i, hash := range own {
		list = append(list, hash)
		if h.compare([]byte(hash), []byte(password)) == nil {
			outcome = i
		}
	}
	done := byCost(list)
	for cost, samples := range h.samples {
		for _, hash := range samples[min(len(done[cost]), len(samples)):] {
			_ = h.compare([]byte(hash), []byte(password)) // for its time alone
		}
	}
	return outcome
}

func (h *hashes) remember(login digest, outcome int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if outcome == nobody {
		if len(h.refused) >= maxRemembered {
			clear(h.refused)
		}
		h.refused[login] = true
		return
	}
	if len(h.opened) >= maxRemembered { // of somebody who knows a right password
		clear(h.opened)
	}
	h.opened[login] = outcome
}

func (h *hashes) done(login digest) {
	h.mu.Lock()
	defer h.mu.Unlock()
	close(h.checked[login])
	delete(h.checked, login)
}

// queue is where logins wait for a processor. It holds few, since what waits long is given up by who sent it, and half
// of them at most for one username, known or not.
type queue struct {
	turns  chan struct{}
	places int

	mu     sync.Mutex
	inside int
	of     map[digest]int
}

// newQueue returns a queue for logins that cost that much work each. It leaves one of two processors to what else there
// is to do.
func newQueue(work int) *queue {
	return &queue{
		turns:  make(chan struct{}, max(1, runtime.GOMAXPROCS(0)/2)),
		places: max(fewestPlaces, min(mostPlaces, queueWork/max(1, work))),
		of:     map[digest]int{},
	}
}

// enter waits for a turn. False: there is no place, or nobody waits any more.
func (q *queue) enter(ctx context.Context, user digest) bool {
	if !q.take(user) {
		return false
	}
	select {
	case q.turns <- struct{}{}:
		return true
	case <-ctx.Done():
		q.give(user)
		return false
	}
}

// leave ends a turn.
func (q *queue) leave(user digest) {
	<-q.turns
	q.give(user)
}

func (q *queue) take(user digest) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.inside >= q.places || q.of[user] >= q.places/2 {
		return false
	}
	q.inside++
	q.of[user]++
	return true
}

func (q *queue) give(user digest) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.inside--
	if q.of[user]--; q.of[user] == 0 {
		delete(q.of, user)
	}
}
