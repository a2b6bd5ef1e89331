//go:build unix

package bench

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// figures are what a server has used so far. The peer has the same type.
type figures struct {
	CPU         time.Duration // of user and system
	Allocations uint64
	Bytes       uint64
	// Syncs are the calls to make the store's file durable; the peer has none.
	Syncs uint64
}

// serverFolder names, in the environment of this test program, the folder of a store. It is then Ferry's server.
const serverFolder = "FERRY_BENCH_FOLDER"

func TestMain(m *testing.M) {
	folder := os.Getenv(serverFolder)
	if folder == "" {
		os.Exit(m.Run())
	}
	if err := serveFerry(context.Background(), folder, os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// serveFerry does what main of the peer does: it writes the URL, a line of figures for each line of input, and ends
// with it.
func serveFerry(ctx context.Context, folder string, in io.Reader, out io.Writer) error {
	handler, store, err := newBroker(ctx, folder, 0)
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	server := http.Server{ // with the timeouts of package server
		Handler: handler, ReadHeaderTimeout: 10 * time.Second, ReadTimeout: 30 * time.Second,
		WriteTimeout: 2 * time.Minute, IdleTimeout: 2 * time.Minute,
	}
	go func() { _ = server.Serve(listener) }() // until the process ends
	if _, err := fmt.Fprintf(out, "http://%s\n", listener.Addr()); err != nil {
		return err
	}
	lines := bufio.NewScanner(in)
	for lines.Scan() {
		now := usage()
		now.Syncs = syncsPerCommit * store.Stats().Commits
		if err := json.NewEncoder(out).Encode(now); err != nil {
			return err
		}
	}
	return errors.Join(lines.Err(), server.Close(), store.Close())
}

func usage() figures {
	var used syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &used) // fails for no process of its own
	var memory runtime.MemStats
	runtime.ReadMemStats(&memory)
	return figures{
		CPU:         time.Duration(used.Utime.Nano() + used.Stime.Nano()),
		Allocations: memory.Mallocs, Bytes: memory.TotalAlloc,
	}
}

// opponent is one of the two servers.
type opponent struct {
	url string
	// operation is that of instance "i", which has ended.
	operation string
	// made is how many instances there are besides.
	made atomic.Int64
	http http.Client

	in  io.Writer
	out *bufio.Reader
}

// start starts a server and makes instance "i" on it.
func start(b *testing.B, command *exec.Cmd) *opponent {
	b.Helper()
	command.Stderr = os.Stderr
	in, err := command.StdinPipe()
	if err != nil {
		b.Fatal(err)
	}
	out, err := command.StdoutPipe()
	if err == nil {
		err = command.Start()
	}
	if err != nil {
		b.Fatal(err)
	}
	o := &opponent{in: in, out: bufio.NewReader(out), http: http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 128}}}
	b.Cleanup(func() {
		o.http.CloseIdleConnections()
		_ = in.Close()
		if err := command.Wait(); err != nil {
			b.Error(err)
		}
	})
	url, err := o.out.ReadString('\n')
	if err != nil {
		b.Fatal(err)
	}
	o.url = strings.TrimSpace(url)
	method, target, body := creation()
	var created struct{ Operation string }
	if err := json.Unmarshal([]byte(o.must(b, method, target, body, http.StatusAccepted)), &created); err != nil {
		b.Fatal(err)
	}
	o.operation = created.Operation
	return o
}

func (o *opponent) used(b *testing.B) (f figures) {
	b.Helper()
	if _, err := io.WriteString(o.in, "\n"); err != nil {
		b.Fatal(err)
	}
	line, err := o.out.ReadBytes('\n')
	if err == nil {
		err = json.Unmarshal(line, &f)
	}
	if err != nil {
		b.Fatal(err)
	}
	return f
}

func (o *opponent) must(b *testing.B, method, target, body string, status int) string {
	b.Helper()
	answer, err := o.send(method, target, body, status)
	if err != nil {
		b.Fatal(err)
	}
	return answer
}

// send is one request, of a client that is the same for both.
func (o *opponent) send(method, target, body string, status int) (string, error) {
	request, err := http.NewRequest(method, o.url+target, strings.NewReader(body))
	if err != nil {
		return "", err
	}
	request.SetBasicAuth(tenant, "secret")
	request.Header.Set("X-Broker-API-Version", "2.17")
	request.Header.Set("X-Broker-API-Request-Identity", "1f0e6a2c-7c1d-4f0e-9d55-0f8f1b9b6f0e")
	answer, err := o.http.Do(request)
	if err != nil {
		return "", err
	}
	defer func() { _ = answer.Body.Close() }()
	text, err := io.ReadAll(answer.Body)
	if err == nil && answer.StatusCode != status {
		err = fmt.Errorf("%s %s: %d %s, want %d", method, target, answer.StatusCode, text, status)
	}
	return string(text), err
}

// contests are the requests that are compared.
func contests() map[string]func(*opponent) error {
	method, target, body := creation()
	return map[string]func(*opponent) error{
		"catalog": func(o *opponent) error {
			_, err := o.send(http.MethodGet, "/v2/catalog", "", http.StatusOK)
			return err
		},
		"poll": func(o *opponent) error {
			_, err := o.send(http.MethodGet, instance+"/last_operation?operation="+o.operation, "", http.StatusOK)
			return err
		},
		"duplicate": func(o *opponent) error {
			_, err := o.send(method, target, body, http.StatusOK)
			return err
		},
		"create": func(o *opponent) error {
			id := fmt.Sprintf("made-%d", o.made.Add(1))
			_, err := o.send(method, strings.Replace(target, instance, "/v2/service_instances/"+id, 1), body, http.StatusAccepted)
			return err
		},
	}
}

