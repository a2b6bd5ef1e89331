package process

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"path/filepath"
	"sync"
	"testing"
	"time"
)

const (
	harbours          = 4
	platformsEach     = 4
	killsEach         = 55
	killsEachWhenFast = 6
)

// TestKill kills brokers (SIGKILL) while platforms work with them, and starts them
// again; Cloud Foundry lives on. See design laws 1 to 6: every accepted operation
// ends by itself, what was made was made once, duplicates and repeated requests get
// the right answer, and nothing is left over.
//
// docs/protocol.md section 12 allows one exception to "once": a POST whose sender
// died, and that takes effect only after its successor has looked, may be carried
// out although the row that the successor made is gone again. The strait knows
// those POSTs by name, so that the exact count is asked of all other names.
func TestKill(t *testing.T) {
	t.Parallel()
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	kills := killsEach
	if testing.Short() {
		kills = killsEachWhenFast
	}
	ctx, cancel := context.WithTimeout(t.Context(), 8*time.Minute)
	defer cancel()
	var all sync.WaitGroup
	results := make([]result, harbours)
	for i := range harbours {
		w := newWorld(t, fmt.Sprintf("kill-%d", i), seed+uint64(i))
		all.Go(func() { results[i] = w.run(ctx, kills) })
	}
	all.Wait()
	var sum result
	for i, r := range results {
		if r.err != nil {
			t.Errorf("harbour %d: %v", i, r.err)
		}
		sum.add(r)
	}
	t.Log(sum)
	if !t.Failed() && sum.kills < harbours*kills {
		t.Errorf("%d kills, want %d", sum.kills, harbours*kills)
	}
	if h := sum.hits; kills == killsEach && !t.Failed() && (h.beforeAnswer == 0 || h.duringWrite == 0 || h.withOperations == 0) {
		t.Error("the kills missed what they are for")
	}
}

// result is what a harbour saw.
type result struct {
	err                                             error
	kills, lives, operations                        int
	refused, lost, answered                         int64
	exact, loose, twice, binds, deprovisions, never int
	hits                                            hits
}

func (r *result) add(o result) {
	r.kills += o.kills
	r.lives += o.lives
	r.operations += o.operations
	r.refused, r.lost, r.answered = r.refused+o.refused, r.lost+o.lost, r.answered+o.answered
	r.exact, r.loose, r.twice = r.exact+o.exact, r.loose+o.loose, r.twice+o.twice
	r.binds, r.deprovisions, r.never = r.binds+o.binds, r.deprovisions+o.deprovisions, r.never+o.never
	r.hits.add(o.hits)
}

func (r result) String() string {
	return fmt.Sprintf("%d kills: %v. %d instance ids, %d operations known by name; %d requests answered, %d lost their answer, %d found nobody. "+
		"%d names with an exact count, %d with a late POST (%d of them made twice), %d binds, %d surplus deprovisions",
		r.kills, r.hits, r.lives, r.operations, r.answered, r.lost, r.refused, r.exact, r.loose, r.twice, r.binds, r.deprovisions)
}

// world is a harbour with its platforms.
type world struct {
	*harbour
	simulator string
	platform  *platform
	name      string
	seed      uint64
}

func newWorld(t *testing.T, name string, seed uint64) *world {
	t.Helper()
	simulator := startSim(t, "--job-delay", "15ms", "--broker-delay", "60ms", "--poll-interval", "20ms")
	strait := newStrait(simulator)
	t.Cleanup(strait.Close)
	figures, door := new(tally), new(door)
	s := setup{client: name, password: "pw-" + name, api: strait.URL, org: "ferry", secret: "ferry", settleAfter: 3 * time.Second}
	transport := &http.Transport{MaxIdleConnsPerHost: 16}
	t.Cleanup(transport.CloseIdleConnections)
	w := &world{
		harbour: &harbour{
			config: s.write(t), data: filepath.Join(t.TempDir(), "data"), door: door, strait: strait, tally: figures,
			random: rand.New(rand.NewPCG(seed, 0)),
		},
		simulator: simulator, name: name, seed: seed,
		platform: &platform{door: door, user: s.client, password: s.password, tally: figures, http: &http.Client{Transport: transport}},
	}
	t.Cleanup(func() {
		if p := w.current(); p != nil {
			p.kill()
			if t.Failed() {
				t.Logf("the end of the last log of %s:\n%s", name, tail(p.out.String(), 4000))
			}
		}
	})
	return w
}

func tail(s string, n int) string { return s[max(0, len(s)-n):] }

// run lets the platforms live until the kills are over and their last lives done.
func (w *world) run(ctx context.Context, kills int) (r result) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	over := make(chan struct{})
	var working sync.WaitGroup
	lives, errs := make([][]*life, platformsEach), make([]error, platformsEach)
	for i := range platformsEach {
		working.Go(func() {
			if lives[i], errs[i] = w.work(ctx, i, over); errs[i] != nil {
				cancel()
			}
		})
	}
	err := w.sail(ctx, kills)
	close(over)
	working.Wait()
	r = result{err: errors.Join(append(errs, err)...), kills: w.kills, hits: w.hits}
	r.refused, r.lost, r.answered = w.tally.refused.Load(), w.tally.lost.Load(), w.tally.answered.Load()
	if r.err == nil {
		r.err = w.judge(ctx, lives, &r)
	}
	return r
}

// work is one platform: one life after the other until the kills are over.
func (w *world) work(ctx context.Context, n int, over chan struct{}) (lives []*life, err error) {
	plans, err := w.platform.plans(ctx)
	if err != nil {
		return nil, err
	}
	random := rand.New(rand.NewPCG(w.seed, uint64(n)+1))
	for {
		select {
		case <-over:
			return lives, nil
		default:
		}
		l := &life{
			platform: w.platform, random: random, kills: w.killCount, plans: plans,
			id:      fmt.Sprintf("%s-%d-%d", w.name, n, len(lives)),
			updates: map[string]int{}, bindings: map[string]bool{}, operations: map[string]string{},
		}
		lives = append(lives, l)
		if err := l.live(ctx); err != nil {
			return lives, err
		}
	}
}
