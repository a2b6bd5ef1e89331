package cf

import (
	"bytes"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/cloudfoundry/go-cfclient/v3/resource"
	"github.com/google/go-cmp/cmp"

	"github.com/ferry-broker/ferry/internal/broker"
)

func TestName(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("ü", 255)
	for _, id := range []string{"a", "a b", "a,b", "%2C", "ä/ö?#", "..", "ferry-", "ferry-a", "日本", long} {
		if got := nameOf(id); got != id {
			t.Errorf("nameOf(%q) = %q, want it verbatim", id, got)
		}
	}
	hashed := nameOf("")
	seen := map[string]string{}
	for _, id := range []string{
		"", " ", " a", "a ", "\ta", "a\n", "a\x00b", "a\x7f", "\u00a0a", "\xff", "a\xff", long + "ü", strings.Repeat("x", 256),
		hashed, nameOf(hashed),
	} {
		name := nameOf(id)
		if !hashedName.MatchString(name) {
			t.Errorf("nameOf(%q) = %q, want a hash", id, name)
		}
		if other, twice := seen[name]; twice {
			t.Errorf("%q and %q share name %q", id, other, name)
		}
		seen[name] = id
	}
	// The names of what runs must outlive every version of Ferry.
	if want := "ferry-4oymiquy7qobjgx36tejs35zeqt24qpemsnzgtfeswmrw6csxbkq"; hashed != want {
		t.Errorf(`nameOf("") = %q, want %q`, hashed, want)
	}
}

func FuzzNameIsInjectiveAndTakeable(f *testing.F) {
	f.Add("a", " a")
	f.Add("", "ferry-4oymiquy7qobjgx36tejs35zeqt24qpemsnzgtfeswmrw6csxbkq")
	f.Fuzz(func(t *testing.T, a, b string) {
		if a != b && nameOf(a) == nameOf(b) {
			t.Errorf("%q and %q share name %q", a, b, nameOf(a))
		}
		if name := nameOf(a); strings.TrimSpace(name) != name || name == "" || len([]rune(name)) > maxName {
			t.Errorf("nameOf(%q) = %q cannot be a name", a, name)
		}
	})
}

func TestMarksInKeyNamesAreReadBack(t *testing.T) {
	t.Parallel()
	const operation = "bind-0123456789abcdef0123456789abcdef"
	seen := map[string]string{}
	for _, id := range []string{
		"k", "k~ferry~bind-1~7", "a,b", " a", "", "\xff", "~", "x~1", strings.Repeat("ü", 255), strings.Repeat("x", 200),
		strings.Repeat("x", 201), strings.Repeat("x", 300),
	} {
		for _, op := range []string{operation, "bind~ferry~1", "a b"} {
			name := keyNameWithMarks(id, op, 1_700_000_000)
			if n := utf8.RuneCountInString(name); n > maxName || nameOf(name) != name {
				t.Errorf("keyNameWithMarks(%q) = %q, which is no name", id, name)
			}
			got, ok := readKeyName(name)
			if !ok || got.operation != op || got.seq != 1_700_000_000 || !got.isOf(id) {
				t.Errorf("%q is read as %+v, %v", name, got, ok)
			}
			if other, twice := seen[name]; twice {
				t.Errorf("%q and %q share name %q", id, other, name)
			}
			seen[name] = id
		}
	}
	if want := "k~ferry~bind-1~7"; keyNameWithMarks("k", "bind-1", 7) != want { // must outlive every version
		t.Errorf("keyNameWithMarks = %q, want %q", keyNameWithMarks("k", "bind-1", 7), want)
	}
}

func TestOtherNamesHaveNoMarks(t *testing.T) {
	t.Parallel()
	for _, name := range []string{
		"", "k", "~", "k~7", "~ferry~bind-1~7", "k~ferry~~7", "k~ferry~bind-1~", "k~ferry~bind-1~x", "k~ferry~bind-1~07",
		"k~ferry~bind-1", "k~ferry~%zz~7", "k~ferry~a~b~7",
	} {
		if got, ok := readKeyName(name); ok {
			t.Errorf("%q is read as %+v", name, got)
		}
	}
}

func FuzzMarksInKeyNames(f *testing.F) {
	f.Add("a", "bind-1", int64(1), "a~ferry~b~1", "bind-1", int64(1))
	f.Fuzz(func(t *testing.T, id1, op1 string, seq1 int64, id2, op2 string, seq2 int64) {
		if op1 == "" || op2 == "" || seq1 < 1 || seq2 < 1 { // no operation has such a number
			return
		}
		a, b := keyNameWithMarks(id1, op1, seq1), keyNameWithMarks(id2, op2, seq2)
		if a == b && (id1 != id2 || op1 != op2 || seq1 != seq2) {
			t.Errorf("(%q, %q, %d) and (%q, %q, %d) share %q", id1, op1, seq1, id2, op2, seq2, a)
		}
		if k, ok := readKeyName(a); !ok || k.operation != op1 || k.seq != seq1 || !k.isOf(id1) {
			t.Errorf("%q is read as %+v, %v", a, k, ok)
		}
	})
}

