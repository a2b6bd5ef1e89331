// Package setup makes the parts of a broker from its configuration, for a process
// (package wire) and for functions (package functions) alike. It is a room of its own
// so that a function's binary holds no embedded store, simulator or metrics, and that
// of `ferry` nothing of AWS.
package setup

import (
	"fmt"
	"log/slog"
	"time"

	"github.com/ferry-broker/ferry/internal/api"
	"github.com/ferry-broker/ferry/internal/broker"
	"github.com/ferry-broker/ferry/internal/catalog"
	"github.com/ferry-broker/ferry/internal/cf"
	"github.com/ferry-broker/ferry/internal/config"
)

// Backends makes each client's way to its Cloud Foundry; nothing is sent yet. Observe
// is told of each call and may be nil. The error names the client whose
// configuration cannot be used.
func Backends(c config.Config, logger *slog.Logger, observe func(call, result string, took time.Duration)) (map[string]broker.Backend, error) {
	backends := make(map[string]broker.Backend, len(c.Clients))
	for _, client := range c.Clients {
		f := client.CloudFoundry
		backend, err := cf.New(cf.Config{
			Client: client.Name, API: f.API, FormerAPIs: f.FormerAPIs, Org: f.Org,
			ClientID: f.ClientID, ClientSecret: f.ClientSecret, Username: f.Username, Password: f.Password,
			CA: f.CA, SkipTLSVerify: f.SkipTLSVerify,
			Now: time.Now, Logger: logger.With("client", client.Name), Observe: observe,
		})
		if err != nil {
			return nil, fmt.Errorf("client %s: %w", client.Name, err)
		}
		backends[client.Name] = backend
	}
	return backends, nil
}

// Catalog makes the catalogs of all clients; nothing is read yet.
func Catalog(c config.Config, backends map[string]broker.Backend, store broker.CatalogStore, outages *broker.Throttle, logger *slog.Logger) *catalog.Service {
	sources := make([]catalog.Source, 0, len(c.Clients))
	for _, client := range c.Clients {
		sources = append(sources, catalog.Source{
			Client: client.Name, IDs: client.Catalog.IDs, Refresh: client.CatalogRefresh,
			Rotatable: client.Catalog.Rotatable,
			Fetch:     backends[client.Name].Marketplace,
		})
	}
	return catalog.New(catalog.Options{Sources: sources, Store: store, Now: time.Now, Outages: outages, Logger: logger})
}

// Clients are the platforms that the border lets in.
func Clients(clients []config.Client) []api.Client {
	out := make([]api.Client, 0, len(clients))
	for _, c := range clients {
		out = append(out, api.Client{
			Name: c.Name, Credentials: Credentials(c.Credentials),
			MissingVersion: c.Quirks.MissingVersion, FinishedDelete: c.Quirks.FinishedDelete,
			ConcurrentRequests: c.ConcurrentRequests,
		})
	}
	return out
}

// Credentials are ways to log in, as the border checks them.
func Credentials(list []config.Credential) []api.Credential {
	out := make([]api.Credential, 0, len(list))
	for _, c := range list {
		out = append(out, api.Credential{Username: c.Username, Password: c.Password, PasswordHash: c.PasswordHash})
	}
	return out
}
