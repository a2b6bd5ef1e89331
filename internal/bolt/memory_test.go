package bolt

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ferry-broker/ferry/internal/broker"
	"github.com/ferry-broker/ferry/internal/lifecycle"
)

const (
	loadRecords = 10_000
	loadWriters = 64
)

// loadAndWeigh takes 10,000 instances through a create of five writes and says the
// process's peak memory.
func loadAndWeigh(dir string) error {
	s, err := openHere(dir)
	if err != nil {
		return err
	}
	failed := make(chan error, loadWriters)
	var writers sync.WaitGroup
	for w := range loadWriters {
		writers.Go(func() {
			for n := w; n < loadRecords; n += loadWriters {
				if err := provision(s, n); err != nil {
					failed <- err
					return
				}
			}
		})
	}
	writers.Wait()
	close(failed)
	if err := <-failed; err != nil {
		return err
	}
	stats := s.Stats()
	fmt.Println("commits", stats.Commits, "writes", stats.Writes)
	return errors.Join(s.Close(), sayPeak())
}

func provision(s *Store, n int) error {
	key := broker.Key{Client: "client", InstanceID: fmt.Sprintf("%08x-1111-2222-3333-%012d", uint32(n)*2654435761, n)}
	for revision := range int64(5) {
		r := typical(key)
		if revision < 2 {
			r.Parameters = []byte(`{"size":"large","password":"` + strings.Repeat("x", 200) + `"}`)
		}
		if revision == 4 {
			r.Lifecycle.State = lifecycle.Ready
		}
		if _, err := s.Put(context.Background(), r, revision); err != nil {
			return err
		}
	}
	return nil
}

// typical weighs what a Kubernetes platform makes a record weigh.
func typical(key broker.Key) broker.Record {
	guid := "6f1b3e0a-9f3e-4c55-8a59-0123456789ab"
	r := plain(key, guid, "")
	r.Salt = make([]byte, 16)
	r.Attributes = broker.Attributes{ServiceID: guid, PlanID: guid, OfferingName: "postgres", PlanGUID: guid, Parameters: guid + guid, Owner: guid + guid}
	r.Context = []byte(`{"platform":"kubernetes","namespace":"a-namespace","clusterid":"` + guid + `","instance_name":"` + guid + `"}`)
	r.OriginatingIdentity = "kubernetes " + strings.Repeat("eyJ1c2VybmFtZSI6", 12)
	r.Lifecycle.CFGUID = guid
	r.Lifecycle.Finished = []lifecycle.Finished{{ID: "create-" + guid, Verb: lifecycle.Create, Succeeded: true, EndedAt: time.Unix(1e9, 0)}}
	return r
}

// openAndWeigh says how long an open of what is there takes.
func openAndWeigh(dir string) error {
	began := time.Now()
	s, err := openHere(dir)
	if err != nil {
		return err
	}
	fmt.Println("opened", time.Since(began))
	return errors.Join(s.Close(), sayPeak())
}

// sayPeak prints the largest resident size that the process ever had.
func sayPeak() error {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(status)) {
		if kib, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			fmt.Println("peak", strings.TrimSuffix(strings.TrimSpace(kib), " kB"))
		}
	}
	return nil
}

func TestTenThousandRecords(t *testing.T) {
	t.Parallel()
	if _, err := os.Stat("/proc/self/status"); err != nil || raceDetector {
		t.Skip("the size of a process without the race detector is measured, on Linux")
	}
	if testing.Short() {
		t.Skip("writes 50,000 times")
	}
	dir := t.TempDir()
	load := said(t, startRole(t, "load", dir))
	restart := said(t, startRole(t, "restart", dir))
	t.Logf("load: %v; restart: %v", load, restart)
	var peak int
	if _, err := fmt.Sscan(load["peak"], &peak); err != nil || peak > 96<<10 {
		t.Errorf("peak memory of the load: %s KiB; want at most 96 MiB", load["peak"])
	}
	if took, err := time.ParseDuration(restart["opened"]); err != nil || took > time.Second {
		t.Errorf("open took %s; want less than a second", restart["opened"])
	}
}

// said returns the words that a process printed, by their names.
func said(t *testing.T, p *process) map[string]string {
	t.Helper()
	lines, err := p.rest()
	if err != nil {
		t.Fatalf("%v: %q", err, lines)
	}
	words := map[string]string{}
	for _, line := range lines {
		name, value, _ := strings.Cut(line, " ")
		words[name] = value
	}
	return words
}