// TestIDsComeBack takes ids through the metadata of a create and back.
func TestIDsComeBack(t *testing.T) {
	t.Parallel()
	rows := rowReader{client: "suite"}
	for _, id := range []string{"a", "a,b", " a", "a ", "\xff\xfe", "tab\t", "", strings.Repeat("x", 1000), nameOf("")} {
		metadata := rows.createMetadata(id, broker.Marks{Operation: "create-1", Seq: 1})
		for _, name := range []string{nameOf(id), "renamed"} {
			if got, byName, ok := idOf(name, metadata); (got != id || byName || !ok) && (id != "" || name != "renamed") {
				t.Errorf("id %q of a row called %q comes back as %q, %v, %v", id, name, got, byName, ok)
			}
		}
	}
	endless := strings.Repeat("x", maxAnnotation+1)
	if got, _, ok := idOf(nameOf(endless), rows.createMetadata(endless, broker.Marks{})); ok {
		t.Errorf("an id that cannot be noted comes back as %q", got)
	}
	// Rows of before carry no id that can be a name.
	if got, byName, ok := idOf("a", resource.NewMetadata()); got != "a" || !byName || !ok {
		t.Errorf("%q, %v, %v; want the name, said to be one", got, byName, ok)
	}
}

// TestMarkedKnowsTrueIDs (docs/protocol.md 1): also of what was renamed; and what only a name tells is said to.
func TestMarkedKnowsTrueIDs(t *testing.T) {
	t.Parallel()
	const marks = `"labels":{"ferry-client":"suite"},"annotations":{"ferry-operation":"op","ferry-seq":"7"`
	instance := func(guid, name, more string) string {
		return `{"guid":"` + guid + `","name":"` + name + `","metadata":{` + marks + more + `}}}`
	}
	key := func(guid, name, of, more string) string {
		return `{"guid":"` + guid + `","name":"` + name + `","metadata":{` + marks + more + `}},
			"relationships":{"service_instance":{"data":{"guid":"` + of + `"}}}}`
	}
	s := newStub(t, func(w http.ResponseWriter, r *http.Request) {
		rows := []string{
			instance("g1", "one", ""), instance("g2", nameOf(" a"), `,"ferry-id":"+a"`), instance("g3", nameOf("lost"+" "), ""),
			`{"guid":"g4","name":"somebody's"}`, instance("g5", "renamed", `,"ferry-id":"five"`),
		}
		if r.URL.Path == "/v3/service_credential_bindings" {
			if got := r.URL.Query().Get("service_instance_guids"); got != "g1,g2,g5" {
				t.Errorf("asked for the keys of %s", got)
			}
			rows = []string{
				key("k1", "k", "g1", ""), key("k2", nameOf("\xff"), "g2", `,"ferry-id":"%FF"`), key("k3", nameOf("x "), "g2", ""),
				`{"guid":"k4","name":"theirs","relationships":{"service_instance":{"data":{"guid":"g1"}}}}`,
				key("k5", "k~ferry~bind-1~7", "g1", ""), // no Korifi: the name is all id
				key("k6", "other", "g5", `,"ferry-id":"six"`), key("k7", "k", "g5", ""),
			}
		}
		reply(w, 200, list(rows...))
	})
	var log bytes.Buffer
	b := s.backend(t, func(c *Config) { c.Logger = slog.New(slog.NewJSONHandler(&log, nil)) })
	got, err := b.Marked(t.Context())
	entry := func(instance, binding, guid string, byName bool) broker.Marked {
		return broker.Marked{Key: broker.Key{InstanceID: instance, BindingID: binding}, GUID: guid, ByName: byName, Operation: "op", Seq: 7}
	}
	want := []broker.Marked{
		entry("one", "", "g1", true), entry(" a", "", "g2", false), entry("five", "", "g5", false),
		entry("one", "k", "k1", true), entry(" a", "\xff", "k2", false), entry("one", "k~ferry~bind-1~7", "k5", true),
		entry("five", "six", "k6", false), entry("five", "k", "k7", true),
	}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	lines := strings.Count(log.String(), `"level":"INFO"`)
	if lines != 2 || !strings.Contains(log.String(), "g3") || !strings.Contains(log.String(), "k3") {
		t.Errorf("%d lines of log, want one for g3 and one for k3:\n%s", lines, log.String())
	}
	if n := s.count("GET /v3/service_credential_bindings"); n != 1 {
		t.Errorf("%d calls for the keys, want 1", n)
	}
}
