package bench

import (
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/ferry-broker/ferry/internal/api"
	"github.com/ferry-broker/ferry/internal/bolt"
	ferry "github.com/ferry-broker/ferry/internal/broker"
	"github.com/ferry-broker/ferry/internal/brokertest"
	"github.com/ferry-broker/ferry/internal/catalog"
	"github.com/ferry-broker/ferry/internal/metrics"
)

// tenant is the only platform of these measurements.
const tenant = "tenant"

// newHandler returns the handler of newBroker for a test. Instance "i" is ready.
func newHandler(tb testing.TB, offerings int) http.Handler {
	tb.Helper()
	h, store, err := newBroker(tb.Context(), tb.TempDir(), offerings)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = store.Close() })
	newCaller(creation()).call(tb, h, http.StatusAccepted)
	return h
}

// newBroker returns the border over the use cases, the real catalog and the real store in a folder, with the log and
// the figures of a process in earnest, and no socket. The marketplace has so many offerings of eight plans.
func newBroker(ctx context.Context, folder string, offerings int) (http.Handler, *bolt.Store, error) {
	store, err := bolt.Open(ctx, bolt.Options{Dir: folder, Now: time.Now})
	if err != nil {
		return nil, nil, err
	}
	logger := slog.New(slog.NewJSONHandler(io.Discard, nil))
	cloud := brokertest.NewFakeCloud(brokertest.CloudOptions{Now: time.Now})
	market := catalog.New(catalog.Options{Store: store, Now: time.Now, Logger: logger, Sources: []catalog.Source{{
		Client: tenant, Fetch: func(ctx context.Context) (ferry.Marketplace, error) { return widened(ctx, cloud, offerings) },
	}}})
	starts := &inline{}
	starts.broker = ferry.New(ferry.Options{
		Store: store, Backends: map[string]ferry.Backend{tenant: cloud}, Catalog: market,
		Workflow: starts, Now: time.Now, Random: rand.Reader, Logger: logger, Process: "bench", OnlyProcess: true,
	})
	return api.New(api.Options{
		Broker: starts.broker, Catalog: market, Now: time.Now, Logger: logger, Observer: metrics.New(),
		Clients: []api.Client{{Name: tenant, Credentials: []api.Credential{{Username: tenant, Password: "secret"}}}},
	}), store, nil
}

// widened is the marketplace of the fake cloud with offerings after the model of its first one.
func widened(ctx context.Context, cloud *brokertest.FakeCloud, offerings int) (ferry.Marketplace, error) {
	m, err := cloud.Marketplace(ctx)
	for n := len(m.Offerings); err == nil && n < offerings; n++ {
		more := m.Offerings[0]
		more.CatalogID, more.Name, more.Plans = fmt.Sprintf("service-%d", n), fmt.Sprintf("offering-%d", n), nil
		for p := range 8 {
			plan := m.Offerings[0].Plans[0]
			plan.GUID, plan.CatalogID, plan.Name = fmt.Sprintf("guid-%d-%d", n, p), fmt.Sprintf("plan-%d-%d", n, p), fmt.Sprintf("plan-%d", p)
			more.Plans = append(more.Plans, plan)
		}
		m.Offerings = append(m.Offerings, more)
	}
	return m, err
}

// inline is a workflow that is over before the answer is sent. It carries out what is asked of instance "i", and
// nothing of others, which are there to be accepted.
type inline struct{ broker *ferry.Broker }

// Start implements broker.Workflow.
func (w *inline) Start(ctx context.Context, start ferry.Start) error {
	for start.Key.InstanceID == "i" {
		step, err := w.broker.Advance(ctx, start.Key, start.Operation)
		if err != nil || step.Done {
			return err
		}
	}
	return nil
}

// caller sends one request again and again without allocating anything for it: what is measured is the broker's own.
type caller struct {
	request *http.Request
	text    string
	body    *strings.Reader
	answer  sink
}

// sink is a ResponseWriter that keeps the status alone.
type sink struct {
	header        http.Header
	status, bytes int
}

func (s *sink) Header() http.Header    { return s.header }
func (s *sink) WriteHeader(status int) { s.status = status }

func (s *sink) Write(text []byte) (int, error) {
	s.bytes += len(text)
	return len(text), nil
}

