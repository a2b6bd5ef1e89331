package cf

import (
	"net/url"

	"github.com/cloudfoundry/go-cfclient/v3/resource"
)

// markID is the annotation with the OSB id, percent-encoded, of what has another
// name.
const markID = "ferry-id"

// maxAnnotation is the length in characters that Cloud Foundry takes.
const maxAnnotation = 5000

// markWithID notes the id where the name does not tell it. An id that is too long
// even for that is left out: look-ups do without it.
func markWithID(m *resource.Metadata, id string) {
	if encoded := url.QueryEscape(id); Name(id) != id && len(encoded) <= maxAnnotation {
		m.SetAnnotation("", markID, encoded)
	}
}

// idOf returns the OSB id that the name stands for. It is false for a hash without
// the annotation that belongs to it.
func idOf(name string, m *resource.Metadata) (string, bool) {
	if !hashedName.MatchString(name) {
		return name, true
	}
	if m == nil || m.Annotations[markID] == nil {
		return "", false
	}
	id, err := url.QueryUnescape(*m.Annotations[markID])
	return id, err == nil && Name(id) == name
}
