package catalog

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ferry-broker/ferry/internal/broker"
	"github.com/ferry-broker/ferry/internal/brokertest"
)

const (
	draft4 = `"$schema":"http://json-schema.org/draft-04/schema#"`
	draft7 = `"$schema":"http://json-schema.org/draft-07/schema#"`
)

var errDown = errors.New("cloud foundry does not answer")

var startOfTime = time.Date(2026, 3, 1, 12, 0, 0, 500_000_000, time.UTC)

// said is the text of an error, "" for nil.
func said(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// marketOf is a marketplace with one offering and one plan, both named after name.
func marketOf(name string) broker.Marketplace {
	return marketWith(offering(name, plan(name+"-small")))
}

func marketWith(offerings ...broker.MarketOffering) broker.Marketplace {
	return broker.Marketplace{Offerings: offerings}
}

func offering(name string, plans ...broker.MarketPlan) broker.MarketOffering {
	return broker.MarketOffering{
		GUID: "guid-" + name, CatalogID: "id-" + name, Name: name,
		Description: "about " + name, Bindable: true, Plans: plans,
	}
}

func plan(name string) broker.MarketPlan {
	return broker.MarketPlan{
		GUID: "guid-" + name, CatalogID: "id-" + name, Name: name,
		Description: "about " + name, Free: true, Bindable: true,
	}
}

func textOf(t *testing.T, m broker.Marketplace) []byte {
	t.Helper()
	text, err := encode(m)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func built(t *testing.T, m broker.Marketplace, s Source) *snapshot {
	t.Helper()
	catalog, err := build(textOf(t, m), s)
	if err != nil {
		t.Fatal(err)
	}
	return catalog
}

// cloudFoundry is one whose answer the test sets.
type cloudFoundry struct {
	mu      sync.Mutex
	answer  broker.Marketplace
	err     error
	fetches int
	// hold, when set, keeps every fetch until it is closed or the context ends.
	hold chan struct{}
	// entered gets a value when a held fetch begins.
	entered chan struct{}
}

func (m *cloudFoundry) set(answer broker.Marketplace, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.answer, m.err = answer, err
}

func (m *cloudFoundry) count() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.fetches
}

func (m *cloudFoundry) fetch(ctx context.Context) (broker.Marketplace, error) {
	m.mu.Lock()
	m.fetches++
	hold := m.hold
	m.mu.Unlock()
	if hold != nil {
		select {
		case m.entered <- struct{}{}:
		default:
		}
		select {
		case <-hold:
		case <-ctx.Done():
			return broker.Marketplace{}, ctx.Err()
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.answer, m.err
}

// store counts writes and can fail.
type store struct {
	*brokertest.MemoryStore
	mu     sync.Mutex
	fault  error
	writes int
	// hangs makes every read wait until its context ends.
	hangs bool
	// before runs ahead of a write.
	before func()
}

func newStore() *store { return &store{MemoryStore: brokertest.NewMemoryStore(time.Now)} }

func (s *store) Catalog(ctx context.Context, client string) (broker.StoredCatalog, error) {
	if s.hangs {
		<-ctx.Done()
	}
	if s.fault != nil {
		return broker.StoredCatalog{}, s.fault
	}
	return s.MemoryStore.Catalog(ctx, client)
}

func (s *store) PutCatalog(ctx context.Context, c broker.StoredCatalog, revision int64) (broker.StoredCatalog, error) {
	if s.before != nil {
		s.before()
	}
	s.mu.Lock()
	s.writes++
	s.mu.Unlock()
	if s.fault != nil {
		return broker.StoredCatalog{}, s.fault
	}
	return s.MemoryStore.PutCatalog(ctx, c, revision)
}

// plant writes as another process would.
func (s *store) plant(t *testing.T, text []byte, fetched time.Time) {
	t.Helper()
	c := broker.StoredCatalog{Client: "a", Fetched: fetched, Body: text}
	if _, err := s.MemoryStore.PutCatalog(t.Context(), c, s.stored(t).Revision); err != nil {
		t.Fatal(err)
	}
}

func (s *store) stored(t *testing.T) broker.StoredCatalog {
	t.Helper()
	c, err := s.MemoryStore.Catalog(t.Context(), "a")
	if err != nil && !errors.Is(err, broker.ErrNotFound) {
		t.Fatal(err)
	}
	return c
}

// clock stands still until it is moved.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// lines collects what is logged.
type lines struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lines) count(substring string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.text.String(), substring)
}

// service is a Service for one client "a" with all that it uses.
type service struct {
	*Service
	cf    *cloudFoundry
	store *store
	clock *clock
	log   *lines
}

func newService(s *store) *service {
	r := &service{cf: &cloudFoundry{}, store: s, clock: &clock{now: startOfTime}, log: &lines{}}
	r.Service = New(Options{
		Sources: []Source{{Client: "a", IDs: IDsBroker, Refresh: time.Minute, Fetch: r.cf.fetch}},
		Store:   s, Now: r.clock.Now, Logger: slog.New(slog.NewTextHandler(r.log, nil)), Timeout: 10 * time.Second,
	})
	return r
}

// serving is a service that has fetched m.
func serving(t *testing.T, m broker.Marketplace) *service {
	t.Helper()
	r := newService(newStore())
	r.offer(t, m)
	return r
}

// offer makes m what Cloud Foundry offers, and lets the service fetch it.
func (r *service) offer(t *testing.T, m broker.Marketplace) {
	t.Helper()
	r.cf.set(m, nil)
	r.mustRefresh(t)
}

func (r *service) mustRefresh(t *testing.T) {
	t.Helper()
	if err := r.Refresh(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
}

func (r *service) document(t *testing.T) Document {
	t.Helper()
	doc, err := r.Document(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	return doc
}

// serves checks the names of the offerings that the client is served now, with spaces between.
func (r *service) serves(t *testing.T, want string) {
	t.Helper()
	var catalog struct{ Services []struct{ Name string } }
	if err := json.Unmarshal(r.document(t).Body, &catalog); err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, s := range catalog.Services {
		names = append(names, s.Name)
	}
	if got := strings.Join(names, " "); got != want {
		t.Errorf("it serves %q, want %q", got, want)
	}
}

// keeps checks that the store holds m.
func (r *service) keeps(t *testing.T, m broker.Marketplace) {
	t.Helper()
	if got, want := string(r.store.stored(t).Body), string(textOf(t, m)); got != want {
		t.Errorf("the store holds %s, want %s", got, want)
	}
}
