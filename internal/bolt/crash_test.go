package bolt

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ferry-broker/ferry/internal/broker"
)

const crashWriters = 6

// writeForEver updates a record per writer as fast as it can and says each write that was acknowledged. Parameters
// come, stay, change and go.
func writeForEver(dir string) error {
	s, err := openHere(dir)
	if err != nil {
		return err
	}
	failed := make(chan error)
	for n := range crashWriters {
		go func() { failed <- writeOne(s, n) }()
	}
	go func() {
		for {
			if _, err := s.Purge(context.Background()); err != nil {
				failed <- err
			}
		}
	}()
	return <-failed
}

func writeOne(s *Store, n int) error {
	r, err := s.Get(context.Background(), bindingOf(n))
	if err != nil && !errors.Is(err, broker.ErrNotFound) {
		return err
	}
	for revision := r.Revision; ; revision++ {
		if _, err := s.Put(context.Background(), crashRecord(n, revision+1), revision); err != nil {
			return err
		}
		fmt.Printf("%d %d\n", n, revision+1)
	}
}

// crashRecord follows from its revision, so that what is read can be checked.
func crashRecord(n int, revision int64) broker.Record {
	parameters := ""
	if revision%5 != 0 {
		parameters = fmt.Sprintf(`{"writer":%d,"since":%d}`, n, revision/2)
	}
	return plain(bindingOf(n), fmt.Sprint(revision), parameters)
}

func TestKill(t *testing.T) {
	t.Parallel()
	t.Run("every acknowledged write is there after each of 15 kills", func(t *testing.T) {
		t.Parallel()
		dir := t.TempDir()
		random := rand.New(rand.NewPCG(2, 17))
		acknowledged := make([]int64, crashWriters)
		for round := range 15 {
			killAfter(t, dir, random.IntN(120), acknowledged)
			checkAfterKill(t, dir, round, acknowledged)
		}
	})
}

// killAfter lets a process write and kills it once it has acknowledged n writes; it goes on writing until the signal
// arrives.
func killAfter(t *testing.T, dir string, n int, acknowledged []int64) {
	t.Helper()
	p := startRole(t, "writer", dir)
	for range n {
		if !p.lines.Scan() {
			break
		}
		note(t, p.lines.Text(), acknowledged)
	}
	if err := p.cmd.Process.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	lines, err := p.rest()
	if exit, ok := errors.AsType[*exec.ExitError](err); !ok || exit.ExitCode() != -1 {
		t.Fatalf("the writer ended with %v, %q; want its kill", err, lines)
	}
	for _, line := range lines {
		if strings.Contains(line, " ") {
			note(t, line, acknowledged)
		}
	}
}

func note(t *testing.T, line string, acknowledged []int64) {
	t.Helper()
	var n int
	var revision int64
	if _, err := fmt.Sscan(line, &n, &revision); err != nil {
		t.Fatalf("the writer said %q: %v", line, err)
	}
	acknowledged[n] = max(acknowledged[n], revision)
}

// checkAfterKill takes what is stored as the new state of things: one write a writer may have been carried out without
// having been acknowledged.
func checkAfterKill(t *testing.T, dir string, round int, acknowledged []int64) {
	t.Helper()
	s, err := Open(t.Context(), Options{Dir: dir, Now: time.Now})
	if err != nil {
		t.Fatalf("round %d: %v", round, err)
	}
	stored := map[string]bool{}
	for n, revision := range acknowledged {
		r, err := s.Get(t.Context(), bindingOf(n))
		stored[string(r.Parameters)] = true
		if errors.Is(err, broker.ErrNotFound) && revision == 0 {
			continue
		}
		want := crashRecord(n, r.Revision)
		if err != nil || r.Token != want.Token || string(r.Parameters) != string(want.Parameters) {
			t.Errorf("round %d writer %d: token %q parameters %q, %v; want %q %q", round, n, r.Token, r.Parameters, err, want.Token, want.Parameters)
		}
		if r.Revision < revision || r.Revision > revision+1 {
			t.Errorf("round %d writer %d: revision %d is stored, %d was acknowledged", round, n, r.Revision, revision)
		}
		acknowledged[n] = r.Revision
	}
	for _, found := range regexp.MustCompile(`{"writer":\d+,"since":\d+}`).FindAll(readFile(t, dir, storeFile), -1) {
		if !stored[string(found)] {
			t.Errorf("round %d: the file holds %s, which no record has any more", round, found)
		}
	}
	checkIndexes(t, s)
	if err := s.Close(); err != nil {
		t.Errorf("round %d: close: %v", round, err)
	}
}

