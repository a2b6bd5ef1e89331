package process

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/ferry-broker/ferry/internal/osbtest"
)

const (
	brokers           = 4
	platformsEach     = 4
	killsEach         = 55
	killsEachWhenFast = 6
)

// TestKill kills brokers (SIGKILL) while platforms work with them, and starts them again; Cloud Foundry lives on. See
// laws 1 to 6 of ARCHITECTURE.md: every accepted operation ends by itself, what was made was made once, duplicates and
// repeated requests get the right answer, and nothing is left over.
//
// docs/protocol.md section 12 allows one exception to "once": a POST whose sender died, and that takes effect only
// after its successor has looked, may be carried out although the row that the successor made is gone again. The proxy
// knows those POSTs by name, so that the exact count is asked of all other names.
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
	results := make([]result, brokers)
	for i := range brokers {
		w := newWorld(t, fmt.Sprintf("kill-%d", i), seed+uint64(i))
		all.Go(func() { results[i] = w.run(ctx, kills) })
	}
	all.Wait()
	var sum result
	for i, r := range results {
		if r.err != nil {
			t.Errorf("victim %d: %v", i, r.err)
		}
		sum.add(r)
	}
	t.Log(sum)
	if !t.Failed() && sum.kills < brokers*kills {
		t.Errorf("%d kills, want %d", sum.kills, brokers*kills)
	}
	if h := sum.hits; kills == killsEach && !t.Failed() && (h.beforeAnswer == 0 || h.duringWrite == 0 || h.withOperations == 0) {
		t.Error("the kills missed what they are for")
	}
}

// result is what a victim saw.
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

// world is a victim with its platforms.
type world struct {
	*victim
	simulator string
	platform  *platform
	name      string
	seed      uint64
}