func newCaller(method, target, body string, headers ...string) *caller {
	c := &caller{request: httptest.NewRequest(method, target, strings.NewReader(body)), text: body, body: strings.NewReader(body)}
	c.request.Body = io.NopCloser(c.body)
	c.request.SetBasicAuth(tenant, "secret")
	c.request.Header.Set("X-Broker-API-Version", "2.17")
	c.request.Header.Set("X-Broker-API-Request-Identity", "1f0e6a2c-7c1d-4f0e-9d55-0f8f1b9b6f0e")
	for i := 0; i < len(headers); i += 2 {
		c.request.Header.Set(headers[i], headers[i+1])
	}
	c.answer.header = http.Header{}
	return c
}

func (c *caller) call(tb testing.TB, h http.Handler, status int) {
	c.body.Reset(c.text)
	clear(c.answer.header)
	c.answer.status, c.answer.bytes = 0, 0
	if h.ServeHTTP(&c.answer, c.request); c.answer.status != status {
		tb.Fatalf("%s %s: %d, want %d", c.request.Method, c.request.URL, c.answer.status, status)
	}
}

const instance = "/v2/service_instances/i"

// creation are the arguments of newCaller for the create of the instance.
func creation() (method, target, body string) {
	return http.MethodPut, instance + "?accepts_incomplete=true", fmt.Sprintf(
		`{"service_id":%q,"plan_id":%q,"organization_guid":"o","space_guid":"s","parameters":{"size":3,"name":"one"},`+
			`"context":{"platform":"kubernetes","namespace":"n","clusterid":"c"}}`,
		brokertest.ServiceDB, brokertest.PlanID(brokertest.PlanSmall))
}

// TestCatalogIsBuiltOnce: what a request for the catalog allocates does not grow with the catalog, and is less than its
// text.
func TestCatalogIsBuiltOnce(t *testing.T) {
	small, large := newHandler(t, 0), newHandler(t, 250)
	c := newCaller(http.MethodGet, "/v2/catalog", "")
	const calls = 200
	cost := func(h http.Handler) (allocations, bytes float64) {
		c.call(t, h, http.StatusOK)
		return perCall(calls, func() {
			for range calls {
				c.call(t, h, http.StatusOK)
			}
		})
	}
	few, _ := cost(small)
	many, bytes := cost(large)
	if many > few+1 || bytes > float64(c.answer.bytes)/4 {
		t.Errorf("%d bytes of catalog cost %.1f allocations and %.0f bytes, a small one %.1f allocations", c.answer.bytes, many, bytes, few)
	}
}

// perCall runs f and divides what it allocated by the number of its calls.
func perCall(calls int, f func()) (allocations, bytes float64) {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return float64(after.Mallocs-before.Mallocs) / float64(calls), float64(after.TotalAlloc-before.TotalAlloc) / float64(calls)
}

// BenchmarkHandler measures the requests that platforms repeat all day, one after the other on one core, and prints
// them as a table.
func BenchmarkHandler(b *testing.B) {
	h := newHandler(b, 25)
	method, target, body := creation()
	var table bytes.Buffer
	fmt.Fprintf(&table, "%-16s %10s %20s %16s %14s\n", "", "a second", "allocations/request", "bytes/request", "answer, bytes")
	for _, bench := range []struct {
		name   string
		caller *caller
		status int
	}{
		{"catalog 200", newCaller(http.MethodGet, "/v2/catalog", ""), http.StatusOK},
		{"catalog 304", newCaller(http.MethodGet, "/v2/catalog", "", "If-None-Match", etag(b, h)), http.StatusNotModified},
		{"last_operation", newCaller(http.MethodGet, instance+"/last_operation?service_id=s&plan_id=p", ""), http.StatusOK},
		{"duplicate create", newCaller(method, target, body), http.StatusOK},
	} {
		var rate, allocations, size float64
		b.Run(strings.ReplaceAll(bench.name, " ", "_"), func(b *testing.B) {
			b.ReportAllocs()
			bench.caller.call(b, h, bench.status)
			calls := 0
			began := time.Now()
			allocations, size = perCall(1, func() {
				for b.Loop() {
					bench.caller.call(b, h, bench.status)
					calls++
				}
			})
			rate = float64(calls) / time.Since(began).Seconds()
			allocations, size = allocations/float64(calls), size/float64(calls)
			b.ReportMetric(rate, "req/s")
		})
		fmt.Fprintf(&table, "%-16s %10.0f %20.1f %16.0f %14d\n", bench.name, rate, allocations, size, bench.caller.answer.bytes)
	}
	fmt.Print(table.String()) // the log of a benchmark with parts is not shown
}

func etag(b *testing.B, h http.Handler) string {
	c := newCaller(http.MethodGet, "/v2/catalog", "")
	c.call(b, h, http.StatusOK)
	return c.answer.header.Get("ETag")
}
