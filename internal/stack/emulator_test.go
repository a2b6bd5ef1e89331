package stack

import (
	"bytes"
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
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-lambda-go/events"
)

// emulator is a function under Lambda's runtime interface emulator, the one that
// comes with SAM and runs in its containers.
type emulator struct {
	url   string
	log   *transcript
	stdin io.Closer
	gone  chan struct{}
}

// transcript is what the emulator and the function print.
type transcript struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *transcript) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *transcript) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// emulatorProgram returns where SAM keeps it, or skips the test.
func emulatorProgram(t *testing.T) string {
	t.Helper()
	machine := map[string]string{"amd64": "x86_64", "arm64": "arm64"}[runtime.GOARCH]
	found, err := filepath.Glob(filepath.Join(root, ".cache/venv/lib/python3*/site-packages/samcli/local/rapid/aws-lambda-rie-"+machine))
	if err != nil {
		t.Fatal(err)
	}
	if len(found) == 0 || runtime.GOOS != "linux" {
		t.Skip("no runtime interface emulator for this machine: make stand-in, on Linux")
	}
	program, err := filepath.Abs(found[0])
	if err != nil {
		t.Fatal(err)
	}
	return program
}

// leaveWithStarter ends the emulator when the test's process has ended, however.
const leaveWithStarter = `"$@" & emulator=$!; cat >/dev/null; kill $emulator; wait $emulator`

// emulate starts a function, with nothing in its environment but what Lambda needs and
// what is given.
func emulate(t *testing.T, binary string, environment ...string) *emulator {
	t.Helper()
	program := emulatorProgram(t)
	var e *emulator
	for range 3 { // somebody may be quicker to take a port
		e = startEmulator(t, program, binary, environment)
		if e.answers() {
			t.Cleanup(e.stop)
			return e
		}
		e.stop()
	}
	t.Fatalf("the emulator does not answer: %s", e.log)
	return nil
}

func startEmulator(t *testing.T, program, binary string, environment []string) *emulator {
	t.Helper()
	address, api := freeAddress(t), freeAddress(t)
	e := &emulator{url: "http://" + address, log: &transcript{}, gone: make(chan struct{})}
	c := exec.Command("sh", "-c", leaveWithStarter, "sh", program,
		"--runtime-interface-emulator-address", address, "--runtime-api-address", api, binary)
	c.Dir = t.TempDir()
	c.Env = []string{"PATH=" + os.Getenv("PATH"), "TMPDIR=" + c.Dir, "AWS_LAMBDA_FUNCTION_TIMEOUT=29"}
	c.Env = append(c.Env, environment...)
	c.Stdout, c.Stderr = e.log, e.log
	var err error
	if e.stdin, err = c.StdinPipe(); err == nil {
		err = c.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = c.Wait(); close(e.gone) }()
	return e
}

func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	return l.Addr().String()
}

// answers waits until something listens.
func (e *emulator) answers() bool {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for late := time.Now().Add(20 * time.Second); time.Now().Before(late); <-tick.C {
		connection, err := new(net.Dialer).Dial("tcp", e.url[len("http://"):])
		if err == nil {
			return connection.Close() == nil
		}
	}
	return false
}

func (e *emulator) stop() {
	_ = e.stdin.Close()
	<-e.gone
}

// send sends a file of events/ and returns the function's answer.
func (e *emulator) send(t *testing.T, name string) events.APIGatewayProxyResponse {
	t.Helper()
	answer, err := e.invoke(readRoot(t, "events/"+name+".json"))
	if err != nil {
		t.Fatalf("%s: %v; the log: %s", name, err, e.log)
	}
	return answer
}

func (e *emulator) invoke(event []byte) (events.APIGatewayProxyResponse, error) {
	var answer events.APIGatewayProxyResponse
	resp, err := http.Post(e.url+"/2015-03-31/functions/function/invocations", "application/json", bytes.NewReader(event))
	if err != nil {
		return answer, err
	}
	text, err := io.ReadAll(resp.Body)
	if err = errors.Join(err, resp.Body.Close(), json.Unmarshal(text, &answer)); err != nil || answer.StatusCode == 0 {
		return answer, fmt.Errorf("%s %.200s: %w", resp.Status, text, err)
	}
	return answer, nil
}
