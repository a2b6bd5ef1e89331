package deployed

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/ferry-broker/ferry/internal/broker"
	"github.com/ferry-broker/ferry/internal/dynamo"
)

// probe does what needs a permission until that is missed, and returns how it goes on
// once the permission is back.
type probe func(p storm, missed func() bool) (goOn func())

func roleProbes() map[string]probe {
	return map[string]probe{
		"ApiRole dynamodb:GetItem":              probePoll,
		"ApiRole dynamodb:PutItem":              probeClaim,
		"ApiRole dynamodb:Query":                probeCatalogOfAPI,
		"ApiRole dynamodb:DeleteItem":           probeCatalogOfAPI,
		"ApiRole states:StartExecution":         probeStart,
		"ApiRole states:StopExecution":          probeHeldBind,
		"ApiRole secretsmanager:GetSecretValue": probeSecretOfAPI,

		"PollerRole dynamodb:GetItem":              probeTick,
		"PollerRole dynamodb:PutItem":              probeTick,
		"PollerRole dynamodb:Query":                probeDelete,
		"PollerRole dynamodb:DeleteItem":           probeCatalogOfPoller,
		"PollerRole states:StartExecution":         probeUnbindAll,
		"PollerRole secretsmanager:GetSecretValue": probeTick,

		"JanitorRole dynamodb:GetItem":              probeRestart,
		"JanitorRole dynamodb:PutItem":              probeRestart,
		"JanitorRole dynamodb:Query":                probeCatalogOfJanitor,
		"JanitorRole dynamodb:DeleteItem":           probeCatalogOfJanitor,
		"JanitorRole dynamodb:Query on the index":   probeRound,
		"JanitorRole states:StartExecution":         probeRestart,
		"JanitorRole secretsmanager:GetSecretValue": probeRound,
	}
}

// misses repeats something until the permission is missed.
func (p storm) misses(missed func() bool, repeat func()) {
	p.t.Helper()
	p.until(90*time.Second, "the permission is missed", func() bool {
		repeat()
		return missed()
	})
}

func (p storm) catalogIs200() { p.send(http.MethodGet, "/v2/catalog", "").want(p.t, http.StatusOK) }

func probePoll(p storm, missed func() bool) func() {
	id := "nobody"
	p.misses(missed, func() {
		if a := p.poll(at(id), ""); a.status < 500 {
			p.t.Errorf("%s: %d without a read", a.request, a.status)
		}
	})
	return func() { p.poll(at(id), "").want(p.t, http.StatusNotFound) }
}

func probeClaim(p storm, missed func() bool) func() {
	id := p.newID()
	p.misses(missed, func() {
		if a := p.put(id, small, ""); a.status < 500 {
			p.t.Errorf("%s: %d without a write", a.request, a.status)
		}
	})
	return func() {
		p.gets("succeeded", at(id), p.put(id, small, "").want(p.t, http.StatusAccepted).operation())
		p.leave(id)
	}
}

func probeStart(p storm, missed func() bool) func() {
	id, operation := p.newID(), ""
	p.misses(missed, func() { operation = p.put(id, small, "").want(p.t, http.StatusAccepted).operation() })
	return func() {
		p.picksUp(broker.Key{Client: p.name, InstanceID: id})
		p.gets("succeeded", at(id), operation)
		p.leave(id)
	}
}

// probeHeldBind: a bind that was held to its end has no need of its execution.
func probeHeldBind(p storm, missed func() bool) func() {
	id, binding := p.ready(small, ""), p.newID()
	p.bind(id, binding, small, "", plain).want(p.t, http.StatusCreated)
	p.misses(missed, func() {})
	return func() {
		p.unbind(id, binding, small, plain).want(p.t, http.StatusOK)
		p.leave(id)
	}
}

func probeSecretOfAPI(p storm, missed func() bool) func() {
	p.misses(missed, p.catalogIs200)
	return p.catalogIs200
}

func probeTick(p storm, missed func() bool) func() {
	id := p.newID()
	operation := p.put(id, small, "").want(p.t, http.StatusAccepted).operation()
	p.misses(missed, func() {})
	return func() {
		p.gets("succeeded", at(id), operation)
		p.leave(id)
	}
}

func probeDelete(p storm, missed func() bool) func() {
	id := p.ready(small, "")
	operation := p.delete(id, small).want(p.t, http.StatusAccepted).operation()
	p.misses(missed, func() {})
	return func() {
		p.gets("succeeded", at(id), operation)
		p.gone(id, small)
	}
}

// probeUnbindAll deletes an instance that still has a binding.
func probeUnbindAll(p storm, missed func() bool) func() {
	id, binding := p.ready(small, ""), p.newID()
	p.bind(id, binding, small, "", plain).want(p.t, http.StatusCreated)
	operation := p.delete(id, small).want(p.t, http.StatusAccepted).operation()
	p.misses(missed, func() {})
	return func() {
		p.picksUp(broker.Key{Client: p.name, InstanceID: id, BindingID: binding})
		p.gets("succeeded", at(id), operation)
		p.gone(id, small)
	}
}

