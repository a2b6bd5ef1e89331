package api

import (
	"encoding/base64"
	"encoding/json"
	"net/http"
	"strings"

	"github.com/ferry-broker/ferry/internal/osb"
)

const (
	// maxEcho bounds the request identity in answers and logs; gateways refuse
	// answers whose headers are too large.
	maxEcho = 1024
	// maxOriginator bounds the originating identity, which is kept in records.
	maxOriginator = 16 << 10
)

// echo returns the request identity in the form in which it goes back: several
// values joined by the comma at which a gateway may have split them, no control
// characters, which could end the header early, and bounded.
func echo(header http.Header) string {
	values := header.Values(osb.RequestIdentityHeader)
	if len(values) == 0 {
		return ""
	}
	text := strings.Join(values, ",")
	if len(text) <= maxEcho && strings.IndexFunc(text, unprintable) < 0 {
		return strings.TrimSpace(text)
	}
	clean := make([]byte, 0, maxEcho)
	for _, c := range []byte(text) {
		if len(clean) < maxEcho && (c >= ' ' && c != 0x7f || c == '\t') {
			clean = append(clean, c)
		}
	}
	return strings.TrimSpace(string(clean))
}

func unprintable(r rune) bool { return r != '\t' && (r < ' ' || r == 0x7f) }

// noteOriginator takes the originating identity as it came (spec "Originating
// Identity"). It decides nothing, so one that cannot be read is noted for the log
// and passed on (osb-choices C4); one too large to be kept is left out.
func noteOriginator(e *exchange) {
	value := strings.Join(e.request.Header.Values(osb.OriginatingIdentityHeader), ",")
	if value == "" {
		return
	}
	id, ok := originatorID(value)
	e.badOriginator = !ok
	e.originatorID = id
	if len(value) <= maxOriginator {
		e.originator = value
	}
}

// originatorID returns the user's id from a platform, one space and the Base64 of a
// JSON object: user_id for Cloud Foundry, uid for Kubernetes, empty when it has
// neither. It is not ok when the value is of another form.
func originatorID(value string) (id string, ok bool) {
	platform, encoded, found := strings.Cut(value, " ")
	if !found || platform == "" || len(value) > maxOriginator {
		return "", false
	}
	// Some platforms leave the padding out.
	text, err := base64.RawStdEncoding.DecodeString(strings.TrimRight(encoded, "="))
	if err != nil {
		return "", false
	}
	var object map[string]json.RawMessage
	if json.Unmarshal(text, &object) != nil || object == nil {
		return "", false
	}
	for _, name := range []string{"user_id", "uid"} {
		if json.Unmarshal(object[name], &id) == nil && id != "" {
			return id, true
		}
	}
	return "", true
}

// apiInfoLocation is where a Cloud Foundry platform says that its API is.
func (e *exchange) apiInfoLocation() string {
	value := e.request.Header.Get(osb.APIInfoLocationHeader)
	return value[:min(len(value), maxEcho)]
}
