package process

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// program is a started ferry. Its output is kept, and its exit is waited for once.
type program struct {
	command *exec.Cmd
	out     *logbook
	ended   chan struct{}
	err     error // of the exit; set when ended is closed
}

// launch starts ferry with these arguments. Environment variables of the test that
// ferry would read do not reach it.
func launch(arguments ...string) (*program, error) {
	p := &program{command: exec.Command(binary, arguments...), out: newLogbook(), ended: make(chan struct{})}
	p.command.Stdout, p.command.Stderr = p.out, p.out
	p.command.Env = withoutFerry(os.Environ())
	if err := p.command.Start(); err != nil {
		return nil, fmt.Errorf("start ferry %s: %w", strings.Join(arguments, " "), err)
	}
	go func() {
		p.err = p.command.Wait()
		p.out.close()
		close(p.ended)
	}()
	return p, nil
}

func withoutFerry(environment []string) []string {
	kept := make([]string, 0, len(environment))
	for _, variable := range environment {
		if !strings.HasPrefix(variable, "FERRY_") {
			kept = append(kept, variable)
		}
	}
	return kept
}

// start launches ferry and ends it with the test.
func start(t testing.TB, arguments ...string) *program {
	t.Helper()
	p, err := launch(arguments...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.kill)
	return p
}

// kill ends the process as a power cut would, and waits until it has gone.
func (p *program) kill() {
	_ = p.command.Process.Kill() // it may have ended already
	<-p.ended
}

// stop asks the process to end, and returns how it did.
func (p *program) stop(ctx context.Context) error {
	if err := p.command.Process.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	select {
	case <-p.ended:
		return p.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// address waits for the line of the log that says where the process listens.
func (p *program) address(ctx context.Context, message string) (string, error) {
	entry, err := p.out.find(ctx, message)
	if err != nil {
		return "", err
	}
	url, _ := entry["url"].(string)
	return url, nil
}

const (
	brokerListens    = "ferry listens"
	simulatorListens = "the simulated Cloud Foundry listens"
)

// startSim starts a simulated Cloud Foundry of its own process and returns its URL.
func startSim(t testing.TB, arguments ...string) string {
	t.Helper()
	p := start(t, append([]string{"sim", "--listen", "127.0.0.1:0", "--log-format", "json"}, arguments...)...)
	url, err := p.address(t.Context(), simulatorListens)
	if err != nil {
		t.Fatal(err)
	}
	return url
}

// logbook collects what a process prints.
type logbook struct {
	mu      sync.Mutex
	text    []byte
	closed  bool
	changed chan struct{} // closed and replaced at each change
}

func newLogbook() *logbook { return &logbook{changed: make(chan struct{})} }

// Write implements io.Writer.
func (l *logbook) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text = append(l.text, b...)
	close(l.changed)
	l.changed = make(chan struct{})
	return len(b), nil
}

func (l *logbook) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	close(l.changed)
	l.changed = make(chan struct{})
}

func (l *logbook) look() (text string, closed bool, changed chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return string(l.text), l.closed, l.changed
}

func (l *logbook) String() string {
	text, _, _ := l.look()
	return text
}

// find waits for a JSON line with this message.
func (l *logbook) find(ctx context.Context, message string) (map[string]any, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for {
		text, closed, changed := l.look()
		for line := range strings.Lines(text) {
			var entry map[string]any
			if json.Unmarshal([]byte(line), &entry) == nil && entry["msg"] == message {
				return entry, nil
			}
		}
		if closed {
			return nil, fmt.Errorf("%w before it said %q:\n%s", errEnded, message, text)
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, fmt.Errorf("waiting for %q: %w", message, ctx.Err())
		}
	}
}

var errEnded = errors.New("the process ended")
