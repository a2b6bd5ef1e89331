package cfsim

import (
	"bytes"
	"slices"
	"strings"
)

// pair is one label or annotation.
type pair struct {
	key, value string
}

// pairs are labels or annotations, sorted by key. A value is never changed in
// place, so that it may be read without a lock; and it is smaller than a map.
type pairs []pair

func (p pairs) get(key string) (string, bool) {
	i, found := slices.BinarySearchFunc(p, key, func(e pair, key string) int { return strings.Compare(e.key, key) })
	if !found {
		return "", false
	}
	return p[i].value, true
}

// merged returns p with a patch applied: nil removes a key.
func (p pairs) merged(patch map[string]*string) pairs {
	if len(patch) == 0 {
		return p
	}
	result := make(pairs, 0, len(p)+len(patch))
	for _, old := range p {
		if _, touched := patch[old.key]; !touched {
			result = append(result, old)
		}
	}
	for key, value := range patch {
		if value != nil {
			result = append(result, pair{key, *value})
		}
	}
	slices.SortFunc(result, func(a, b pair) int { return strings.Compare(a.key, b.key) })
	return slices.Clip(result)
}

// MarshalJSON writes an object, {} when there is nothing.
func (p pairs) MarshalJSON() ([]byte, error) {
	var buffer bytes.Buffer
	buffer.WriteByte('{')
	for i, e := range p {
		if i > 0 {
			buffer.WriteByte(',')
		}
		key, err := encode(e.key)
		if err != nil {
			return nil, err
		}
		value, err := encode(e.value)
		if err != nil {
			return nil, err
		}
		buffer.Write(key)
		buffer.WriteByte(':')
		buffer.Write(value)
	}
	buffer.WriteByte('}')
	return buffer.Bytes(), nil
}

// metadata is what a resource carries for its users.
type metadata struct {
	Labels      pairs `json:"labels"`
	Annotations pairs `json:"annotations"`
}

// metadataPatch is the metadata of a request; nil values remove a key.
type metadataPatch struct {
	labels, annotations map[string]*string
}

// applied returns m with the patch, or the error of a limit that it breaks.
func (m metadata) applied(p metadataPatch) (metadata, error) {
	result := metadata{Labels: m.Labels.merged(p.labels), Annotations: m.Annotations.merged(p.annotations)}
	if len(result.Labels) > maxLabels {
		return m, limitExceeded(390020, "CF-LabelLimitExceeded", "labels", added(p.labels), maxLabels)
	}
	if len(result.Annotations) > maxAnnotations {
		return m, limitExceeded(390023, "CF-AnnotationLimitExceeded", "annotations", added(p.annotations), maxAnnotations)
	}
	return result, nil
}

func added(patch map[string]*string) int {
	n := 0
	for _, value := range patch {
		if value != nil {
			n++
		}
	}
	return n
}
