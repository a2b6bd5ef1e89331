package process

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ferry-broker/ferry/internal/osbtest"
)

const (
	// What a broker may take after thousands of instances, and with ten thousand operations in flight.
	maxHeapMiB     = 64
	maxPeakMiB     = 96
	maxResidentMiB = 64

	callers       = 128
	instances     = 2_000
	instancesFast = 500
	inFlight      = 10_000
	inFlightFast  = 1_000
	// A start is held against that of `ferry version`, the same machine's figure for a process that does nothing.
	slowestStart = 100
)

// TestFootprint holds the memory of `ferry serve` against its limits. First many instances go through it: half of them
// are there in the end, half were deleted again. Then it begins on the same data, and many operations are in flight
// that Cloud Foundry does not finish. The simulated Cloud Foundry is another process, as a real one is.
func TestFootprint(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	through, waiting := instances, inFlight
	if testing.Short() {
		through, waiting = instancesFast, inFlightFast
	}
	// A backing broker that answers at once is not polled, and the others are not asked again during the test.
	sim := startSim(t, "--job-delay", "0s", "--broker-delay", "1h", "--poll-interval", "1h")
	s := setup{client: "crowd", password: "crowd", api: sim, org: "ferry", secret: "ferry", settleAfter: 5 * time.Second}
	data := filepath.Join(t.TempDir(), "data")
	comeAndGo(ctx, t, startServe(t, s, data), through)
	s.settleAfter, s.polling = 20*time.Minute, "{first: 2s, max: 1m}" // as they are unless somebody changes them
	stayInFlight(ctx, t, startServe(t, s, data), waiting)
}

func startServe(t *testing.T, s setup, data string) *program {
	t.Helper()
	return start(t, "serve", "--config", s.write(t), "--data", data, "--listen", "127.0.0.1:0", "--log-format", "json")
}

// comeAndGo creates n instances, deletes every second, measures, and stops the broker.
func comeAndGo(ctx context.Context, t *testing.T, serve *program, n int) {
	t.Helper()
	p, plans := platformOf(ctx, t, serve)
	idle := measure(ctx, t, serve)
	began := time.Now()
	together(t, n, func(i int) error {
		return p.comeAndGo(ctx, fmt.Sprintf("crowd-%05d", i), plans["postgres/small"], i%2 == 0)
	})
	took, now := time.Since(began).Seconds(), measure(ctx, t, serve)
	t.Logf("%d instances in %.1f s (%.0f a second); at first %s; then %s", n, took, float64(n)/took, idle, now)
	if now.heapMiB > maxHeapMiB {
		t.Errorf("heap in use %.1f MiB, over %d", now.heapMiB, maxHeapMiB)
	}
	if now.peakMiB > maxPeakMiB {
		t.Errorf("peak of resident memory %.1f MiB, over %d", now.peakMiB, maxPeakMiB)
	}
	if err := serve.stop(ctx); err != nil {
		t.Error(err)
	}
}

// stayInFlight begins n creates that do not end. Once Cloud Foundry has all of them, the memory is to be below its
// limit soon: it is given back in the background.
func stayInFlight(ctx context.Context, t *testing.T, serve *program, n int) {
	t.Helper()
	p, plans := platformOf(ctx, t, serve)
	began := time.Now()
	together(t, n, func(i int) error {
		_, _, err := p.begin(ctx, fmt.Sprintf("flight-%05d", i), plans["postgres/async"])
		return err
	})
	accepted := time.Since(began).Seconds()
	measureWhile(ctx, t, serve, func(f footprint) bool { return f.sent < n })
	sent := time.Now()
	now := measureWhile(ctx, t, serve, func(f footprint) bool {
		return f.residentMiB > maxResidentMiB && time.Since(sent) < memoryBack
	})
	t.Logf("%d in flight, accepted after %.1f s, sent after %.1f s, measured %.1f s later: %s",
		n, accepted, sent.Sub(began).Seconds(), time.Since(sent).Seconds(), now)
	if now.residentMiB > maxResidentMiB {
		t.Errorf("resident memory %.1f MiB with %d operations in flight, over %d", now.residentMiB, n, maxResidentMiB)
	}
}

// memoryBack is how long a process has to give memory back: the runtime does that in the background, slowly.
const memoryBack = 30 * time.Second

// measureWhile measures again and again until it has seen what it waits for.
func measureWhile(ctx context.Context, t *testing.T, serve *program, goOn func(footprint) bool) footprint {
	t.Helper()
	for {
		now := measure(ctx, t, serve)
		if !goOn(now) {
			return now
		}
		if err := wait(ctx, 200*time.Millisecond); err != nil {
			t.Fatalf("%v: %s, and %d creates sent", err, now, now.sent)
		}
	}
}

// platformOf returns a platform that talks to the broker, and the plans.
func platformOf(ctx context.Context, t *testing.T, serve *program) (*platform, map[string]osbtest.Plan) {
	t.Helper()
	url, err := serve.address(ctx, brokerListens)
	if err != nil {
		t.Fatal(err)
	}
	p := newPlatform("crowd", "crowd", &http.Transport{MaxIdleConnsPerHost: callers})
	p.address.open(url)
	plans, err := p.plans(ctx)
	if err != nil {
		t.Fatal(err)
	}
	return p, plans
}

