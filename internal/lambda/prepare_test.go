package lambda

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/ferry-broker/ferry/internal/broker"
	"github.com/ferry-broker/ferry/internal/secrets"
	"github.com/ferry-broker/ferry/internal/setup"
)

func newLines(log *logged) slog.Handler { return slog.NewJSONHandler(log, nil) }

// slow is a table whose reads wait for the test, and tell what was asked.
type slow struct {
	*table
	asked chan string
	gate  chan struct{} // lets one go on
	open  chan struct{} // closed, lets all
}

func (s *slow) wait(ctx context.Context, what string) error {
	s.asked <- what
	select {
	case <-s.gate:
		return nil
	case <-s.open:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (s *slow) Ping(ctx context.Context) error { return s.wait(ctx, "ping") }

func (s *slow) Catalog(ctx context.Context, client string) (broker.StoredCatalog, error) {
	if err := s.wait(ctx, client); err != nil {
		return broker.StoredCatalog{}, err
	}
	return s.MemoryStore.Catalog(ctx, client)
}

// waiting returns who waits now, and lets them go on.
func (s *slow) waiting() []string {
	synctest.Wait()
	all := []string{}
	for len(s.asked) > 0 {
		all = append(all, <-s.asked)
		select {
		case s.gate <- struct{}{}:
		case <-s.open:
		}
	}
	slices.Sort(all)
	return all
}

// TestInitReadsInParallel: the secret and the way to the table together, then the
// catalogs of all clients together; the first event waits for none of them.
func TestInitReadsInParallel(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.send(t, "catalog") // stores one
	r.configure(func(c *secrets.Copy) {
		other := c.Config.Clients[0]
		other.Name, other.Credentials = "other", nil
		c.Config.Clients = append(c.Config.Clients, other)
	}, nil)
	synctest.Test(t, func(t *testing.T) {
		s := &slow{table: r.table, asked: make(chan string, 9), gate: make(chan struct{}), open: make(chan struct{})}
		a := &API{core: &core{}}
		a.core.parts = setup.Parts{Store: s, Workflow: r.machine, Now: r.now, Process: "p", Logger: a.core.correlated(newLines(r.log))}
		a.core.configuration = func(ctx context.Context) (secrets.Copy, error) {
			if err := s.wait(ctx, "secret"); err != nil {
				return secrets.Copy{}, err
			}
			return r.configuration(ctx)
		}
		go a.prepare(t.Context())
		for _, want := range []string{"[ping secret]", "[demo other]", "[]"} {
			if together := s.waiting(); fmt.Sprint(together) != want {
				t.Errorf("asked together: %q, want %s", together, want)
			}
		}
		close(s.open)
		for _, want := range []string{"[secret]", "[demo secret]"} { // the first event, and one that came late
			if answer, _ := a.Handle(t.Context(), readEvent(t, "catalog")); answer.StatusCode != 200 {
				t.Errorf("%d %s", answer.StatusCode, answer.Body)
			}
			if asked := s.waiting(); fmt.Sprint(asked) != want {
				t.Errorf("an event asked for %q, want %s", asked, want)
			}
			r.pass(reloadEvery)
		}
	})
}

// TestInitSurvivesEverything: what cannot be read in init is read by the first event.
func TestInitSurvivesEverything(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.configure(nil, errDown)
	r.table.set(errDown, nil)
	r.api.prepare(t.Context())
	r.poller.prepare(t.Context())
	r.janitor.prepare(t.Context())
	r.configure(nil, nil)
	r.table.set(nil, nil)
	if answer := r.send(t, "catalog"); answer.StatusCode != 200 {
		t.Errorf("%d %s", answer.StatusCode, answer.Body)
	}
}

// TestTheVersionIsLoggedOnce at the start of each environment.
func TestTheVersionIsLoggedOnce(t *testing.T) {
	t.Parallel()
	log := &logged{}
	ctx, cancel := context.WithCancel(t.Context())
	cancel() // nobody is called
	lookup := environment("", map[string]string{"FERRY_VERSION": "1.2.3"})
	a, _ := NewAPI(lookup, log)
	p, _ := NewPoller(lookup, log)
	j, _ := NewJanitor(lookup, log)
	for _, prepare := range []func(context.Context){a.prepare, p.prepare, j.prepare} {
		prepare(ctx)
	}
	n := 0
	for line := range strings.Lines(log.String()) {
		var said struct{ Msg, Version, Build string }
		if err := json.Unmarshal([]byte(line), &said); err != nil {
			t.Fatal(err)
		}
		if said.Msg == "the function starts" && said.Version == "1.2.3" && said.Build == build {
			n++
		}
	}
	if n != 3 {
		t.Errorf("%d lines tell the version, want one of each function: %s", n, log)
	}
}
