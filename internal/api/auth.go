package api

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"io"
)

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

// digest makes texts of any length comparable in constant time. A keyed hash is
// enough, on the stack: the digests never leave the process, so that nobody can
// extend one, and the key's length is fixed.
func (k digestKey) digest(text string) [sha256.Size]byte {
	var room [128]byte
	return sha256.Sum256(append(append(room[:0], k[:]...), text...))
}

// login is one credential, prepared for comparison.
type login struct {
	client   Client
	username [sha256.Size]byte
	// password is set unless hashed is.
	password [sha256.Size]byte
	hashed   *hashed
}

// guard knows the credentials of one door. It is fixed after the calls of admit.
type guard struct {
	key    digestKey
	logins []login
	// standIn is checked for those who fail without a check of a hash.
	standIn *hashed
}

func newGuard(key digestKey) *guard { return &guard{key: key} }

// admit adds credentials, each of which lets its holder in as client.
func (g *guard) admit(credentials []Credential, client Client) {
	client.Credentials = nil // they are not needed in what travels with a request
	for _, c := range credentials {
		l := login{client: client, username: g.key.digest(c.Username)}
		switch {
		case c.PasswordHash != "":
			l.hashed = newHashed(c.PasswordHash)
			g.standIn = l.hashed
		case c.Password != "":
			l.password = g.key.digest(c.Password)
		default:
			continue
		}
		g.logins = append(g.logins, l)
	}
}

// open reports whether username and password are somebody's, and whose. Every
// credential is compared, also after one that fits, so that the time taken does not
// tell how near a guess came. A bcrypt hash is only checked for its own username,
// because one check takes about a tenth of a second; whoever fails without having
// waited for one waits for another's.
func (g *guard) open(username, password string) (client Client, ok bool) {
	user, secret := g.key.digest(username), g.key.digest(password)
	waited := false
	for i := range g.logins {
		l := &g.logins[i]
		fits := subtle.ConstantTimeCompare(l.username[:], user[:])
		if l.hashed == nil {
			fits &= subtle.ConstantTimeCompare(l.password[:], secret[:])
		} else if fits == 1 {
			waited = true
			fits = l.hashed.check(secret, password)
		}
		if fits == 1 {
			client, ok = l.client, true
		}
	}
	if !ok && !waited && g.standIn != nil {
		g.standIn.check(secret, password)
	}
	return client, ok
}

// authenticate finds the client of the request. Whatever is wrong, the answer is
// the same.
func (h *handler) authenticate(e *exchange) error {
	username, password, found := e.request.BasicAuth()
	if !found {
		return unauthorized("osb")
	}
	client, ok := h.doors.open(username, password)
	if !ok {
		return unauthorized("osb")
	}
	e.client = client
	return nil
}
