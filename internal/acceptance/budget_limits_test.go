package acceptance

import (
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/ferry-broker/ferry/internal/cfsim"
)

// TestRetryAfter: whichever call a limiter refuses, the next one of that operation
// comes no sooner than it said.
func TestRetryAfter(t *testing.T) {
	t.Parallel()
	for _, call := range []string{postInstance, lookInstance, patch, rowByGUID, dropInstance, job, postKey, lookKeys, dropKey} {
		t.Run(strings.ReplaceAll(call, "/", "_"), func(t *testing.T) {
			t.Parallel()
			underClock(t, nil, func(h hours) { h.obeys(call, 150*time.Second) })
		})
	}
}

// obeys walks the life of an instance and a binding while one call of it is limited,
// twice in a row.
func (h hours) obeys(call string, wait time.Duration) {
	h.t.Helper()
	const plan = "postgres/small"
	id := h.prepared(plan)
	h.bind(id, "first", plan, "", plain).want(h.t, 201)
	h.unbind(id, "first", plan, plain).bare(h.t, 200)
	method, route, _ := strings.Cut(call, " ")
	h.control("POST", "/faults", `{"method":`+quoted(method)+`,"route":`+quoted(route)+`,"times":2,"when":"before","action":"respond","status":429,`+
		`"headers":{"Retry-After":`+quoted(strconv.Itoa(int(wait.Seconds())))+`,"Content-Type":"text/plain"},"body":`+quoted(rateLimited)+`}`)
	var refused, next []time.Time
	h.watch(func(now time.Time, path string, status int) {
		if strings.Contains(path, "/service_plans") || strings.Contains(path, "/service_offerings") {
			return // the catalog is refreshed whatever an operation waits for
		}
		if len(refused) > len(next) {
			next = append(next, now)
		}
		if status == http.StatusTooManyRequests {
			refused = append(refused, now)
		}
	})
	for _, step := range []func() (string, string){
		func() (string, string) { return at(id), h.changes(id, plan) },
		func() (string, string) {
			return bindingAt(id, "b"), h.bind(id, "b", plan, "", async).want(h.t, 202).operation()
		},
		func() (string, string) {
			return bindingAt(id, "b"), h.unbind(id, "b", plan, async).want(h.t, 202).operation()
		},
		func() (string, string) {
			other, op := h.starts(plan)
			return at(other), op
		},
		func() (string, string) { return at(id), h.removes(id, plan) },
	} {
		path, op := step()
		h.succeeds(path, op)
	}
	h.waited(refused, next, wait)
}

const rateLimited = `{"errors":[{"code":10013,"title":"CF-RateLimitExceeded","detail":"Rate Limit Exceeded"}]}`

func (h hours) waited(refused, next []time.Time, wait time.Duration) {
	h.t.Helper()
	if len(refused) != 2 || len(next) != 2 {
		h.t.Fatalf("%d calls were refused and %d came after them, want two", len(refused), len(next))
	}
	for i := range refused {
		// Not much later either, though not all operations come back at one moment.
		if pause := next[i].Sub(refused[i]); pause < wait || pause > 2*wait+time.Minute {
			h.t.Errorf("the next call came after %s, want it after %s", pause, wait)
		}
	}
}

// TestLimiter has many operations in flight while Cloud Foundry takes ten calls a
// second: all of them end, and each is done once.
func TestLimiter(t *testing.T) {
	t.Parallel()
	limit := func(o *cfsim.Options) { o.RateLimit, o.RateWindow = 10, time.Second }
	underClock(t, limit, func(h hours) {
		const plan, many = "postgres/small", 64
		began := h.now()
		ids := make([]string, many)
		operations := map[string]string{}
		for i := range ids {
			id, op := h.starts(plan)
			ids[i], operations[id] = id, op
		}
		h.allSucceed(operations)
		for _, id := range ids {
			h.row(id)
			h.askedFor(1, "provision", id, "")
			operations[id] = h.removes(id, plan)
		}
		h.allSucceed(operations)
		for _, id := range ids {
			h.nothingLeft(id)
			h.askedFor(1, "deprovision", id, "")
		}
		t.Logf("%d creates and deletes took %s, %d calls were refused", many, h.now().Sub(began), h.limited.Load())
		if h.limited.Load() == 0 {
			t.Error("the limiter refused nothing")
		}
	})
}

func (h hours) allSucceed(operations map[string]string) {
	h.t.Helper()
	for id, op := range operations {
		h.succeeds(at(id), op)
	}
}
