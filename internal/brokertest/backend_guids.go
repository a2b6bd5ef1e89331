package brokertest

import (
	"context"
	"slices"
	"testing"

	"github.com/ferry-broker/ferry/internal/broker"
)

// wantGUIDs fails unless a look finds exactly these rows, each once.
func wantGUIDs(t *testing.T, what string, look broker.Look, err error, want ...string) {
	t.Helper()
	var got []string
	for _, r := range look.Rows {
		got = append(got, r.GUID)
	}
	slices.Sort(got)
	slices.Sort(want)
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("%s finds %q, %v; want %q", what, got, err, want)
	}
}

// marked fails unless the inventory lists the row under this key.
func (h BackendHarness) marked(t *testing.T, guid string, want broker.Key) {
	t.Helper()
	list, err := h.Backend.Marked(t.Context())
	i := slices.IndexFunc(list, func(m broker.Marked) bool { return m.GUID == guid })
	if err != nil || i < 0 || list[i].Key != want {
		t.Errorf("Marked = %+v, %v; want %s as %+v", list, err, guid, want)
	}
}

func instanceFoundByGUID(t *testing.T, h BackendHarness) {
	one, two := h.instance(t, "one"), h.instance(t, "two")
	find := func(name string, guids ...string) (broker.Look, error) {
		return h.Backend.FindInstances(broker.WithOffering(t.Context(), h.Offering), name, guids...)
	}
	look, err := find("one", one.GUID)
	wantGUIDs(t, "its name and GUID", look, err, one.GUID)
	look, err = find("one", two.GUID, two.GUID, nowhere, "")
	wantGUIDs(t, "a name and another's GUID", look, err, one.GUID, two.GUID)
	h.Rename(t, one.GUID, "renamed")
	look, err = find("one")
	wantGUIDs(t, "the former name", look, err)
	look, err = find("one", nowhere, one.GUID)
	wantGUIDs(t, "the former name and the GUID", look, err, one.GUID)
	if err == nil && (!look.Rows[0].Marked || look.Rows[0].Operation != "create-one") {
		t.Errorf("row %+v; want its marks kept", look.Rows[0])
	}
	h.marked(t, one.GUID, broker.Key{InstanceID: "one"})
	answer, err := h.Backend.DeleteInstance(t.Context(), one.GUID)
	h.settle(t, answer, err)
	look, err = find("one", one.GUID)
	wantGUIDs(t, "what is gone", look, err)
}

func keyFoundByGUID(t *testing.T, h BackendHarness) {
	instance, other := h.instance(t, "one"), h.instance(t, "two")
	k, theirs := h.key(t, instance.GUID, "k"), h.key(t, other.GUID, "k")
	find := func(name string, guids ...string) (broker.Look, error) {
		return h.Backend.FindKeys(broker.WithOffering(t.Context(), h.Offering), instance.GUID, name, guids...)
	}
	look, err := find("another", k.GUID)
	wantGUIDs(t, "another name and the GUID", look, err, k.GUID)
	look, err = find("k", k.GUID, theirs.GUID, nowhere)
	wantGUIDs(t, "the GUID of another instance's key", look, err, k.GUID)
	if h.RenameKey == nil {
		return
	}
	h.RenameKey(t, k.GUID, "renamed")
	look, err = find("k", k.GUID)
	wantGUIDs(t, "the former name and the GUID", look, err, k.GUID)
	h.marked(t, k.GUID, broker.Key{InstanceID: "one", BindingID: "k"})
}

func lookSaysWhere(t *testing.T, h BackendHarness) {
	row := h.instance(t, "one")
	place, err := h.Backend.Place(t.Context())
	if err != nil || place.API == "" || place.OrgGUID == "" {
		t.Fatalf("Place = %+v, %v; want both parts", place, err)
	}
	for what, find := range map[string]func(context.Context) (broker.Look, error){
		"FindInstances": func(ctx context.Context) (broker.Look, error) { return h.Backend.FindInstances(ctx, "one") },
		"FindInstance":  func(ctx context.Context) (broker.Look, error) { return h.Backend.FindInstance(ctx, row.GUID) },
		"FindKeys":      func(ctx context.Context) (broker.Look, error) { return h.Backend.FindKeys(ctx, row.GUID, "never-was") },
	} {
		if look, err := find(t.Context()); err != nil || look.Place != place {
			t.Errorf("%s looked at %+v, %v; want %+v", what, look.Place, err, place)
		}
	}
	for at, want := range map[broker.Place]bool{
		place: true, {}: false,
		{API: place.API, OrgGUID: "another"}:                     false,
		{API: "https://another.example", OrgGUID: place.OrgGUID}: false,
	} {
		if got := h.Backend.Same(at); got != want {
			t.Errorf("Same(%+v) = %v, want %v", at, got, want)
		}
	}
}

// acceptedNamesItsRow: a GUID that an answer or a job tells is that of the row.
func acceptedNamesItsRow(t *testing.T, h BackendHarness) {
	answer, err := h.Backend.CreateInstance(t.Context(), h.instanceCall("one"))
	h.settle(t, answer, err)
	row := h.one(t, "one")
	if answer.GUID != "" && answer.GUID != row.GUID {
		t.Errorf("the answer names %q, the row is %q", answer.GUID, row.GUID)
	}
	if answer.Job == "" {
		return
	}
	if job, err := h.Backend.Job(t.Context(), answer.Job); err != nil || job.GUID != "" && job.GUID != row.GUID {
		t.Errorf("the job names %q, %v; the row is %q", job.GUID, err, row.GUID)
	}
}