// together calls do for each number from 1 to n through the callers, until one of them fails.
func together(t *testing.T, n int, do func(i int) error) {
	t.Helper()
	var next atomic.Int64
	errs := make([]error, callers)
	var all sync.WaitGroup
	for c := range callers {
		all.Go(func() {
			for i := next.Add(1); i <= int64(n) && errs[c] == nil; i = next.Add(1) {
				errs[c] = do(int(i))
			}
		})
	}
	all.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

// comeAndGo creates an instance and waits until it is there; then it may be deleted.
func (p *platform) comeAndGo(ctx context.Context, id string, plan osbtest.Plan, leaves bool) error {
	path, operation, err := p.begin(ctx, id, plan)
	if err == nil {
		err = p.succeeds(ctx, path, operation)
	}
	if err != nil || !leaves {
		return err
	}
	operation, err = p.accepted(ctx, http.MethodDelete, path+"?"+incomplete+"&"+hints(plan), nil)
	if err != nil {
		return err
	}
	return p.succeeds(ctx, path, operation)
}

// begin asks for an instance, and returns its path and the operation.
func (p *platform) begin(ctx context.Context, id string, plan osbtest.Plan) (path, operation string, err error) {
	path = "/v2/service_instances/" + id
	body := map[string]any{
		"service_id": plan.ServiceID, "plan_id": plan.PlanID, "organization_guid": "o", "space_guid": "s",
		"parameters": map[string]any{"name": id}, "context": map[string]any{"platform": "kubernetes", "namespace": "n"},
	}
	operation, err = p.accepted(ctx, http.MethodPut, path+"?"+incomplete, body)
	return path, operation, err
}

// accepted sends a request that begins an operation.
func (p *platform) accepted(ctx context.Context, method, url string, body any) (operation string, err error) {
	a, err := p.send(ctx, method, url, body)
	if err != nil {
		return "", err
	}
	if a.Status != http.StatusAccepted {
		return "", wrong(method, url, a, "202")
	}
	return a.Operation(), nil
}

// succeeds waits until the operation has succeeded.
func (p *platform) succeeds(ctx context.Context, path, operation string) error {
	state, err := p.end(ctx, path, operation)
	if err == nil && state != "succeeded" {
		err = fmt.Errorf("%w: %s of %s %s", errWrong, operation, path, state)
	}
	return err
}

// footprint is what a process takes, and how many creates Cloud Foundry has accepted from it.
type footprint struct {
	heapMiB, residentMiB, filesMiB, peakMiB float64
	sent                                    int
}

func (f footprint) String() string {
	return fmt.Sprintf("heap in use %.1f MiB, resident %.1f MiB (%.1f of files), at most %.1f MiB", f.heapMiB, f.residentMiB, f.filesMiB, f.peakMiB)
}

// measure reads the heap in use from the metrics, and resident memory from the kernel.
func measure(ctx context.Context, t *testing.T, p *program) (f footprint) {
	t.Helper()
	url, err := p.address(ctx, brokerListens)
	if err != nil {
		t.Fatal(err)
	}
	page, _, err := fetch(ctx, url+"/metrics")
	if err != nil {
		t.Fatal(err)
	}
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.command.Process.Pid))
	if err != nil {
		t.Skipf("this system does not say what a process takes: %v", err)
	}
	mustFigure := func(of []byte, name string) float64 {
		value, ok := figure(of, name)
		if !ok {
			t.Fatalf("no %s in:\n%s", name, of)
		}
		return value
	}
	sent, _ := figure(page, `ferry_cloud_foundry_call_duration_seconds_count{call="POST /v3/service_instances",result="202"}`) // none at first
	return footprint{
		sent:    int(sent),
		heapMiB: mustFigure(page, "go_memstats_heap_inuse_bytes") / (1 << 20), residentMiB: mustFigure(status, "VmRSS:") / (1 << 10),
		filesMiB: mustFigure(status, "RssFile:") / (1 << 10), peakMiB: mustFigure(status, "VmHWM:") / (1 << 10),
	}
}

// figure returns the number that follows a name at the beginning of a line.
func figure(page []byte, name string) (float64, bool) {
	lines := bufio.NewScanner(bytes.NewReader(page))
	for lines.Scan() {
		if rest, ok := strings.CutPrefix(lines.Text(), name); ok && len(strings.Fields(rest)) > 0 {
			f, err := strconv.ParseFloat(strings.Fields(rest)[0], 64)
			return f, err == nil
		}
	}
	return 0, false
}

// TestStartIsQuick starts `ferry serve --simulate-cf` three times and holds the best against the best start of `ferry
// version`. The time itself is in the log.
func TestStartIsQuick(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	ready, nothing := time.Hour, time.Hour
	for range 3 {
		began := time.Now()
		p, err := launch("version")
		if err != nil {
			t.Fatal(err)
		}
		<-p.ended
		nothing = min(nothing, time.Since(began))

		began = time.Now()
		p = start(t, "serve", "--simulate-cf", "--listen", "127.0.0.1:0", "--log-format", "json")
		url, err := p.address(ctx, brokerListens)
		if err != nil {
			t.Fatal(err)
		}
		if _, status, err := fetch(ctx, url+"/healthz"); err != nil || status != http.StatusOK {
			t.Fatalf("healthz: %d, %v", status, err)
		}
		ready = min(ready, time.Since(began))
		if err := p.stop(ctx); err != nil {
			t.Error(err)
		}
	}
	t.Logf("ready after %v; a process that does nothing took %v", ready, nothing)
	if ready > slowestStart*nothing {
		t.Errorf("ready after %v, over %d times the %v of a process that does nothing", ready, slowestStart, nothing)
	}
}
