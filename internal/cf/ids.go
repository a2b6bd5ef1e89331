package cf

import (
	"net/url"

	"github.com/cloudfoundry/go-cfclient/v3/resource"
)

// markID is the annotation with the OSB id, percent-encoded: a name may be changed in
// Cloud Foundry, and some ids cannot be names. Rows of before have it in the latter case
// only.
const markID = "ferry-id"

// maxAnnotation is the length in characters that Cloud Foundry takes.
const maxAnnotation = 5000

// markWithID notes the id. One that is too long even for that is left out: look-ups do
// without it.
func markWithID(m *resource.Metadata, id string) {
	if encoded := url.QueryEscape(id); len(encoded) <= maxAnnotation {
		m.SetAnnotation("", markID, encoded)
	}
}

// idOf returns the OSB id of a marked row, and whether nothing but its name tells it. ok
// is false for a hash without the annotation that belongs to it.
func idOf(name string, m *resource.Metadata) (id string, byName, ok bool) {
	if m != nil && m.Annotations[markID] != nil {
		noted, err := url.QueryUnescape(*m.Annotations[markID])
		if err == nil && (noted != "" || name == Name("")) {
			return noted, false, true
		}
	}
	return name, true, !hashedName.MatchString(name)
}
