//go:build unix

package bench

import (
	"bufio"
	"bytes"
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
	"strconv"
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
	address string
	// operation is that of instance "i", which has ended.
	operation string
	// made is how many instances there are besides.
	made atomic.Int64

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
	o := &opponent{in: in, out: bufio.NewReader(out)}
	b.Cleanup(func() {
		_ = in.Close()
		if err := command.Wait(); err != nil {
			b.Error(err)
		}
	})
	url, err := o.out.ReadString('\n')
	if err != nil {
		b.Fatal(err)
	}
	o.address = strings.TrimPrefix(strings.TrimSpace(url), "http://")
	method, target, body := creation()
	var created struct{ Operation string }
	if err := json.Unmarshal(o.must(b, method, target, body, http.StatusAccepted), &created); err != nil {
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

// must sends one request.
func (o *opponent) must(b *testing.B, method, target, body string, status int) []byte {
	b.Helper()
	l, err := o.connect()
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = l.conn.Close() }()
	answer, err := l.send(method, target, body, status)
	if err != nil {
		b.Fatal(err)
	}
	return answer
}

// line is a connection to a server. What net/http's client costs for a request, several times what a server does, would
// be taken from both and make them look alike; this one writes a text, and reads one.
type line struct {
	conn net.Conn
	in   *bufio.Reader
	text []byte
}

func (o *opponent) connect() (*line, error) {
	conn, err := net.Dial("tcp", o.address)
	if err != nil {
		return nil, err
	}
	return &line{conn: conn, in: bufio.NewReader(conn)}, nil
}

// send sends one request and returns the answer's body, which is valid until the next one.
func (l *line) send(method, target, body string, status int) ([]byte, error) {
	l.text = fmt.Appendf(l.text[:0], "%s %s HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Basic dGVuYW50OnNlY3JldA==\r\n"+
		"X-Broker-Api-Version: 2.17\r\nX-Broker-Api-Request-Identity: 1f0e6a2c-7c1d-4f0e-9d55-0f8f1b9b6f0e\r\n"+
		"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", method, target, len(body), body)
	if _, err := l.conn.Write(l.text); err != nil {
		return nil, err
	}
	got, length := 0, -1
	for {
		text, err := l.in.ReadSlice('\n')
		if err != nil {
			return nil, err
		}
		name, value, _ := bytes.Cut(bytes.TrimSpace(text), []byte(" "))
		switch {
		case len(name) == 0 && length < 0:
			return nil, fmt.Errorf("%s %s: an answer of unknown length", method, target)
		case len(name) == 0:
			l.text = slices.Grow(l.text[:0], length)[:length]
			if _, err := io.ReadFull(l.in, l.text); err != nil || got != status {
				return nil, errors.Join(err, fmt.Errorf("%s %s: %d %s, want %d", method, target, got, l.text, status))
			}
			return l.text, nil
		case string(name) == "HTTP/1.1":
			got, err = strconv.Atoi(string(value[:3]))
		case string(name) == "Content-Length:":
			length, err = strconv.Atoi(string(value))
		}
		if err != nil {
			return nil, err
		}
	}
}

// contest is a request that is compared.
type contest func(*opponent, *line) error

// contests are the requests that are compared.
func contests() map[string]contest {
	method, target, body := creation()
	return map[string]contest{
		"catalog": func(_ *opponent, l *line) error {
			_, err := l.send(http.MethodGet, "/v2/catalog", "", http.StatusOK)
			return err
		},
		"poll": func(o *opponent, l *line) error {
			_, err := l.send(http.MethodGet, instance+"/last_operation?operation="+o.operation, "", http.StatusOK)
			return err
		},
		"duplicate": func(_ *opponent, l *line) error {
			_, err := l.send(method, target, body, http.StatusOK)
			return err
		},
		"create": func(o *opponent, l *line) error {
			id := fmt.Sprintf("made-%d", o.made.Add(1))
			_, err := l.send(method, strings.Replace(target, instance, "/v2/service_instances/"+id, 1), body, http.StatusAccepted)
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
func (o *opponent) play(b *testing.B, callers int, call contest) turn {
	b.Helper()
	lines := make([]*line, callers)
	for n := range lines {
		l, err := o.connect()
		if err != nil {
			b.Fatal(err)
		}
		defer func() { _ = l.conn.Close() }()
		lines[n] = l
	}
	before := o.used(b)
	var calls atomic.Int64
	var failed atomic.Pointer[error]
	var all sync.WaitGroup
	began := time.Now()
	for _, l := range lines {
		all.Go(func() {
			for time.Since(began) < turnTime && failed.Load() == nil {
				if err := call(o, l); err != nil {
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
func startPeer(b *testing.B, catalog []byte) *opponent {
	b.Helper()
	folder := b.TempDir()
	program, served := filepath.Join(folder, "peer"), filepath.Join(folder, "catalog.json")
	if err := os.WriteFile(served, catalog, 0o600); err != nil {
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
