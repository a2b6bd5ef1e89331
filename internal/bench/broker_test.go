package bench

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/ferry-broker/ferry/internal/config"
	"github.com/ferry-broker/ferry/internal/server"
)

// broker is a broker under load, in this process but behind real HTTP, with a simulated Cloud Foundry that answers at
// once.
type broker struct {
	url, data     string
	http          *http.Client
	service, plan string
}

// serve starts a broker on a folder and ends it with the benchmark. It logs every request, as it does in earnest, to
// nowhere.
func serve(b *testing.B) *broker {
	b.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	c := config.Demo()
	c.Polling = config.Polling{First: 20 * time.Millisecond, Max: time.Second}
	sim := server.DefaultSimOptions()
	sim.Listen, sim.JobDelay, sim.BrokerDelay, sim.PollInterval = "127.0.0.1:0", 0, 0, time.Millisecond
	s := &broker{data: b.TempDir(), http: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 128}}}
	listening, ended := make(chan string, 1), make(chan error, 1)
	go func() {
		ended <- server.Serve(ctx, server.ServeOptions{
			Config: c, Listen: "127.0.0.1:0", Data: s.data, Simulate: true, Sim: sim,
			Logger: slog.New(slog.NewJSONHandler(io.Discard, nil)), LookupEnv: os.LookupEnv,
			Started: func(url, _ string) { listening <- url },
		})
	}()
	b.Cleanup(func() {
		s.http.CloseIdleConnections()
		cancel()
		if err := <-ended; err != nil {
			b.Error(err)
		}
	})
	select {
	case s.url = <-listening:
	case err := <-ended:
		ended <- nil
		b.Fatal(err)
	}
	s.choose(b)
	return s
}

// choose waits for the catalog and takes the plan whose backing broker answers at once.
func (s *broker) choose(b *testing.B) {
	b.Helper()
	var catalog struct {
		Services []struct {
			ID, Name string
			Plans    []struct{ ID, Name string }
		}
	}
	raw := s.until(b, "/v2/catalog", func(page string) bool { return strings.Contains(page, `"services"`) })
	if err := json.Unmarshal([]byte(raw), &catalog); err != nil {
		b.Fatal(err)
	}
	for _, offering := range catalog.Services {
		for _, plan := range offering.Plans {
			if offering.Name == "postgres" && plan.Name == "small" {
				s.service, s.plan = offering.ID, plan.ID
			}
		}
	}
}

// until reads a page until it is the one waited for.
func (s *broker) until(b *testing.B, path string, right func(page string) bool) string {
	b.Helper()
	again := time.NewTicker(20 * time.Millisecond)
	defer again.Stop()
	deadline := time.After(2 * time.Minute)
	for {
		_, page, err := s.send(http.MethodGet, path, "")
		if err == nil && right(page) {
			return page
		}
		select {
		case <-again.C:
		case <-deadline:
			b.Fatalf("%s never became what was waited for; the last was %.2000s, %v", path, page, err)
		}
	}
}

// rest waits until no operation runs any more.
func (s *broker) rest(b *testing.B) {
	b.Helper()
	s.until(b, "/metrics", func(page string) bool {
		for line := range strings.Lines(page) {
			if strings.HasPrefix(line, "ferry_operations_running") && !strings.HasSuffix(strings.TrimSpace(line), " 0") {
				return false
			}
		}
		return strings.Contains(page, "ferry_build_info")
	})
}

func (s *broker) send(method, path, body string) (int, string, error) {
	req, err := http.NewRequest(method, s.url+path, strings.NewReader(body))
	if err != nil {
		return 0, "", err
	}
	req.SetBasicAuth("demo", "demo")
	req.Header.Set("X-Broker-API-Version", "2.17")
	resp, err := s.http.Do(req)
	if err != nil {
		return 0, "", err
	}
	defer func() { _ = resp.Body.Close() }()
	raw, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(raw), err
}

// create sends a create and reports whether the status is the wanted one.
func (s *broker) create(id string, status int) error {
	body := fmt.Sprintf(`{"service_id":%q,"plan_id":%q,"organization_guid":"o","space_guid":"s","parameters":{"name":%q},`+
		`"context":{"platform":"kubernetes","namespace":"n","clusterid":"c"}}`, s.service, s.plan, id)
	return s.expect(http.MethodPut, "/v2/service_instances/"+id+"?accepts_incomplete=true", body, status)
}

// poll asks for the last operation.
func (s *broker) poll(id string) error {
	return s.expect(http.MethodGet, "/v2/service_instances/"+id+"/last_operation", "", http.StatusOK)
}

func (s *broker) expect(method, path, body string, status int) error {
	got, answer, err := s.send(method, path, body)
	if err == nil && got != status {
		err = fmt.Errorf("%s %s: %d %s, want %d", method, path, got, answer, status)
	}
	return err
}
