package process

import (
	"bufio"
	"bytes"
	"context"
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
	// What a broker may take after ten thousand instances.
	maxHeapMiB = 64
	maxPeakMiB = 96

	crowd         = 64
	instances     = 10_000
	instancesFast = 1_000
	// A start is held against that of `ferry version`, the same machine's figure for a process that does nothing.
	slowestStart = 100
)

// TestFootprint holds the memory of `ferry serve` against its limits after many instances have gone through it: half of
// them are there in the end, half were deleted again. The simulated Cloud Foundry is another process, as a real one is.
func TestFootprint(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	n := instances
	if testing.Short() {
		n = instancesFast
	}
	sim := startSim(t, "--job-delay", "0s", "--broker-delay", "0s", "--poll-interval", "10ms")
	s := setup{client: "crowd", password: "crowd", api: sim, org: "ferry", secret: "ferry", settleAfter: 5 * time.Second}
	serve := start(t, "serve", "--config", s.write(t), "--data", filepath.Join(t.TempDir(), "data"), "--listen", "127.0.0.1:0", "--log-format", "json")
	figures := crowdThrough(ctx, t, serve, n)
	t.Log(figures)
	if figures.heapMiB > maxHeapMiB {
		t.Errorf("heap in use %.1f MiB, over %d", figures.heapMiB, maxHeapMiB)
	}
	if figures.peakMiB > maxPeakMiB {
		t.Errorf("peak of resident memory %.1f MiB, over %d", figures.peakMiB, maxPeakMiB)
	}
}

// footprint is what a process took.
type footprint struct {
	idleHeapMiB, heapMiB, idlePeakMiB, peakMiB float64
	took                                       time.Duration
	done                                       int
}

func (f footprint) String() string {
	return fmt.Sprintf("%d instances in %.1f s (%.0f a second); heap in use %.1f MiB (at first %.1f), peak of resident memory %.1f MiB (at first %.1f)",
		f.done, f.took.Seconds(), float64(f.done)/f.took.Seconds(), f.heapMiB, f.idleHeapMiB, f.peakMiB, f.idlePeakMiB)
}

// crowdThrough creates n instances through 64 callers, and deletes every second.
func crowdThrough(ctx context.Context, t *testing.T, serve *program, n int) (f footprint) {
	t.Helper()
	url, err := serve.address(ctx, brokerListens)
	if err != nil {
		t.Fatal(err)
	}
	p := newPlatform("crowd", "crowd", &http.Transport{MaxIdleConnsPerHost: crowd})
	p.address.open(url)
	plans, err := p.plans(ctx)
	if err != nil {
		t.Fatal(err)
	}
	f.idleHeapMiB, f.idlePeakMiB = measure(ctx, t, url, serve)
	began := time.Now()
	var next atomic.Int64
	errs := make([]error, crowd)
	var all sync.WaitGroup
	for i := range crowd {
		all.Go(func() {
			for id := next.Add(1); id <= int64(n) && errs[i] == nil; id = next.Add(1) {
				errs[i] = p.comeAndGo(ctx, fmt.Sprintf("crowd-%05d", id), plans["postgres/small"], id%2 == 0)
			}
		})
	}
	all.Wait()
	for _, err := range errs {
		if err != nil {
			t.Fatal(err)
		}
	}
	f.took, f.done = time.Since(began), n
	f.heapMiB, f.peakMiB = measure(ctx, t, url, serve)
	return f
}

// comeAndGo creates an instance and waits until it is there; then it may be deleted.
func (p *platform) comeAndGo(ctx context.Context, id string, plan osbtest.Plan, leaves bool) error {
	path := "/v2/service_instances/" + id
	body := map[string]any{
		"service_id": plan.ServiceID, "plan_id": plan.PlanID, "organization_guid": "o", "space_guid": "s",
		"parameters": map[string]any{"name": id}, "context": map[string]any{"platform": "kubernetes", "namespace": "n"},
	}
	if err := p.through(ctx, http.MethodPut, path, path+"?"+incomplete, body); err != nil || !leaves {
		return err
	}
	return p.through(ctx, http.MethodDelete, path, path+"?"+incomplete+"&"+hints(plan), nil)
}

// through sends a request and waits until its operation has succeeded.
func (p *platform) through(ctx context.Context, method, path, url string, body any) error {
	a, err := p.send(ctx, method, url, body)
	if err != nil {
		return err
	}
	if a.Status != http.StatusAccepted {
		return wrong(method, path, a, "202")
	}
	state, err := p.end(ctx, path, a.Operation())
	if err == nil && state != "succeeded" {
		err = fmt.Errorf("%w: %s of %s %s", errWrong, method, path, state)
	}
	return err
}

// measure reads the heap in use from the metrics and the peak from the kernel.
func measure(ctx context.Context, t *testing.T, url string, p *program) (heapMiB, peakMiB float64) {
	t.Helper()
	page, _, err := fetch(ctx, url+"/metrics")
	if err != nil {
		t.Fatal(err)
	}
	heap, ok := figure(page, "go_memstats_heap_inuse_bytes")
	if !ok {
		t.Fatalf("no heap in the metrics:\n%s", page)
	}
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.command.Process.Pid))
	if err != nil {
		t.Skipf("this system does not say what a process takes: %v", err)
	}
	peak, ok := figure(status, "VmHWM:")
	if !ok {
		t.Fatalf("no peak in:\n%s", status)
	}
	return heap / (1 << 20), peak / (1 << 10)
}

// figure returns the number that follows a name at the beginning of a line.
func figure(page []byte, name string) (float64, bool) {
	lines := bufio.NewScanner(bytes.NewReader(page))
	for lines.Scan() {
		if fields := strings.Fields(lines.Text()); len(fields) > 1 && fields[0] == name {
			f, err := strconv.ParseFloat(fields[1], 64)
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
