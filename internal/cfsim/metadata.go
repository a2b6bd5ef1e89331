package cfsim

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"
)

// Limits of labels and annotations.
const (
	maxLabels          = 50
	maxAnnotations     = 200
	maxKeyPrefix       = 253
	maxKeyName         = 63
	maxLabelValue      = 63
	maxAnnotationValue = 5000
	reservedPrefix     = "cloudfoundry.org"
)

// pair is one label or annotation.
type pair struct {
	key, value string
}

// pairs are labels or annotations, sorted by key. A value is never changed in place, so that it may be read without a
// lock; and it is smaller than a map.
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

func limitExceeded(code int, title, what string, n, limit int) error {
	return failure(http.StatusUnprocessableEntity, code, title, fmt.Sprintf("Failed to add %d %s because it would exceed maximum of %d", n, what, limit))
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

var (
	keyAlphabet = regexp.MustCompile(`^[A-Za-z0-9_.-]+$`)
	keyEnds     = regexp.MustCompile(`^[A-Za-z0-9](.*[A-Za-z0-9])?$`)
	dnsPrefix   = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?(\.[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?)+$`)
)

// parseMetadata reads the "metadata" of a request and lists what is wrong with it.
func parseMetadata(raw json.RawMessage) (metadataPatch, []string) {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(raw, &fields); err != nil || fields == nil {
		return metadataPatch{}, []string{"Metadata must be an object"}
	}
	var patch metadataPatch
	var problems []string
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		var more []string
		switch name {
		case "labels":
			patch.labels, more = parsePairs(fields[name], "label", labelValueProblem)
		case "annotations":
			patch.annotations, more = parsePairs(fields[name], "annotation", annotationValueProblem)
		default:
			more = []string{"Metadata has unexpected field(s): '" + name + "'"}
		}
		problems = append(problems, more...)
	}
	return patch, problems
}

func parsePairs(raw json.RawMessage, what string, valueProblem func(string) string) (map[string]*string, []string) {
	var values map[string]any
	if err := json.Unmarshal(raw, &values); err != nil {
		return nil, []string{"Metadata '" + what + "s' is not an object"}
	}
	patch := make(map[string]*string, len(values))
	var problems []string
	for _, key := range slices.Sorted(maps.Keys(values)) {
		text, isText := values[key].(string)
		switch {
		case values[key] == nil:
			patch[key] = nil
		case !isText:
			problems = append(problems, "Metadata "+what+" value error: '"+key+"' must be a string")
			continue
		default:
			patch[key] = &text
			if problem := valueProblem(text); problem != "" {
				problems = append(problems, "Metadata "+what+" value error: "+problem)
			}
		}
		// A real Cloud Controller does not look at the key of an annotation that has no value.
		if what == "annotation" && text == "" {
			continue
		}
		if problem := keyProblem(key); problem != "" {
			problems = append(problems, "Metadata "+what+" key error: "+problem)
		}
	}
	return patch, problems
}

// keyProblem checks [prefix/]name.
func keyProblem(key string) string {
	parts := strings.Split(key, "/")
	name := parts[len(parts)-1]
	switch {
	case len(parts) > 2:
		return "key has more than one '/'"
	case len(parts) == 2 && len(parts[0]) > maxKeyPrefix:
		return "prefix '" + shortened(parts[0]) + "' is greater than 253 characters"
	case len(parts) == 2 && !dnsPrefix.MatchString(parts[0]):
		return "prefix '" + parts[0] + "' must be in valid dns format"
	case len(parts) == 2 && strings.EqualFold(parts[0], reservedPrefix):
		return "prefix '" + parts[0] + "' is reserved"
	case name == "":
		return "key cannot be empty string"
	case len(name) > maxKeyName:
		return "'" + shortened(name) + "' is greater than 63 characters"
	}
	return alphabetProblem(name)
}

func labelValueProblem(value string) string {
	switch {
	case value == "":
		return ""
	case len(value) > maxLabelValue:
		return "'" + shortened(value) + "' is greater than 63 characters"
	}
	return alphabetProblem(value)
}

func annotationValueProblem(value string) string {
	if utf8.RuneCountInString(value) > maxAnnotationValue {
		return "'" + shortened(value) + "' is greater than 5000 characters"
	}
	return ""
}

func alphabetProblem(text string) string {
	switch {
	case !keyAlphabet.MatchString(text):
		return "'" + text + "' contains invalid characters"
	case !keyEnds.MatchString(text):
		return "'" + text + "' starts or ends with invalid characters"
	}
	return ""
}

func shortened(text string) string {
	if runes := []rune(text); len(runes) > 8 {
		return string(runes[:8]) + "..."
	}
	return text
}
