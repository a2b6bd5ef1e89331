package demo

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"

	"github.com/ferry-broker/ferry/internal/osb"
)

// platform is an OSB client: what OpenShift or Kubernetes would be.
type platform struct {
	url                string
	username, password string
	http               *http.Client
}

// answer is what came back, the parts that the demo looks at.
type answer struct {
	status      int
	operation   string
	state       string
	credentials string
	services    []osb.ServiceOffering
	err         error
}

type fields struct {
	Operation   string                `json:"operation"`
	State       string                `json:"state"`
	Credentials json.RawMessage       `json:"credentials"`
	Services    []osb.ServiceOffering `json:"services"`
}

// send makes one request. Failures of the transport are in answer.err.
func (p platform) send(ctx context.Context, method, path string, body any) answer {
	var payload bytes.Buffer
	if body != nil {
		if err := json.NewEncoder(&payload).Encode(body); err != nil {
			return answer{err: err}
		}
	}
	req, err := http.NewRequestWithContext(ctx, method, p.url+path, &payload)
	if err != nil {
		return answer{err: err}
	}
	req.SetBasicAuth(p.username, p.password)
	req.Header.Set(osb.VersionHeader, "2.17")
	req.Header.Set("Content-Type", "application/json")
	resp, err := p.http.Do(req)
	if err != nil {
		return answer{err: err}
	}
	defer func() { _ = resp.Body.Close() }()
	return read(resp)
}

func read(resp *http.Response) answer {
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		return answer{status: resp.StatusCode, err: err}
	}
	var f fields
	if err := json.Unmarshal(raw, &f); err != nil {
		return answer{status: resp.StatusCode, err: fmt.Errorf("the answer is no JSON: %w", err)}
	}
	return answer{
		status: resp.StatusCode, operation: f.Operation, state: f.State,
		credentials: string(f.Credentials), services: f.Services,
	}
}
