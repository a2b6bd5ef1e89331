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
	for _, id := range []string{"a", "a,b", " a", "a ", "\xff\xfe", "tab\t", "", strings.Repeat("x", 1000), Name("")} {
		metadata := b.createMetadata(id, broker.Marks{Operation: "create-1", Seq: 1})
		if _, noted := metadata.Annotations[markID]; noted != (Name(id) != id) {
			t.Errorf("id %q: annotation %v", id, noted)
		}
		if got, ok := idOf(Name(id), metadata); got != id || !ok {
			t.Errorf("id %q comes back as %q, %v", id, got, ok)
		}
	}
	endless := strings.Repeat("x", maxAnnotation+1)
	if got, ok := idOf(Name(endless), b.createMetadata(endless, broker.Marks{})); ok {
		t.Errorf("an id that cannot be noted comes back as %q", got)
	}
	wrong := resource.NewMetadata().WithAnnotation("", markID, "other")
	if got, ok := idOf(Name(" a"), wrong); ok {
		t.Errorf("another's id is believed: %q", got)
	}
}

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
			instance("g1", "one", ""), instance("g2", Name(" a"), `,"ferry-id":"+a"`), instance("g3", Name("lost"+" "), ""),
			`{"guid":"g4","name":"somebody's"}`,
		}
		if r.URL.Path == "/v3/service_credential_bindings" {
			if got := r.URL.Query().Get("service_instance_guids"); got != "g1,g2" {
				t.Errorf("asked for the keys of %s", got)
			}
			rows = []string{
				key("k1", "k", "g1", ""), key("k2", Name("\xff"), "g2", `,"ferry-id":"%FF"`), key("k3", Name("x "), "g2", ""),
				`{"guid":"k4","name":"theirs","relationships":{"service_instance":{"data":{"guid":"g1"}}}}`,
				key("k5", "k~ferry~bind-1~7", "g1", ""), // no Korifi: the name is all id
			}
		}
		reply(w, 200, `{"pagination":{"next":null},"resources":[`+strings.Join(rows, ",")+`]}`)
	})
	var log bytes.Buffer
	b := s.backend(t, func(c *Config) { c.Logger = slog.New(slog.NewJSONHandler(&log, nil)) })
	got, err := b.Marked(t.Context())
	entry := func(instance, binding, guid string) broker.Marked {
		return broker.Marked{Key: broker.Key{InstanceID: instance, BindingID: binding}, GUID: guid, Operation: "op", Seq: 7}
	}
	want := []broker.Marked{
		entry("one", "", "g1"), entry(" a", "", "g2"), entry("one", "k", "k1"), entry(" a", "\xff", "k2"),
		entry("one", "k~ferry~bind-1~7", "k5"),
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