func TestOpen(t *testing.T) {
	t.Parallel()
	t.Run("a directory in use by another process is refused at once, in a sentence", func(t *testing.T) {
		t.Parallel()
		dir := t.TempDir()
		holder := startRole(t, "holder", dir)
		if !holder.lines.Scan() || holder.lines.Text() != "open" {
			t.Fatalf("the holder said %q", holder.lines.Text())
		}
		lines, err := startRole(t, "opener", dir).rest()
		if err != nil || len(lines) != 2 {
			t.Fatalf("the opener said %q, %v", lines, err)
		}
		inUse, took, _ := strings.Cut(lines[0], " ")
		if d, err := time.ParseDuration(took); inUse != "true" || err != nil || d > time.Second {
			t.Errorf("in use: %s after %s; want true, at once", inUse, took)
		}
		if !strings.Contains(lines[1], "in use by another process") {
			t.Errorf("the error reads %q", lines[1])
		}
		if err := holder.stdin.Close(); err != nil {
			t.Fatal(err)
		}
		if lines, err := holder.rest(); err != nil {
			t.Fatalf("the holder ended with %v, %q", err, lines)
		}
		openAt(t, dir, time.Now)
	})
	t.Run("a directory in use by this process is refused", func(t *testing.T) {
		t.Parallel()
		dir := t.TempDir()
		openAt(t, dir, time.Now)
		if _, err := Open(t.Context(), Options{Dir: dir, Now: time.Now}); !errors.Is(err, ErrInUse) {
			t.Errorf("second Open: %v; want ErrInUse", err)
		}
	})
}

// The test binary runs itself again as the other process of a test.
const (
	roleVariable = "FERRY_BOLT_ROLE"
	dirVariable  = "FERRY_BOLT_DIR"
)

func TestMain(m *testing.M) {
	roles := map[string]func(dir string) error{
		"writer": writeForEver, "holder": hold, "opener": openOnce,
	}
	flag.Bool("write-fixtures", false, "write the fixtures that are missing")
	role, ok := roles[os.Getenv(roleVariable)]
	if !ok {
		os.Exit(m.Run())
	}
	if err := role(os.Getenv(dirVariable)); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
}

// process is another process of the test. Closing stdin tells a holder to end.
type process struct {
	cmd   *exec.Cmd
	stdin io.WriteCloser
	lines *bufio.Scanner
}

func startRole(t *testing.T, role, dir string) *process {
	t.Helper()
	p := &process{cmd: exec.CommandContext(t.Context(), os.Args[0])}
	p.cmd.Env = append(os.Environ(), roleVariable+"="+role, dirVariable+"="+dir)
	stdin, err := p.cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	p.stdin, p.lines = stdin, bufio.NewScanner(stdout)
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return p
}

// rest reads what the process still says and waits for its end.
func (p *process) rest() (lines []string, err error) {
	for p.lines.Scan() {
		lines = append(lines, p.lines.Text())
	}
	return lines, errors.Join(p.lines.Err(), p.cmd.Wait())
}

func openHere(dir string) (*Store, error) {
	return Open(context.Background(), Options{Dir: dir, Now: time.Now})
}

// hold keeps the store open until stdin ends.
func hold(dir string) error {
	s, err := openHere(dir)
	if err != nil {
		return err
	}
	fmt.Println("open")
	if _, err := io.Copy(io.Discard, os.Stdin); err != nil {
		return err
	}
	return s.Close()
}

// openOnce says whether the store is in use and how long it took to find out.
func openOnce(dir string) error {
	began := time.Now()
	_, err := openHere(dir)
	fmt.Println(errors.Is(err, ErrInUse), time.Since(began))
	fmt.Println(err)
	return nil
}
