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
)

var errDown = errors.New("cloud foundry does not answer")

var startOfTime = time.Date(2026, 3, 1, 12, 0, 0, 500_000_000, time.UTC)

const (
	draft4 = `"$schema":"http://json-schema.org/draft-04/schema#"`
	draft7 = `"$schema":"http://json-schema.org/draft-07/schema#"`
)

// said is the text of an error, "" for nil.
func said(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// shop is a marketplace with one offering and one plan, both named after name.
func shop(name string) broker.Marketplace {
	return broker.Marketplace{Offerings: []broker.MarketOffering{offering(name, plan(name+"-small"))}}
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

func bodyOf(t *testing.T, m broker.Marketplace, ids string) string {
	t.Helper()
	s, err := build(textOf(t, m), Source{IDs: ids})
	if err != nil {
		t.Fatal(err)
	}
	return string(s.document.Body)
}

// market is a Cloud Foundry whose answer the test sets.
type market struct {
	mu      sync.Mutex
	answer  broker.Marketplace
	err     error
	fetches int
	// hold, when set, keeps every fetch until it is closed or the context ends.
	hold chan struct{}
	// entered gets a value when a held fetch begins.
	entered chan struct{}
}

func (m *market) set(answer broker.Marketplace, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.answer, m.err = answer, err
}

func (m *market) count() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.fetches
}

func (m *market) fetch(ctx context.Context) (broker.Marketplace, error) {
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

// memory is a CatalogStore with the contract of broker.CatalogStore.
type memory struct {
	mu       sync.Mutex
	catalogs map[string]broker.StoredCatalog
	fault    error
	puts     int
	// hangs makes every read wait until its context ends.
	hangs bool
	// before runs ahead of a write, without the lock.
	before func()
}

func newMemory() *memory { return &memory{catalogs: map[string]broker.StoredCatalog{}} }

func (m *memory) Catalog(ctx context.Context, client string) (broker.StoredCatalog, error) {
	if m.hangs {
		<-ctx.Done()
		return broker.StoredCatalog{}, ctx.Err()
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	c, ok := m.catalogs[client]
	switch {
	case m.fault != nil:
		return broker.StoredCatalog{}, m.fault
	case !ok:
		return broker.StoredCatalog{}, broker.ErrNotFound
	}
	return c, nil
}

func (m *memory) PutCatalog(_ context.Context, c broker.StoredCatalog, revision int64) (broker.StoredCatalog, error) {
	if m.before != nil {
		m.before()
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.puts++
	stored := m.catalogs[c.Client]
	switch {
	case m.fault != nil:
		return broker.StoredCatalog{}, m.fault
	case stored.Revision != revision:
		return stored, broker.ErrConflict
	}
	c.Revision = revision + 1
	m.catalogs[c.Client] = c
	return c, nil
}

// plant writes as another process would.
func (m *memory) plant(client string, text []byte, fetched time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	c := broker.StoredCatalog{Client: client, Fetched: fetched, Body: text}
	c.Revision = m.catalogs[client].Revision + 1
	m.catalogs[client] = c
}

func (m *memory) stored(client string) broker.StoredCatalog {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.catalogs[client]
}

func (m *memory) writes() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.puts
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

// journal collects log lines.
type journal struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (j *journal) Write(p []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.Write(p)
}

func (j *journal) count(substring string) int {
	j.mu.Lock()
	defer j.mu.Unlock()
	return strings.Count(j.text.String(), substring)
}

// rig is a Service for one client "a" and all that it leans on.
type rig struct {
	*Service
	market *market
	store  *memory
	clock  *clock
	log    *journal
}

func newRig(store *memory) *rig {
	r := &rig{market: &market{}, store: store, clock: &clock{now: startOfTime}, log: &journal{}}
	r.Service = New(Options{
		Sources: []Source{{Client: "a", IDs: IDsBroker, Refresh: time.Minute, Fetch: r.market.fetch}},
		Store:   store, Now: r.clock.Now, Logger: slog.New(slog.NewTextHandler(r.log, nil)), Timeout: 10 * time.Second,
	})
	return r
}

func (r *rig) mustRefresh(t *testing.T) {
	t.Helper()
	if err := r.Refresh(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
}

// names returns the names of the offerings that the client is served now.
func (r *rig) names(t *testing.T) []string {
	t.Helper()
	doc, err := r.Document(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	var catalog struct{ Services []struct{ Name string } }
	if err := json.Unmarshal(doc.Body, &catalog); err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, s := range catalog.Services {
		names = append(names, s.Name)
	}
	return names
}
