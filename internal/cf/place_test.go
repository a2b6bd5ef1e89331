package cf

import (
	"context"
	"testing"

	"github.com/ferry-broker/ferry/internal/broker"
)

// TestPlaceIsTheSameHoweverItIsWritten (docs/protocol.md 3.2): absence counts at home only, and home is one org of one
// Cloud Foundry, not the letters of an address.
func TestPlaceIsTheSameHoweverItIsWritten(t *testing.T) {
	t.Parallel()
	s := newStub(t, busyCloud)
	b := s.backend(t, func(c *Config) {
		c.API = s.URL + "/"
		c.FormerAPIs = []string{"https://API.old.example.org:443/"}
	})
	place := broker.Place{API: s.URL, OrgGUID: "org-guid"}
	if b.Same(place) {
		t.Error("a place is the same while the org is not known")
	}
	if got, err := b.Place(t.Context()); err != nil || got != place {
		t.Fatalf("place %+v, %v; want %+v", got, err, place)
	}
	for recorded, want := range map[broker.Place]bool{
		place: true,
		{API: "https://api.old.example.org", OrgGUID: "org-guid"}:   true,
		{API: "HTTPS://api.old.example.org/", OrgGUID: "org-guid"}:  true,
		{API: "http://api.old.example.org", OrgGUID: "org-guid"}:    false,
		{API: "https://api.other.example.org", OrgGUID: "org-guid"}: false,
		{API: s.URL, OrgGUID: "another"}:                            false,
		{API: s.URL}:                                                false,
		{}:                                                          false,
	} {
		if got := b.Same(recorded); got != want {
			t.Errorf("%+v is the same: %v, want %v", recorded, got, want)
		}
	}
	for written, want := range map[string]string{
		"https://Api.CF.example.org:443/": "https://api.cf.example.org",
		"HTTP://api.example.org:80":       "http://api.example.org",
		"https://api.example.org:80/v/":   "https://api.example.org:80/v",
		"https://[2001:DB8::1]:443":       "https://[2001:db8::1]",
		"https://[2001:DB8::1]:8443":      "https://[2001:db8::1]:8443",
	} {
		if got := canonicalAPI(written); got != want {
			t.Errorf("%s is written %s, want %s", written, got, want)
		}
	}
}

// TestLooksSayWhereTheyWereMade (docs/protocol.md 3.2).
func TestLooksSayWhereTheyWereMade(t *testing.T) {
	t.Parallel()
	s := newStub(t, busyCloud)
	want := broker.Place{API: s.URL, OrgGUID: "org-guid"}
	for name, find := range map[string]func(context.Context, *Backend) (broker.Look, error){
		"FindInstances": func(ctx context.Context, b *Backend) (broker.Look, error) { return b.FindInstances(ctx, "one") },
		"FindInstance":  func(ctx context.Context, b *Backend) (broker.Look, error) { return b.FindInstance(ctx, "g") },
		"FindKeys":      func(ctx context.Context, b *Backend) (broker.Look, error) { return b.FindKeys(ctx, "g", "k") },
	} {
		b := s.backend(t, nil)
		b.instances.flavors.learn(cloudController) // so that nothing else asks for the org
		if look, err := find(t.Context(), b); err != nil || look.Place != want || len(look.Rows) != 1 {
			t.Errorf("%s: %+v, %v; want a row at %+v", name, look, err, want)
		}
	}
}
