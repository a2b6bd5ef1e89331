// Package standin starts the stand-in for AWS that tests run against, on 127.0.0.1, in a process group of its own. It
// is for tests only, and works where `make stand-in` has installed it.
package standin

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"
)

// ErrNotInstalled says that there is no stand-in, and what to do about it.
var ErrNotInstalled = errors.New("the stand-in for AWS is not installed: make stand-in")

const (
	// patience is how long a start may take on a loaded machine.
	patience = 60 * time.Second
	// farewell is how long an end may take before it is forced.
	farewell = 10 * time.Second
)

// Server is a stand-in that runs. Its methods may be called concurrently.
type Server struct {
	url    string
	pid    int
	output *output
	stdin  io.Closer
	end    func() error
	gone   chan struct{}
	dir    string
}

// Start starts a stand-in with an empty memory; root is the way to the project's top and more are further settings,
// such as AUTH=true. It returns once the stand-in answers. ErrNotInstalled (errors.Is) where there is none. It ends
// with Stop, and with the process that started it.
func Start(root string, more ...string) (*Server, error) {
	top, err := filepath.Abs(root)
	if err != nil {
		return nil, err
	}
	if _, err := os.Stat(filepath.Join(top, ".cache", "venv", "pinned")); err != nil {
		return nil, ErrNotInstalled
	}
	var faults error
	for range 3 { // somebody may be quicker to take the port
		s, err := start(top, more)
		if err == nil {
			return s, nil
		}
		faults = errors.Join(faults, err)
	}
	return nil, faults
}

func start(top string, more []string) (*Server, error) {
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "ferry-standin")
	if err != nil {
		return nil, err
	}
	c := exec.Command(filepath.Join(top, ".cache", "venv", "bin", "python"), filepath.Join(top, "tools", "standin", "serve.py"))
	c.Env = append(environment(dir, port), more...)
	s := &Server{url: fmt.Sprintf("http://127.0.0.1:%d", port), dir: dir, output: &output{}, end: inGroup(c), gone: make(chan struct{})}
	c.Stdout, c.Stderr = s.output, s.output
	if s.stdin, err = c.StdinPipe(); err == nil {
		err = c.Start()
	}
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	s.pid = c.Process.Pid
	go func() { _ = c.Wait(); close(s.gone) }()
	if err := s.ready(); err != nil {
		return nil, errors.Join(err, s.Stop(), errors.New(s.Output()))
	}
	return s, nil
}

// environment keeps the stand-in on loopback and in the folder, and away from Docker.
func environment(dir string, port int) []string {
	return []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "TMPDIR=" + dir, "S3_DATA_DIR=" + dir, "STATE_DIR=" + dir,
		"BIND_HOST=127.0.0.1", "MINISTACK_HOST=127.0.0.1", "GATEWAY_PORT=" + strconv.Itoa(port),
		"SFTP_ENABLED=0", "IOT_MTLS_ENABLED=0", "LOG_LEVEL=WARNING", "DOCKER_HOST=unix://" + filepath.Join(dir, "none"),
	}
}

func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	return l.Addr().(*net.TCPAddr).Port, l.Close()
}

func (s *Server) ready() error {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	late := time.After(patience)
	for {
		answer, err := http.Get(s.url + "/_ministack/health")
		if err == nil && answer.Body.Close() == nil && answer.StatusCode == http.StatusOK {
			return nil
		}
		select {
		case <-tick.C:
		case <-s.gone:
			return errors.New("the stand-in ended at once")
		case <-late:
			return fmt.Errorf("the stand-in does not answer: %w", err)
		}
	}
}

// URL is its address, without a path.
func (s *Server) URL() string { return s.url }

// PID is its process id. Functions that it runs are its children.
func (s *Server) PID() int { return s.pid }

// Output is what it has printed so far.
func (s *Server) Output() string { return s.output.String() }

// Stop ends it and what it started, and removes its files. What ended by itself is no fault, nor is a second Stop.
func (s *Server) Stop() error {
	_ = s.stdin.Close()
	select {
	case <-s.gone:
	case <-time.After(farewell):
	}
	_ = s.end() // what is left of the group
	<-s.gone
	return os.RemoveAll(s.dir)
}

// Shared is one stand-in for all tests of a package: the first that needs it starts it. The zero value with a Root is
// ready to use, by any number of tests at once.
type Shared struct {
	// Root is the way to the project's top.
	Root string

	once   sync.Once
	server *Server
	err    error
}

// URL returns its address. Where there is none installed, the test is skipped.
func (s *Shared) URL(t testing.TB) string {
	t.Helper()
	s.once.Do(func() { s.server, s.err = Start(s.Root) })
	if errors.Is(s.err, ErrNotInstalled) {
		t.Skip(s.err)
	}
	if s.err != nil {
		t.Fatal(s.err)
	}
	return s.server.URL()
}

// Main runs the package's tests, then ends the stand-in. It returns what the process exits with.
func (s *Shared) Main(m *testing.M) int {
	code := m.Run()
	if s.server == nil {
		return code
	}
	if err := s.server.Stop(); err != nil {
		fmt.Fprintln(os.Stderr, "stop the stand-in:", err)
		return 1
	}
	return code
}

// output keeps what a process prints; it may be read meanwhile.
type output struct {
	mu   sync.Mutex
	text bytes.Buffer
}

// Write implements io.Writer.
func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(p)
}

// String returns all of it.
func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}
