package api

import (
	"crypto/sha256"
	"sync"

	"golang.org/x/crypto/bcrypt"
)

const (
	// maxRemembered bounds the passwords of one hash whose outcome is kept.
	maxRemembered = 256
	// bcryptBytes is how much of a password bcrypt looks at; a longer one would
	// let in everybody who knows its beginning.
	bcryptBytes = 72
)

// hashed is a bcrypt hash that is asked once for each password: the outcome is kept
// under a keyed digest, since a platform sends the same password all day. It may be
// used concurrently.
type hashed struct {
	hash []byte
	// compare is bcrypt's comparison: nil when the password fits.
	compare func(hash, password []byte) error
	// turn lets one caller at a time compute, so that a burst of the same password
	// costs one check.
	turn sync.Mutex
	// known guards outcomes. It is not held while computing.
	known    sync.RWMutex
	outcomes map[[sha256.Size]byte]int
}

func newHashed(hash string) *hashed {
	return &hashed{
		hash:     []byte(hash),
		compare:  bcrypt.CompareHashAndPassword,
		outcomes: map[[sha256.Size]byte]int{},
	}
}

// check returns 1 when password, whose keyed digest is digest, fits the hash.
func (h *hashed) check(digest [sha256.Size]byte, password string) int {
	if outcome, ok := h.recall(digest); ok {
		return outcome
	}
	h.turn.Lock()
	defer h.turn.Unlock()
	if outcome, ok := h.recall(digest); ok {
		return outcome
	}
	outcome := 0
	if len(password) <= bcryptBytes && h.compare(h.hash, []byte(password)) == nil {
		outcome = 1
	}
	h.remember(digest, outcome)
	return outcome
}

func (h *hashed) recall(digest [sha256.Size]byte) (outcome int, ok bool) {
	h.known.RLock()
	defer h.known.RUnlock()
	outcome, ok = h.outcomes[digest]
	return outcome, ok
}

// remember keeps an outcome. When guesses have filled the room the wrong ones go,
// so that nobody can push out the right password.
func (h *hashed) remember(digest [sha256.Size]byte, outcome int) {
	h.known.Lock()
	defer h.known.Unlock()
	if len(h.outcomes) >= maxRemembered {
		for kept, right := range h.outcomes {
			if right == 0 {
				delete(h.outcomes, kept)
			}
		}
	}
	h.outcomes[digest] = outcome
}
