package api

import (
	"errors"
	"regexp"
	"slices"
	"strings"
)

// BasePath is what stands before /v2 in the paths that reach this broker: a gateway
// or an ingress in front of it may keep the prefix under which platforms know it.
// The zero value is none. Make others with [ParseBasePath].
type BasePath struct {
	text string
	// segments are decoded, as those of a request.
	segments []string
}

// maxBasePath bounds a base path, which descriptions repeat.
const maxBasePath = 200

// pathText is what may stand in a path, "%" only before two hexadecimal digits.
var pathText = regexp.MustCompile(`^(?:/(?:[A-Za-z0-9._~!$&'()*+,;=:@-]|%[0-9A-Fa-f]{2})+)+$`)

var errBasePath = errors.New("must be a path such as /broker: a slash before each part, no part empty, . or .., percent-encoded, 200 bytes at most")

// ParseBasePath reads a base path. Slashes at its end do not count; "" and "/" are
// none. The error says what it must be, without a name before it.
func ParseBasePath(text string) (BasePath, error) {
	trimmed := strings.TrimRight(text, "/")
	if trimmed == "" {
		return BasePath{}, nil
	}
	parts, ok := segments(trimmed)
	if !ok || len(trimmed) > maxBasePath || !pathText.MatchString(trimmed) {
		return BasePath{}, errBasePath
	}
	return BasePath{text: trimmed, segments: parts}, nil
}

// String returns the path as it stands in URLs, with a slash before and none behind
// it; "" for none.
func (b BasePath) String() string { return b.text }

// cut returns what follows the base path in a request's path, nil when the request
// is for another place or nothing follows.
func (b BasePath) cut(path []string) []string {
	n := len(b.segments)
	if len(path) <= n || !slices.Equal(path[:n], b.segments) {
		return nil
	}
	return path[n:]
}

// plainPath is what a description repeats of a path that somebody else wrote.
var plainPath = regexp.MustCompile(`^(?:/[A-Za-z0-9._~-]+)+$`)

// registration says by which URL to register this broker, for whom has sent a request
// to a path that is not its own, still encoded.
func (b BasePath) registration(escaped string) string {
	if b.text != "" {
		return "Register this broker by the URL of its host followed by " + b.text + ", without /v2, and percent-encode ids in paths."
	}
	prefix, _, found := strings.Cut(escaped, "/v2/")
	if _, err := ParseBasePath(prefix); !found || err != nil || !plainPath.MatchString(prefix) {
		return "Register this broker by its URL without /v2, and percent-encode ids in paths."
	}
	return "Register this broker by its URL without " + prefix + " and without /v2. Where a gateway keeps " + prefix +
		" in the path, its operator sets that as the base path (ferry serve --base-path " + prefix + "; on AWS the parameter BasePath)."
}
