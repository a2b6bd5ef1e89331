package setup

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ferry-broker/ferry/internal/api"
	"github.com/ferry-broker/ferry/internal/config"
)

func TestBackends(t *testing.T) {
	t.Parallel()
	c := config.Demo()
	c.Clients[0].CloudFoundry.API = "https://api.example.org"
	backends, err := Backends(c, slog.New(slog.DiscardHandler), nil)
	if err != nil || len(backends) != 1 || backends["demo"] == nil {
		t.Errorf("%v, %v; want one for demo", backends, err)
	}
	c.Clients[0].CloudFoundry.CA = []byte("no certificate")
	if _, err := Backends(c, slog.New(slog.DiscardHandler), nil); err == nil || !strings.HasPrefix(err.Error(), "client demo: ") {
		t.Errorf("error %v, want one that names the client", err)
	}
}

func TestCatalogReadsNothingYet(t *testing.T) {
	t.Parallel()
	c := config.Demo()
	c.Clients[0].CloudFoundry.API = "https://api.example.org"
	backends, err := Backends(c, slog.New(slog.DiscardHandler), nil)
	if err != nil {
		t.Fatal(err)
	}
	// A nil store would panic at the first use.
	if Catalog(c, backends, nil, nil, nil).Ready("demo") {
		t.Error("a catalog is known that nobody read")
	}
}

func TestClients(t *testing.T) {
	t.Parallel()
	got := Clients([]config.Client{{
		Name: "a", CatalogRefresh: time.Minute, ConcurrentRequests: 9, Quirks: config.Quirks{MissingVersion: 412, FinishedDelete: 410},
		Credentials: []config.Credential{{Username: "u", Password: "p"}, {Username: "u", PasswordHash: "h"}},
	}})
	want := []api.Client{{
		Name: "a", MissingVersion: 412, FinishedDelete: 410, ConcurrentRequests: 9,
		Credentials: []api.Credential{{Username: "u", Password: "p"}, {Username: "u", PasswordHash: "h"}},
	}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