func probeRound(p storm, missed func() bool) func() {
	p.misses(missed, p.janitor)
	return p.janitor
}

func probeRestart(p storm, missed func() bool) func() {
	id := p.newID()
	o := p.order(startAction, id, fromAPI, 0, 0, refuse)
	operation := p.put(id, small, "").want(p.t, http.StatusAccepted).operation()
	p.s.gate.lift(o)
	p.misses(missed, func() { p.picksUp(broker.Key{Client: p.name, InstanceID: id}) })
	return func() {
		p.picksUp(broker.Key{Client: p.name, InstanceID: id})
		p.gets("succeeded", at(id), operation)
		p.leave(id)
	}
}

// table is the stack's own, past the gate.
func (s *stack) table(t *testing.T) *dynamo.Store {
	t.Helper()
	made, err := dynamo.New(dynamo.Options{
		Config: aws.Config{Region: region, BaseEndpoint: new(s.standIn.URL()), Credentials: aws.CredentialsProviderFunc(credentials)},
		Table:  s.outputs["TableName"], Now: time.Now,
	})
	if err != nil {
		t.Fatal(err)
	}
	return made
}

// picksUp makes an operation overdue, as if minutes had passed, and calls the janitor.
func (p storm) picksUp(key broker.Key) {
	p.t.Helper()
	table := p.s.table(p.t)
	for {
		rec, err := table.Get(p.t.Context(), key)
		if err != nil {
			p.t.Fatal(err)
		}
		rec.Lifecycle.Operation.Due = time.Now().Add(-time.Minute)
		if _, err = table.Put(p.t.Context(), rec, rec.Revision); err == nil {
			break
		}
		if !errors.Is(err, broker.ErrConflict) {
			p.t.Fatal(err)
		}
	}
	p.janitor()
}

// A catalog too large for one item is stored in parts, which are read by a query and
// deleted one by one. Cloud Foundry's is small here, so that one is planted: what
// cannot be understood is fetched anew and replaced.

// plant stores it, and gives the functions a configuration that makes them look.
func (p storm) plant(adjust func(string) string) (restore func()) {
	p.t.Helper()
	table, good := p.s.table(p.t), p.s.configText(p.t)
	body := make([]byte, 1<<20)
	_, _ = rand.Read(body) // what does not shrink
	for {
		c, err := table.Catalog(p.t.Context(), p.name)
		if err == nil {
			c.Body, c.Fetched = []byte(hex.EncodeToString(body)), time.Now()
			_, err = table.PutCatalog(p.t.Context(), c, c.Revision)
		}
		if err == nil {
			break
		}
		if !errors.Is(err, broker.ErrConflict) {
			p.t.Fatal(err)
		}
	}
	p.s.configure(p.t, adjust(good)+fmt.Sprintf("\n# planted for %s\n", p.newID()))
	return func() { p.s.configure(p.t, good) }
}

func unchanged(text string) string { return text }

func probeCatalogOfAPI(p storm, missed func() bool) func() {
	p.misses(missed, func() {
		restore := p.plant(unchanged)
		defer restore()
		p.until(long, "it is read", func() bool { p.catalogIs200(); return missed() || p.replaced() })
	})
	return p.catalogIs200
}

// replaced reports whether somebody has put a good catalog in the place of the planted.
func (p storm) replaced() bool {
	c, err := p.s.table(p.t).Catalog(p.t.Context(), p.name)
	return err == nil && len(c.Body) > 0 && c.Body[0] == '{'
}

// probeCatalogOfPoller keeps the api out, which would replace the catalog first: the
// create has no execution, and its poller is called by hand.
func probeCatalogOfPoller(p storm, missed func() bool) func() {
	made := map[string]string{}
	p.misses(missed, func() {
		id := p.newID()
		o := p.order(startAction, id, fromAPI, 0, 0, refuse)
		made[id] = p.put(id, small, "").want(p.t, http.StatusAccepted).operation()
		p.s.gate.lift(o)
		restore := p.plant(unchanged)
		defer restore()
		reads := p.count(secretAction, "", fromPoller)
		p.until(long, "a poller reads the configuration", func() bool {
			p.poller(p.tick("nobody", "create-0"))
			return p.count(secretAction, "", fromPoller) > reads
		})
		p.poller(p.tick(id, made[id]))
	})
	return func() {
		for id, operation := range made {
			p.gets("succeeded", at(id), operation)
			p.leave(id)
		}
	}
}

func probeCatalogOfJanitor(p storm, missed func() bool) func() {
	p.misses(missed, func() {
		restore := p.plant(func(text string) string {
			return strings.Replace(text, "- name: stormy", "- name: stormy\n    catalog_refresh: 1s", 1)
		})
		defer restore()
		p.until(long, "it is replaced", func() bool { p.janitor(); return missed() || p.replaced() })
	})
	return p.janitor
}
