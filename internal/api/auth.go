package api

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"io"
	"net/http"
)

// digest is a keyed hash of a text, by which texts of any length are compared in
// constant time.
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

// digest is made on the stack. A keyed hash is enough: the digests never leave the
// process, so that nobody can extend one, and the key's length is fixed.
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

// guard knows the credentials of one door. It is fixed after the calls of admit and
// may be used concurrently.
type guard struct {
	key    digestKey
	logins []login
	// same is the comparison of digests, in constant time: 1 when they are equal.
	same   func(x, y []byte) int
	hashes *hashes
}

func newGuard(key digestKey) *guard {
	return &guard{key: key, same: subtle.ConstantTimeCompare, hashes: newHashes()}
}

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

// open returns whose username and password these are. Every credential is compared,
// also after one that fits, so that the time taken does not tell how near a guess
// came. Hashes cost a tenth of a second and are asked last, in a queue of their own:
// a right password in plain text, and one that a hash was asked about before, never
// wait there. Errors are errWrongLogin and errManyLogins.
func (g *guard) open(ctx context.Context, username, password string) (Client, error) {
	user, secret := g.key.digest(username), g.key.digest(password)
	found := -1
	var own []int
	for i := range g.logins {
		l := &g.logins[i]
		known, right := g.same(l.username[:], user[:]), g.same(l.password[:], secret[:])
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

// admitted asks the guard who sent the request. Whatever is wrong with a login, the
// answer is the same.
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
	e.client, err = h.doors.admitted(e.request, "osb")
	return err
}
