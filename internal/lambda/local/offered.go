package local

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"

	"github.com/ferry-broker/ferry/internal/config"
)

// page collects one answer of a handler.
type page struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (p *page) Header() http.Header { return p.header }

func (p *page) WriteHeader(status int) { p.status = status }

func (p *page) Write(b []byte) (int, error) { return p.body.Write(b) }

// offered asks the broker itself for its plans, as offering/plan, in the catalog's
// order. Afterwards the catalog is known, so that the first event does not wait for it.
func offered(ctx context.Context, handler http.Handler, as config.Credential) ([]string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "/v2/catalog", nil)
	if err != nil {
		return nil, err
	}
	request.SetBasicAuth(as.Username, as.Password)
	request.Header.Set("X-Broker-API-Version", "2.17")
	answer := &page{header: http.Header{}, status: http.StatusOK}
	handler.ServeHTTP(answer, request)
	if answer.status != http.StatusOK {
		return nil, fmt.Errorf("status %d", answer.status)
	}
	return names(answer.body.Bytes())
}

func names(catalog []byte) ([]string, error) {
	var read struct {
		Services []struct {
			Name  string
			Plans []struct{ Name string }
		}
	}
	if err := json.Unmarshal(catalog, &read); err != nil {
		return nil, err
	}
	var plans []string
	for _, service := range read.Services {
		for _, plan := range service.Plans {
			plans = append(plans, service.Name+"/"+plan.Name)
		}
	}
	return plans, nil
}
