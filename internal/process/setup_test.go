package process

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// setup is the configuration of a broker under test.
type setup struct {
	client, password string // the password of the user of the same name
	api, org         string
	secret           string // of the login ferry at Cloud Foundry
	settleAfter      time.Duration
	more, end        string // further clients, further sections
}

// write puts the configuration into a file and returns its name.
func (s setup) write(t testing.TB) string {
	t.Helper()
	text := fmt.Sprintf(`clients:
  - name: %[1]s
    credentials: [{username: %[1]s, password: %[2]q}]
    cloud_foundry: {api: %[3]q, org: %[4]s, client_id: ferry, client_secret: %[5]q}
%[7]spolling: {first: 20ms, max: 200ms}
operations: {settle_after: %[6]s, request_budget: 20s}
%[8]s`, s.client, s.password, s.api, s.org, s.secret, s.settleAfter, s.more, s.end)
	file := filepath.Join(t.TempDir(), "ferry.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// state is what the simulator says about itself.
type state struct {
	Instances []struct {
		Name, Plan string
		Parameters json.RawMessage
		Keys       []struct{ Name string }
	}
	Calls []struct {
		Instance, Binding, Operation string
		Count                        int
	} `json:"broker_calls"`
}

// count returns how often the backing broker was asked to do it.
func (s state) count(instance, binding, operation string) int {
	for _, c := range s.Calls {
		if c.Instance == instance && c.Binding == binding && c.Operation == operation {
			return c.Count
		}
	}
	return 0
}

// readState asks the simulator.
func readState(ctx context.Context, simulator string) (s state, err error) {
	raw, status, err := fetch(ctx, simulator+"/__sim/state")
	if err != nil || status != http.StatusOK {
		return state{}, fmt.Errorf("state of the simulator: status %d, %w", status, err)
	}
	return s, json.Unmarshal(raw, &s)
}

// fetch reads a page without credentials.
func fetch(ctx context.Context, url string) ([]byte, int, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, 0, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, 0, err
	}
	defer func() { _ = resp.Body.Close() }()
	raw, err := io.ReadAll(resp.Body)
	return raw, resp.StatusCode, err
}

// wait pauses between two looks at something that is still on its way.
func wait(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
