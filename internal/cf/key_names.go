package cf

import (
	"net/url"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/ferry-broker/ferry/internal/broker"
)

// looseMark stands between the two halves of a key's name that carries its
// operation.
const looseMark = "~ferry~"

// LooseKeyName returns the name of a key where Cloud Foundry takes no marks on keys
// (Korifi): Name(bindingID), "~ferry~", the operation percent-encoded, "~" and the
// sequence number. Two different (binding, operation, seq) never share a name, since
// neither of the last two parts holds a tilde. Where that is longer than 255
// characters, the hash stands for the binding's id, as Name makes it.
func LooseKeyName(bindingID, operation string, seq int64) string {
	rest := looseMark + strings.ReplaceAll(url.QueryEscape(operation), "~", "%7E") + "~" + strconv.FormatInt(seq, 10)
	stem := Name(bindingID)
	if utf8.RuneCountInString(stem)+len(rest) > maxName {
		stem = hashOf(bindingID)
	}
	return stem + rest
}

// looseKey is what a name made by LooseKeyName says.
type looseKey struct {
	stem      string
	operation string
	seq       int64
}

// readLooseKey takes a name apart from its end, as the stem may be anything.
func readLooseKey(name string) (looseKey, bool) {
	at := strings.LastIndex(name, "~")
	if at < 0 {
		return looseKey{}, false
	}
	front, digits := name[:at], name[at+1:]
	at = strings.LastIndex(front, looseMark)
	if at <= 0 {
		return looseKey{}, false
	}
	k := looseKey{stem: front[:at]}
	encoded := front[at+len(looseMark):]
	var err error
	if k.operation, err = url.QueryUnescape(encoded); err != nil || k.operation == "" || strings.Contains(encoded, "~") {
		return looseKey{}, false
	}
	seq, ok := readSeq(digits)
	if !ok || strconv.FormatInt(seq, 10) != digits {
		return looseKey{}, false
	}
	k.seq = seq
	return k, true
}

// isOf reports whether the key stands for the binding.
func (k looseKey) isOf(bindingID string) bool {
	return k.stem == Name(bindingID) || k.stem == hashOf(bindingID)
}

// looseRow reads the marks of a key's name into its row.
func looseRow(row broker.Row, name *string) broker.Row {
	if name == nil || row.Marked {
		return row
	}
	if k, ok := readLooseKey(*name); ok {
		row.Marked, row.Operation, row.Seq, row.MarkedByName = true, k.operation, k.seq, true
	}
	return row
}
