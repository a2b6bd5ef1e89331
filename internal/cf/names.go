package cf

import (
	"crypto/sha256"
	"encoding/base32"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxName is the length in characters that Cloud Foundry takes.
const maxName = 255

// hashedName is the form of a name that stands for an id which cannot be a name.
var hashedName = regexp.MustCompile(`^ferry-[a-z2-7]{52}$`)

// Name returns the name in Cloud Foundry of the instance, key or space with this
// id: the id itself wherever Cloud Foundry keeps it as it is, else "ferry-" and the
// SHA-256 of the id in lower-case base32. The latter goes for ids that are empty,
// longer than 255 characters, not UTF-8, begin or end with a blank (which Cloud
// Foundry strips), hold a control character, or have the form of such a name
// already. Two ids never share a name, and an id has the same name for ever.
func Name(id string) string {
	if nameable(id) {
		return id
	}
	return hashOf(id)
}

func hashOf(id string) string {
	sum := sha256.Sum256([]byte(id))
	encoded := base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(sum[:])
	return "ferry-" + strings.ToLower(encoded)
}

func nameable(id string) bool {
	return id != "" &&
		utf8.ValidString(id) &&
		utf8.RuneCountInString(id) <= maxName &&
		strings.TrimSpace(id) == id &&
		strings.IndexFunc(id, unicode.IsControl) < 0 &&
		!hashedName.MatchString(id)
}
