package deployed

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ferry-broker/ferry/internal/standin"
)

// server is a process that runs beside the test. It ends when its standard input does,
// so that it also ends with a test that panics.
type server struct {
	url    string
	output *journal
	stdin  io.Closer
	end    func() error
	gone   chan struct{}
}

// journal keeps what a process says; it may be read meanwhile.
type journal struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (j *journal) Write(p []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.Write(p)
}

func (j *journal) String() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.String()
}

// begin starts a process in a group of its own. The test ends it.
func (w *workshop) begin(t *testing.T, env []string, name string, arguments ...string) *server {
	t.Helper()
	c := exec.Command(name, arguments...)
	s := &server{output: &journal{}, gone: make(chan struct{}), end: inGroup(c)}
	c.Dir, c.Env, c.Stdout, c.Stderr = w.dir, env, s.output, s.output
	stdin, err := c.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	s.stdin = stdin
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { _ = c.Wait(); close(s.gone) }()
	t.Cleanup(func() { _ = s.stop() })
	return s
}

// stop ends the process and, after ten seconds, whatever is left of its group.
func (s *server) stop() error {
	_ = s.stdin.Close()
	late := time.NewTimer(10 * time.Second)
	defer late.Stop()
	select {
	case <-s.gone:
		_ = s.end() // its children, if they did not follow
		return nil
	case <-late.C:
		_ = s.end()
		<-s.gone
		return errors.New("it did not end with its standard input")
	}
}

// ended reports whether the process has ended.
func (s *server) ended() bool {
	select {
	case <-s.gone:
		return true
	default:
		return false
	}
}

// standIn starts the stand-in for AWS. AUTH makes it check the roles of functions. Its
// files are in our folder, so that what it runs can be told from other programs.
func (w *workshop) standIn(t *testing.T) *standin.Server {
	t.Helper()
	s, err := standin.Start(w.root, "TMPDIR="+w.path("tmp"), "AUTH=true", "LAMBDA_ASYNC_RETRY_BASE_SECONDS=1", "LAMBDA_ACCOUNT_CONCURRENCY=1000")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Stop() })
	return s
}

func healthy(url string) bool {
	answer, err := http.Get(url)
	return err == nil && answer.Body.Close() == nil && answer.StatusCode == http.StatusOK
}

var simListens = regexp.MustCompile(`the simulated Cloud Foundry listens.*(http://127\.0\.0\.1:\d+)`)

// simulator builds `ferry` and starts `ferry sim` with a shell in front of it, which
// lends it the habit of ending with standard input.
func (w *workshop) simulator(t *testing.T) *server {
	t.Helper()
	w.run(t, "go", "build", "-o", w.path("ferry"), "./cmd/ferry")
	script := fmt.Sprintf("%q sim %s & cat >/dev/null; kill $!; wait $!", w.path("ferry"), strings.Join([]string{
		"--listen=127.0.0.1:0", "--job-delay=20ms", "--broker-delay=" + brokerDelay.String(), "--poll-interval=50ms",
	}, " "))
	s := w.begin(t, w.env, "/bin/sh", "-c", script)
	eventually(t, "the simulator listens", func() bool { return s.ended() || simListens.MatchString(s.output.String()) })
	found := simListens.FindStringSubmatch(s.output.String())
	if found == nil {
		t.Fatalf("the simulator does not start: %s", s.output)
	}
	s.url = found[1]
	return s
}