func newWorld(t *testing.T, name string, seed uint64) *world {
	t.Helper()
	simulator := startSim(t, "--job-delay", "15ms", "--broker-delay", "60ms", "--poll-interval", "20ms")
	proxy := newProxy(simulator)
	t.Cleanup(proxy.Close)
	s := setup{client: name, password: "pw-" + name, api: proxy.URL, org: "ferry", secret: "ferry", settleAfter: 3 * time.Second}
	transport := &http.Transport{MaxIdleConnsPerHost: 16}
	t.Cleanup(transport.CloseIdleConnections)
	platform := newPlatform(s.client, s.password, transport)
	w := &world{
		victim: &victim{
			config: s.write(t), data: filepath.Join(t.TempDir(), "data"), address: platform.address, proxy: proxy, tally: platform.tally,
			random: rand.New(rand.NewPCG(seed, 0)),
		},
		simulator: simulator, name: name, seed: seed, platform: platform,
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
	err := w.killAgainAndAgain(ctx, kills)
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

// victim holds one broker that is killed and started again, on one data folder, with its Cloud Foundry behind a proxy.
type victim struct {
	config, data string
	address      *address
	proxy        *proxy
	tally        *tally
	random       *rand.Rand // of the killer

	mu      sync.Mutex
	program *program
	kills   int
	hits    hits
}

// hits say what the kills met.
type hits struct {
	whileStarting, beforeAnswer, duringWrite, duringRead, withOperations, idle int
}

func (h *hits) add(o hits) {
	h.whileStarting += o.whileStarting
	h.beforeAnswer += o.beforeAnswer
	h.duringWrite += o.duringWrite
	h.duringRead += o.duringRead
	h.withOperations += o.withOperations
	h.idle += o.idle
}

// killAgainAndAgain starts the broker and kills it n times at moments that the seed decides. It leaves a running one
// behind.
func (v *victim) killAgainAndAgain(ctx context.Context, n int) error {
	for range n {
		if err := v.launch(); err != nil {
			return err
		}
		if v.random.IntN(10) == 0 { // a process that dies before it is ready
			if err := wait(ctx, time.Duration(v.random.IntN(60))*time.Millisecond); err != nil {
				return err
			}
			v.kill()
			continue
		}
		if err := v.ready(ctx); err != nil {
			return err
		}
		if err := v.killSomewhere(ctx); err != nil {
			return err
		}
	}
	if err := v.launch(); err != nil {
		return err
	}
	return v.ready(ctx)
}

func (v *victim) launch() error {
	p, err := launch("serve", "--config", v.config, "--data", v.data, "--listen", "127.0.0.1:0", "--log-format", "json", "--log-level", "info")
	if err != nil {
		return err
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	v.program = p
	return nil
}

// ready waits until the broker listens.
func (v *victim) ready(ctx context.Context) error {
	entry, err := v.current().out.find(ctx, brokerListens)
	if err != nil {
		return err
	}
	if resumed, _ := entry["resumed_operations"].(float64); resumed > 0 && v.kills > 0 {
		v.hits.withOperations++
	}
	url, _ := entry["url"].(string)
	v.address.open(url)
	return nil
}

func (v *victim) current() *program {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.program
}

// killSomewhere kills after a while, or at a call to Cloud Foundry: as it arrives there, or when its answer is on its
// way back.
func (v *victim) killSomewhere(ctx context.Context) error {
	uptime := time.Duration(100+v.random.IntN(500)) * time.Millisecond
	if v.random.IntN(3) == 0 {
		if err := wait(ctx, uptime); err != nil {
			return err
		}
		v.kill()
		return nil
	}
	methods := []string{http.MethodPost, http.MethodPost, http.MethodPatch, http.MethodDelete, http.MethodGet, ""}
	t := &trap{
		method: methods[v.random.IntN(len(methods))], skip: v.random.IntN(4), answer: v.random.IntN(2) == 0,
		lost: v.random.IntN(2) == 0, delay: time.Duration(v.random.IntN(400)) * time.Millisecond,
		kill: v.kill, sprung: make(chan struct{}),
	}
	v.proxy.set(t)
	select {
	case <-t.sprung:
		return nil
	case <-time.After(2 * uptime):
	case <-ctx.Done():
		return ctx.Err()
	}
	if v.proxy.set(nil) {
		v.kill() // no such call came
		return nil
	}
	<-t.sprung
	return nil
}

// kill kills, and notes what that met.
func (v *victim) kill() {
	listened := v.address.url.Load() != nil
	held := v.tally.inFlight.Load()
	v.address.shut() // before its port can be somebody else's
	v.current().kill()
	writes, reads := v.proxy.nextGeneration()
	v.mu.Lock()
	defer v.mu.Unlock()
	v.kills++
	switch {
	case !listened:
		v.hits.whileStarting++
	case held > 0:
		v.hits.beforeAnswer++
	}
	switch {
	case writes > 0:
		v.hits.duringWrite++
	case reads > 0:
		v.hits.duringRead++
	case listened && held == 0:
		v.hits.idle++
	}
}

func (v *victim) killCount() int {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.kills
}

func (h hits) String() string {
	return fmt.Sprintf("%d while it started, %d before a request was answered, %d within a POST, PATCH or DELETE to Cloud Foundry, "+
		"%d within a GET there, %d idle; %d left unfinished operations", h.whileStarting, h.beforeAnswer, h.duringWrite, h.duringRead, h.idle, h.withOperations)
}

// judge compares what platforms were told with what Cloud Foundry has.
func (w *world) judge(ctx context.Context, lives [][]*life, r *result) error {
	seen, err := readState(ctx, w.simulator)
	if err != nil {
		return err
	}
	keys := map[string][]string{}
	for _, i := range seen.Instances {
		if _, twice := keys[i.Name]; twice {
			return fmt.Errorf("two instances %s", i.Name)
		}
		keys[i.Name] = []string{}
		for _, k := range i.Keys {
			keys[i.Name] = append(keys[i.Name], k.Name)
		}
	}
	living := 0
	for _, l := range slices.Concat(lives...) {
		r.lives++
		if l.alive {
			living++
		}
		for _, check := range []func(context.Context, osbtest.CloudState, *life, *result) error{w.ended, w.once, w.onceEach} {
			if err := check(ctx, seen, l, r); err != nil {
				return fmt.Errorf("%s (%s): %w", l.id, l.planName, err)
			}
		}
		if err := l.leftovers(keys); err != nil {
			return fmt.Errorf("%s (%s): %w", l.id, l.planName, err)
		}
	}
	if len(seen.Instances) != living {
		return fmt.Errorf("%d instances in Cloud Foundry, want %d", len(seen.Instances), living)
	}
	return nil
}

// ended asks for every operation again: each has ended and is still known.
func (w *world) ended(ctx context.Context, _ osbtest.CloudState, l *life, r *result) error {
	for operation, path := range l.operations {
		if _, err := l.end(ctx, path, operation); err != nil {
			return err
		}
		r.operations++
	}
	return nil
}

// once holds the provisions against the incarnations. One that was given up may have been deleted before anything was
// sent for it.
func (w *world) once(_ context.Context, seen osbtest.CloudState, l *life, r *result) error {
	least, most := l.created, l.created+l.cancelled
	late := w.proxy.lateCalls(l.id)
	got := count(seen, l.id, "", "provision")
	switch {
	case late == 0:
		r.exact++
	case got > most:
		r.twice++
		fallthrough
	default:
		r.loose++
	}
	if got < least || got > most+late {
		return fmt.Errorf("provisioned %d times; %d incarnations, %d given up, %d late POSTs", got, l.created, l.cancelled, late)
	}
	if !l.alive && got > 0 {
		deprovisions := count(seen, l.id, "", "deprovision")
		if deprovisions < got || deprovisions > got+l.unsettled {
			return fmt.Errorf("provisioned %d times, deprovisioned %d times, with %d kills meanwhile", got, deprovisions, l.unsettled)
		}
		r.deprovisions += deprovisions - got
	}
	if u := count(seen, l.id, "", "update"); u < l.updates["least"] || u > l.updates["most"] {
		return fmt.Errorf("updated %d times, want %d to %d", u, l.updates["least"], l.updates["most"])
	}
	return nil
}

// onceEach holds the same for bindings.
func (w *world) onceEach(_ context.Context, seen osbtest.CloudState, l *life, r *result) error {
	for _, c := range seen.BrokerCalls {
		if c.Instance != l.id || c.Operation != "bind" {
			continue
		}
		r.binds++
		if most := 1 + w.proxy.lateCalls(c.Binding); c.Count > most {
			return fmt.Errorf("binding %s was made %d times, want %d at most", c.Binding, c.Count, most)
		}
	}
	return nil
}

// leftovers compares the keys that are there with those that are to be there.
func (l *life) leftovers(keys map[string][]string) error {
	got, there := keys[l.id]
	if there != l.alive {
		return fmt.Errorf("there: %t, want %t", there, l.alive)
	}
	want := []string{}
	for id, bound := range l.bindings {
		if bound {
			want = append(want, id)
		}
	}
	slices.Sort(got)
	slices.Sort(want)
	if l.alive && !slices.Equal(got, want) {
		return fmt.Errorf("keys %v, want %v", got, want)
	}
	return nil
}
