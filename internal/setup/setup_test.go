package setup

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ferry-broker/ferry/internal/api"
	"github.com/ferry-broker/ferry/internal/brokertest"
	"github.com/ferry-broker/ferry/internal/config"
)

// pinged is a store that may be out of order.
type pinged struct {
	*brokertest.MemoryStore
	fault error
}

func (s *pinged) Ping(context.Context) error { return s.fault }

// demo is the demo client's configuration with a Cloud Foundry that nobody reaches.
func demo() config.Config {
	c := config.Demo()
	c.Clients[0].CloudFoundry.API = "https://api.example.org"
	return c
}

func TestACertificateThatIsNoneIsRefused(t *testing.T) {
	t.Parallel()
	c := demo()
	c.Clients[0].CloudFoundry.CA = []byte("no certificate")
	if _, err := New(c, Parts{Logger: slog.New(slog.DiscardHandler)}); err == nil || !strings.HasPrefix(err.Error(), "client demo: ") {
		t.Errorf("error %v, want one that names the client", err)
	}
}

// TestReadiness: the answer names the part that is missing, and nothing was read before somebody asks.
func TestReadiness(t *testing.T) {
	t.Parallel()
	store := &pinged{MemoryStore: brokertest.NewMemoryStore(time.Now)}
	a, err := New(demo(), Parts{Store: store, Now: time.Now, Logger: slog.New(slog.DiscardHandler), Process: NewProcessName()})
	if err != nil {
		t.Fatal(err)
	}
	known := a.Catalog.Ready("demo")
	handler := a.Handler(Border{CatalogKnown: func(_ context.Context, client string) bool { return known && client == "demo" }})
	for _, test := range []struct {
		fault  error
		known  bool
		status int
		body   string
	}{
		{errors.New("s3cr3t"), true, http.StatusServiceUnavailable, "store: it cannot be read"},
		{nil, known, http.StatusServiceUnavailable, "catalog: none is known yet, because Cloud Foundry was not reached"},
		{nil, true, http.StatusOK, ""},
	} {
		store.fault, known = test.fault, test.known
		answer := httptest.NewRecorder()
		handler.ServeHTTP(answer, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/readyz", nil))
		if answer.Code != test.status || !strings.Contains(answer.Body.String(), test.body) || strings.Contains(answer.Body.String(), "s3cr3t") {
			t.Errorf("%d %s, want %d with %q", answer.Code, answer.Body, test.status, test.body)
		}
	}
}

func TestClients(t *testing.T) {
	t.Parallel()
	got := clients([]config.Client{{
		Name: "a", CatalogRefresh: time.Minute, ConcurrentRequests: 9, Quirks: config.Quirks{MissingVersion: 412, FinishedDelete: 410},
		Credentials: []config.Credential{{Username: "u", Password: config.NewSecret("p")}, {Username: "u", PasswordHash: config.NewSecret("h")}},
	}})
	want := []api.Client{{
		Name: "a", MissingVersion: 412, FinishedDelete: 410, ConcurrentRequests: 9,
		Credentials: []api.Credential{{Username: "u", Password: "p"}, {Username: "u", PasswordHash: "h"}},
	}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
