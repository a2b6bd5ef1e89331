package cf

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"github.com/cloudfoundry/go-cfclient/v3/resource"
	"github.com/google/go-cmp/cmp"

	"github.com/ferry-broker/ferry/internal/broker"
)

// TestIDsComeBack takes ids through the metadata of a create and back.
func TestIDsComeBack(t *testing.T) {
	t.Parallel()
	s := newStub(t, accept)
	b := s.backend(t, nil)
	for _, id := range []string{"a", "a,b", " a", "a ", "\xff\xfe", "tab\t", "", strings.Repeat("x", 1000), nameOf("")} {
		metadata := b.instances.rows.createMetadata(id, broker.Marks{Operation: "create-1", Seq: 1})
		for _, name := range []string{nameOf(id), "renamed"} {
			if got, byName, ok := idOf(name, metadata); (got != id || byName || !ok) && (id != "" || name != "renamed") {
				t.Errorf("id %q of a row called %q comes back as %q, %v, %v", id, name, got, byName, ok)
			}
		}
	}
	endless := strings.Repeat("x", maxAnnotation+1)
	if got, _, ok := idOf(nameOf(endless), b.instances.rows.createMetadata(endless, broker.Marks{})); ok {
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
		reply(w, 200, `{"pagination":{"next":null},"resources":[`+strings.Join(rows, ",")+`]}`)
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

func TestStrangeIDIsNotedInTheCreate(t *testing.T) {
	t.Parallel()
	s := newStub(t, accept)
	call := testCall()
	call.Name = "a\x00b"
	_, _ = s.backend(t, nil).CreateInstance(t.Context(), call)
	var sent struct{ Metadata resource.Metadata }
	if err := json.Unmarshal([]byte(s.lastBody("POST /v3/service_instances")), &sent); err != nil {
		t.Fatal(err)
	}
	if got := annotation(&sent.Metadata, markID); got != "a%00b" {
		t.Errorf("ferry-id %q, want the id percent-encoded", got)
	}
}
