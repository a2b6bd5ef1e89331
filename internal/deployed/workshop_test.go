package deployed

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ferry-broker/ferry/internal/standin"
)

// workshop is where the tools run: their folders, their environment, the time that each stage took.
type workshop struct {
	// root is the tree, which stays as it is; dir is empty at first and goes with the test.
	root, dir string
	env       []string
}

// goArch and the template have different names for one thing.
var architectures = map[string]string{"amd64": "x86_64", "arm64": "arm64"}

// newWorkshop skips the test where the stand-in is not installed.
func newWorkshop(t *testing.T) *workshop {
	t.Helper()
	root, err := filepath.Abs(filepath.Join("..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	w := &workshop{root: root, dir: t.TempDir()}
	if _, err := os.Stat(w.venv("pinned")); err != nil {
		t.Skip(standin.ErrNotInstalled)
	}
	if architectures[runtime.GOARCH] == "" {
		t.Skipf("Lambda has no architecture %s", runtime.GOARCH)
	}
	w.env = w.environment(t)
	return w
}

func (w *workshop) venv(parts ...string) string {
	return filepath.Join(append([]string{w.root, ".cache", "venv"}, parts...)...)
}

// path is a file or folder of this test's own.
func (w *workshop) path(parts ...string) string {
	return filepath.Join(append([]string{w.dir}, parts...)...)
}

// environment is ours without what belongs to an account, and with a home of its own: nothing of whoever runs the test
// may get into it. Go keeps its caches.
func (w *workshop) environment(t *testing.T) []string {
	t.Helper()
	var env []string
	for _, variable := range os.Environ() {
		if !strings.HasPrefix(variable, "AWS_") && !strings.HasPrefix(variable, "HOME=") && !strings.HasPrefix(variable, "FERRY_") {
			env = append(env, variable)
		}
	}
	out, err := exec.CommandContext(t.Context(), "go", "env", "-json", "GOENV", "GOCACHE", "GOMODCACHE", "GOPATH").Output()
	if err != nil {
		t.Fatalf("go env: %v", err)
	}
	caches := map[string]string{}
	if err := json.Unmarshal(out, &caches); err != nil {
		t.Fatal(err)
	}
	for name, value := range caches {
		env = append(env, name+"="+value)
	}
	for _, folder := range []string{"home", "tmp"} {
		if err := os.Mkdir(w.path(folder), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	return append(env, "HOME="+w.path("home"), "TMPDIR="+w.path("tmp"), "GOARCH="+runtime.GOARCH,
		"SAM_CLI_TELEMETRY=0", "AWS_EC2_METADATA_DISABLED=true", "AWS_DEFAULT_REGION="+region, "AWS_REGION="+region,
		"AWS_ACCESS_KEY_ID="+testKey, "AWS_SECRET_ACCESS_KEY="+testKey)
}

// run runs a program in the tree to its end and returns what it said. The test ends when it fails.
func (w *workshop) run(t *testing.T, name string, arguments ...string) string {
	t.Helper()
	return w.runWith(t, nil, name, arguments...)
}

// runWith is run with more variables in the environment.
func (w *workshop) runWith(t *testing.T, variables []string, name string, arguments ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	c := exec.CommandContext(ctx, name, arguments...)
	c.Dir, c.Env, c.Cancel = w.root, append(slices.Clone(w.env), variables...), inGroup(c)
	var output bytes.Buffer
	c.Stdout, c.Stderr = &output, &output
	c.WaitDelay = 5 * time.Second
	if err := c.Run(); err != nil {
		t.Fatalf("%s: %v\n%s", strings.Join(append([]string{filepath.Base(name)}, arguments...), " "), err, output.String())
	}
	return output.String()
}

// sam runs SAM with the local section of samconfig.toml.
func (w *workshop) sam(t *testing.T, command string, arguments ...string) string {
	t.Helper()
	config := []string{command, "--config-env", "local", "--config-file", filepath.Join(w.root, "samconfig.toml")}
	return w.run(t, w.venv("bin", "sam"), append(config, arguments...)...)
}

// stage prints how long it took, one line each: `make e2e` shows them.
func stage(t *testing.T, name string, do func()) {
	t.Helper()
	start := time.Now()
	do()
	t.Logf("stage %q: %.1f s", name, time.Since(start).Seconds())
}

// eventually polls a condition, and ends the test when it does not come true.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	within(t, patience, what, holds)
}

// within is eventually with a deadline of the caller's. Who has longer asks less often.
func within(t *testing.T, limit time.Duration, what string, holds func() bool) {
	t.Helper()
	deadline, tick := time.NewTimer(limit), time.NewTicker(limit/600)
	defer deadline.Stop()
	defer tick.Stop()
	for !holds() {
		select {
		case <-tick.C:
		case <-deadline.C:
			t.Fatalf("it did not come true in %s: %s", limit, what)
		}
	}
}

// server is a process that runs beside the test. It ends when its standard input does, so that it also ends with a test
// that panics.
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

// standIn starts the stand-in for AWS. AUTH makes it check the roles of functions. Its files are in our folder, so that
// what it runs can be told from other programs.
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

// simulator builds `ferry` and starts `ferry sim` with a shell in front of it, which lends it the habit of ending with
// standard input.
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
