//go:build unix

// Command peer is the broker that `make bench` measures Ferry against: made with brokerapi, with everything in memory
// and no backend. It is about the least that a broker in Go can do for a request.
//
// Its argument is a file with the catalog to serve. It writes its URL as the first line of its output, then a line of
// figures for each line of its input, and ends with its input.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"sync"
	"time"

	"code.cloudfoundry.org/brokerapi/v13"
	"code.cloudfoundry.org/brokerapi/v13/domain"
	"code.cloudfoundry.org/brokerapi/v13/domain/apiresponses"
)

func main() {
	if err := run(os.Args[1], os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(catalog string, in io.Reader, out io.Writer) error {
	text, err := os.ReadFile(catalog)
	if err != nil {
		return err
	}
	var served apiresponses.CatalogResponse
	if err := json.Unmarshal(text, &served); err != nil {
		return fmt.Errorf("the catalog: %w", err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	// It logs what it logs in earnest, to nowhere, as Ferry does beside it.
	logger := slog.New(slog.NewJSONHandler(io.Discard, nil))
	broker := &memory{services: served.Services, instances: map[string]*domain.ProvisionDetails{}}
	server := http.Server{
		Handler: brokerapi.New(broker, logger, brokerapi.BrokerCredentials{Username: "tenant", Password: "secret"}),
		// Those of Ferry.
		ReadHeaderTimeout: 10 * time.Second, ReadTimeout: 30 * time.Second, WriteTimeout: 2 * time.Minute, IdleTimeout: 2 * time.Minute,
	}
	go func() { _ = server.Serve(listener) }() // until the process ends
	if _, err := fmt.Fprintf(out, "http://%s\n", listener.Addr()); err != nil {
		return err
	}
	lines := bufio.NewScanner(in)
	for lines.Scan() {
		if err := json.NewEncoder(out).Encode(usage()); err != nil {
			return err
		}
	}
	return lines.Err()
}

// memory is a broker that keeps what it was told, and answers a duplicate as OSB asks for. Of the interface it has what
// is measured; it panics at the rest.
type memory struct {
	domain.ServiceBroker
	services []domain.Service

	mu        sync.Mutex
	instances map[string]*domain.ProvisionDetails
}

// Services implements domain.ServiceBroker.
func (m *memory) Services(context.Context) ([]domain.Service, error) { return m.services, nil }

// Provision implements domain.ServiceBroker. The operation of an instance has always ended.
func (m *memory) Provision(_ context.Context, id string, q domain.ProvisionDetails, async bool) (domain.ProvisionedServiceSpec, error) {
	if !async {
		return domain.ProvisionedServiceSpec{}, apiresponses.ErrAsyncRequired
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	known, found := m.instances[id]
	switch {
	case !found:
		m.instances[id] = &q
		return domain.ProvisionedServiceSpec{IsAsync: true, OperationData: "create-" + id}, nil
	case known.ServiceID == q.ServiceID && known.PlanID == q.PlanID && known.OrganizationGUID == q.OrganizationGUID &&
		known.SpaceGUID == q.SpaceGUID && string(known.RawParameters) == string(q.RawParameters):
		return domain.ProvisionedServiceSpec{AlreadyExists: true}, nil
	default:
		return domain.ProvisionedServiceSpec{}, apiresponses.ErrInstanceAlreadyExists
	}
}

// LastOperation implements domain.ServiceBroker.
func (m *memory) LastOperation(_ context.Context, id string, _ domain.PollDetails) (domain.LastOperation, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.instances[id] == nil {
		return domain.LastOperation{}, apiresponses.ErrInstanceDoesNotExist
	}
	return domain.LastOperation{State: domain.Succeeded}, nil
}
