package wire

import (
	"log/slog"
	"time"

	"github.com/ferry-broker/ferry/internal/api"
	"github.com/ferry-broker/ferry/internal/broker"
	"github.com/ferry-broker/ferry/internal/catalog"
	"github.com/ferry-broker/ferry/internal/cf"
	"github.com/ferry-broker/ferry/internal/config"
	"github.com/ferry-broker/ferry/internal/metrics"
)

// newBackends makes each client's way to its Cloud Foundry. Nothing is sent yet.
func newBackends(c config.Config, logger *slog.Logger, figures *metrics.Metrics) (map[string]broker.Backend, error) {
	backends := make(map[string]broker.Backend, len(c.Clients))
	for _, client := range c.Clients {
		f := client.CloudFoundry
		backend, err := cf.New(cf.Config{
			Client: client.Name, API: f.API, Org: f.Org,
			ClientID: f.ClientID, ClientSecret: f.ClientSecret, Username: f.Username, Password: f.Password,
			CA: f.CA, SkipTLSVerify: f.SkipTLSVerify,
			Now: time.Now, Logger: logger.With("client", client.Name), Observe: figures.Call,
		})
		if err != nil {
			return nil, &ExitError{Code: ExitUsage, Cause: err, Message: "client " + client.Name + ": " + err.Error()}
		}
		backends[client.Name] = backend
	}
	return backends, nil
}

func newCatalog(c config.Config, backends map[string]broker.Backend, store broker.CatalogStore, outages *broker.Throttle, logger *slog.Logger) *catalog.Service {
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

func apiClients(clients []config.Client) []api.Client {
	out := make([]api.Client, 0, len(clients))
	for _, c := range clients {
		out = append(out, api.Client{
			Name: c.Name, Credentials: apiCredentials(c.Credentials),
			MissingVersion: c.Quirks.MissingVersion, FinishedDelete: c.Quirks.FinishedDelete,
		})
	}
	return out
}

func apiCredentials(list []config.Credential) []api.Credential {
	out := make([]api.Credential, 0, len(list))
	for _, c := range list {
		out = append(out, api.Credential{Username: c.Username, Password: c.Password, PasswordHash: c.PasswordHash})
	}
	return out
}
