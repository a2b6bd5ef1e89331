package deployed

import (
	"fmt"
	"net/http"
	"testing"
	"time"
)

// away lets Cloud Foundry drop every call with match in it.
func (p storm) away(match string) {
	p.t.Helper()
	p.s.sim.control(p.t, http.MethodPost, "faults",
		fmt.Sprintf(`{"method":"*","route":"*","match":%q,"times":0,"when":"before","action":"drop"}`, match), nil)
}

// caseCloudAway disturbs the calls about one instance: the fault is taken away again by
// its hits, since clearing it would clear everybody's.
func caseCloudAway(t *testing.T, s *stack) {
	p := newStorm(t, s)
	id := p.newID()
	s.sim.control(t, http.MethodPost, "faults",
		fmt.Sprintf(`{"method":"*","route":"*","match":%q,"times":3,"when":"before","action":"respond","page":"gorouter-502"}`, id), nil)
	operation := p.put(id, small, "").want(t, http.StatusAccepted).operation()
	p.gets("succeeded", at(id), operation)
	p.kept(id, small)
}

// caseCloudDown: everything that can be answered without Cloud Foundry is.
func caseCloudDown(t *testing.T, s *stack) {
	p := newStorm(t, s)
	there, id := p.ready(small, ""), p.newID()
	p.away("")
	restore := func() { s.sim.control(t, http.MethodDelete, "faults", "", nil) }
	defer restore()
	created := p.put(id, small, "").want(t, http.StatusAccepted).operation()
	removed := p.delete(there, small).want(t, http.StatusAccepted).operation()
	// Longer than the first few polls of both.
	down := time.Now().Add(5 * time.Second)
	p.until(long, "a while has passed", func() bool {
		p.send(http.MethodGet, "/v2/catalog", "").want(t, http.StatusOK)
		for path, operation := range map[string]string{at(id): created, at(there): removed} {
			if a := p.poll(path, operation); a.text("state") != "in progress" {
				t.Fatalf("%s: %d %s while Cloud Foundry is away", operation, a.status, a.body)
			}
		}
		if again := p.put(id, small, "").want(t, http.StatusAccepted).operation(); again != created {
			t.Errorf("a duplicate has the operation %s, want %s", again, created)
		}
		return time.Now().After(down)
	})
	restore()
	p.gets("succeeded", at(id), created)
	p.gets("succeeded", at(there), removed)
	p.gone(there, small)
	p.kept(id, small)
}
