package cf

import (
	"crypto/sha256"
	"encoding/base32"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/ferry-broker/ferry/internal/broker"
)

// maxName is the length in characters that Cloud Foundry takes.
const maxName = 255

// hashedName is the form of a name that stands for an id which cannot be a name.
var hashedName = regexp.MustCompile(`^ferry-[a-z2-7]{52}$`)

// nameOf returns the name in Cloud Foundry of the instance, key or space with this id: the id itself wherever Cloud
// Foundry keeps it as it is, else "ferry-" and the SHA-256 of the id in lower-case base32. The latter goes for ids that
// are empty, longer than 255 characters, not UTF-8, begin or end with a blank (which Cloud Foundry strips), hold a
// control character, or have the form of such a name already. Two ids never share a name, and an id has the same name
// for ever.
func nameOf(id string) string {
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

// marksBegin stands between the two halves of a key's name that carries its operation.
const marksBegin = "~ferry~"

// keyNameWithMarks returns the name of a key where Cloud Foundry takes no marks on keys (Korifi): nameOf(bindingID),
// "~ferry~", the operation percent-encoded, "~" and the sequence number. Two different (binding, operation, seq) never
// share a name, since neither of the last two parts holds a tilde. Where that is longer than 255 characters, the hash
// stands for the binding's id, as nameOf makes it.
func keyNameWithMarks(bindingID, operation string, seq int64) string {
	rest := marksBegin + strings.ReplaceAll(url.QueryEscape(operation), "~", "%7E") + "~" + strconv.FormatInt(seq, 10)
	stem := nameOf(bindingID)
	if utf8.RuneCountInString(stem)+len(rest) > maxName {
		stem = hashOf(bindingID)
	}
	return stem + rest
}

// keyName is what a name made by keyNameWithMarks says.
type keyName struct {
	stem      string
	operation string
	seq       int64
}

// readKeyName takes a name apart from its end, as the stem may be anything.
func readKeyName(name string) (keyName, bool) {
	at := strings.LastIndex(name, "~")
	if at < 0 {
		return keyName{}, false
	}
	front, digits := name[:at], name[at+1:]
	at = strings.LastIndex(front, marksBegin)
	if at <= 0 {
		return keyName{}, false
	}
	k := keyName{stem: front[:at]}
	encoded := front[at+len(marksBegin):]
	var err error
	if k.operation, err = url.QueryUnescape(encoded); err != nil || k.operation == "" || strings.Contains(encoded, "~") {
		return keyName{}, false
	}
	seq, ok := readSeq(digits)
	if !ok || strconv.FormatInt(seq, 10) != digits {
		return keyName{}, false
	}
	k.seq = seq
	return k, true
}

// isOf reports whether the key stands for the binding.
func (k keyName) isOf(bindingID string) bool {
	return k.stem == nameOf(bindingID) || k.stem == hashOf(bindingID)
}

// withMarksOfName reads the marks of a key's name into its row.
func withMarksOfName(row broker.Row, name *string) broker.Row {
	if name == nil || row.Marked {
		return row
	}
	if k, ok := readKeyName(*name); ok {
		row.Marked, row.Operation, row.Seq, row.MarkedByName = true, k.operation, k.seq, true
	}
	return row
}
