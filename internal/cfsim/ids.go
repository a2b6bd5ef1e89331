package cfsim

import (
	"crypto/sha256"
	"encoding/hex"
	"io"
	"math/rand/v2"
	"strconv"
	"sync"
)

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