// turn is what one server did within a turn.
type turn struct {
	calls int
	rate  float64 // calls a second
	used  figures
}

// turnTime is how long a server is asked before it is the other one's turn, and turnsEach how often each has one.
const (
	turnTime  = time.Second
	turnsEach = 7
)

// play lets so many callers send one request after the other for a turn.
func (o *opponent) play(b *testing.B, callers int, call func(*opponent) error) turn {
	b.Helper()
	before := o.used(b)
	var calls atomic.Int64
	var failed atomic.Pointer[error]
	var all sync.WaitGroup
	began := time.Now()
	for range callers {
		all.Go(func() {
			for time.Since(began) < turnTime && failed.Load() == nil {
				if err := call(o); err != nil {
					failed.Store(&err)
					return
				}
				calls.Add(1)
			}
		})
	}
	all.Wait()
	took := time.Since(began)
	if err := failed.Load(); err != nil {
		b.Fatal(*err)
	}
	after := o.used(b)
	return turn{calls: int(calls.Load()), rate: float64(calls.Load()) / took.Seconds(), used: figures{
		CPU: after.CPU - before.CPU, Allocations: after.Allocations - before.Allocations,
		Bytes: after.Bytes - before.Bytes, Syncs: after.Syncs - before.Syncs,
	}}
}

// startPeer builds the peer, which is a module of its own, and has it serve this catalog.
func startPeer(b *testing.B, catalog string) *opponent {
	b.Helper()
	folder := b.TempDir()
	program, served := filepath.Join(folder, "peer"), filepath.Join(folder, "catalog.json")
	if err := os.WriteFile(served, []byte(catalog), 0o600); err != nil {
		b.Fatal(err)
	}
	if text, err := exec.CommandContext(b.Context(), "go", "-C", "peer", "build", "-o", program, ".").CombinedOutput(); err != nil {
		b.Fatalf("build the peer: %v\n%s", err, text)
	}
	return start(b, exec.Command(program, served))
}

// BenchmarkPeer measures Ferry against a broker that is made with brokerapi and keeps everything in memory: both over
// HTTP, in alternating turns, so that what else this machine does meets both. The ratio is the median of those of the
// turns that followed each other. What a server's process used for a request is less noisy than how many it answered,
// because the client is on the same machine.
func BenchmarkPeer(b *testing.B) {
	server := exec.Command(os.Args[0])
	server.Env = append(os.Environ(), serverFolder+"="+b.TempDir())
	ferry := start(b, server)
	catalog := ferry.must(b, http.MethodGet, "/v2/catalog", "", http.StatusOK)
	peer := startPeer(b, catalog)
	var t strings.Builder
	fmt.Fprintf(&t, "Ferry against a broker in memory, each request; the catalog has %d bytes.\n%-10s %8s %10s %10s %12s %14s %24s %20s\n",
		len(catalog), "", "callers", "a second", "the peer", "times as fast", "CPU, us", "allocations", "creates a sync")
	kinds := contests()
	for _, what := range []string{"catalog", "poll", "duplicate", "create"} {
		for _, callers := range []int{1, 64} {
			b.Run(fmt.Sprintf("%s/callers=%d", what, callers), func(b *testing.B) {
				var ours, theirs []turn
				for n := range turnsEach { // who begins takes turns, too
					if n%2 == 0 {
						ours = append(ours, ferry.play(b, callers, kinds[what]))
					}
					theirs = append(theirs, peer.play(b, callers, kinds[what]))
					if n%2 == 1 {
						ours = append(ours, ferry.play(b, callers, kinds[what]))
					}
				}
				t.WriteString(compare(b, what, callers, ours, theirs))
			})
		}
	}
	fmt.Print(t.String()) // the log of a benchmark with parts is not shown
}

// compare returns the line of the table about one request.
func compare(b *testing.B, what string, callers int, ours, theirs []turn) string {
	ratios := make([]float64, len(ours))
	for n := range ours {
		ratios[n] = ours[n].rate / theirs[n].rate
	}
	of := func(turns []turn, figure func(turn) float64) float64 {
		list := make([]float64, 0, len(turns))
		for _, t := range turns {
			list = append(list, figure(t))
		}
		return median(list)
	}
	rate := func(t turn) float64 { return t.rate }
	cpu := func(t turn) float64 { return float64(t.used.CPU.Microseconds()) / float64(t.calls) }
	allocations := func(t turn) float64 { return float64(t.used.Allocations) / float64(t.calls) }
	perSync := ""
	if syncs := of(ours, func(t turn) float64 { return float64(t.used.Syncs) }); syncs > 0 {
		perSync = fmt.Sprintf("%.1f", of(ours, func(t turn) float64 { return float64(t.calls) / float64(max(t.used.Syncs, 1)) }))
	}
	ratio := median(ratios)
	b.ReportMetric(ratio, "of-the-peer")
	return fmt.Sprintf("%-10s %8d %10.0f %10.0f %12.2fx %7.1f to %5.1f %14.1f to %7.1f %19s\n", what, callers,
		of(ours, rate), of(theirs, rate), ratio, of(ours, cpu), of(theirs, cpu), of(ours, allocations), of(theirs, allocations), perSync)
}

func median(list []float64) float64 {
	slices.Sort(list)
	return list[len(list)/2]
}
