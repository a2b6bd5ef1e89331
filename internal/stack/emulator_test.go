package stack

import (
	"bytes"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-lambda-go/events"
)

// emulator is a function under Lambda's runtime interface emulator, the one that comes with SAM and runs in its
// containers.
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

// emulate starts a function, with nothing in its environment but what Lambda needs and what is given.
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

// TestFirstAnswer starts the deployed binary under the runtime interface emulator that comes with SAM and asks for the
// catalog: one read of the secret, one of the table. `make sizes` prints how long that took; no time is asserted, since
// machines differ.
func TestFirstAnswer(t *testing.T) {
	emulatorProgram(t)
	binary := built(t, "ApiFunction", "GOARCH="+runtime.GOARCH)
	cloud, trusted := backdrop(t)
	var first, warm []time.Duration
	var peak, later []int
	for range *runs {
		dropCaches(t)
		e := emulate(t, binary, "AWS_REGION=us-east-1", "AWS_ACCESS_KEY_ID=test", "AWS_SECRET_ACCESS_KEY=test", "AWS_ENDPOINT_URL="+cloud, "SSL_CERT_FILE="+trusted,
			"FERRY_TABLE=t", "FERRY_STATE_MACHINE_ARN=arn:aws:states:us-east-1:123456789012:stateMachine:t", "FERRY_CONFIG_SECRET_ARN=ferry")
		first = append(first, asked(t, e))
		warm = append(warm, asked(t, e))
		peak = append(peak, memory(t, binary, "VmHWM"))
		for range 100 {
			asked(t, e)
		}
		later = append(later, memory(t, binary, "VmRSS"))
		e.stop()
	}
	t.Logf("first answer, with the start of the process: median %v, from %v to %v, of %d",
		median(first).Round(100*time.Microsecond), slices.Min(first).Round(100*time.Microsecond), slices.Max(first).Round(100*time.Microsecond), *runs)
	t.Logf("second answer: median %v", median(warm).Round(100*time.Microsecond))
	t.Logf("memory: peak until the second answer %.1f MiB, after 100 more %.1f MiB", float64(median(peak))/1024, float64(median(later))/1024)
	if peak := median(peak); peak < 1024 || peak > 100*1024 {
		t.Errorf("a peak of %d KiB: another process was looked at, or something has grown out of all measure", peak)
	}
}

func median[T int | time.Duration](values []T) T {
	values = slices.Sorted(slices.Values(values))
	return values[len(values)/2]
}

// dropCaches makes the next start read the binary from the disk.
func dropCaches(t *testing.T) {
	t.Helper()
	if !*cold {
		return
	}
	if out, err := exec.CommandContext(t.Context(), "sync").CombinedOutput(); err != nil {
		t.Fatalf("sync: %v %s", err, out)
	}
	if err := os.WriteFile("/proc/sys/vm/drop_caches", []byte("3"), 0); err != nil {
		t.Fatalf("-cold: %v", err)
	}
}

// backdrop answers for Secrets Manager and DynamoDB at once, so that the figures are the function's own: a
// configuration, and the catalog that the first version stored. It speaks TLS, as AWS does, and returns the file with
// the certificate to trust.
func backdrop(t *testing.T) (url, trusted string) {
	t.Helper()
	var items []json.RawMessage
	if err := json.Unmarshal(readRoot(t, "internal/lambda/testdata/records/v1-create-accepted.json"), &items); err != nil {
		t.Fatal(err)
	}
	at := slices.IndexFunc(items, func(it json.RawMessage) bool { return bytes.Contains(it, []byte("Y2F0YWxvZw==")) }) // "catalog"
	if at < 0 {
		t.Fatal("there is no catalog among the old items")
	}
	const text = `{"clients": [{"name": "demo", "credentials": [{"username": "demo", "password": "demo"}], "cloud_foundry": ` +
		`{"api": "http://127.0.0.1:9", "org": "demo", "client_id": "ferry", "client_secret": "ferry"}}]}`
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/x-amz-json-1.1")
		switch r.Header.Get("X-Amz-Target") {
		case "secretsmanager.GetSecretValue":
			_, _ = fmt.Fprintf(w, `{"VersionId":"1","SecretString":%s}`, strconv.Quote(text))
		case "DynamoDB_20120810.GetItem":
			answer := `{}` // the read that opens the way
			if body, err := io.ReadAll(r.Body); err == nil && bytes.Contains(body, []byte("Y2F0YWxvZw==")) {
				answer = fmt.Sprintf(`{"Item":%s}`, items[at])
			}
			_, _ = w.Write([]byte(answer))
		default:
			w.WriteHeader(http.StatusBadRequest)
		}
	}))
	t.Cleanup(server.Close)
	trusted = filepath.Join(t.TempDir(), "trusted.pem")
	certificate := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	if err := os.WriteFile(trusted, certificate, 0o600); err != nil {
		t.Fatal(err)
	}
	return server.URL, trusted
}

// asked is how long the answer to one event took. The first one starts the function.
func asked(t *testing.T, e *emulator) time.Duration {
	t.Helper()
	began := time.Now()
	e.expect(t, "catalog", http.StatusOK, `"services":[`)
	return time.Since(began)
}

// memory reads a figure of the function's process, in KiB.
func memory(t *testing.T, binary, figure string) int {
	t.Helper()
	processes, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		t.Fatal(err)
	}
	value := regexp.MustCompile(`(?m)^` + figure + `:\s+(\d+) kB$`)
	for _, process := range processes {
		line, err := os.ReadFile(filepath.Join(process, "cmdline"))
		if err != nil || !bytes.HasPrefix(line, []byte(binary+"\x00")) {
			continue // others come and go
		}
		text, err := os.ReadFile(filepath.Join(process, "status"))
		if match := value.FindSubmatch(text); err == nil && match != nil {
			n, _ := strconv.Atoi(string(match[1])) // digits
			return n
		}
	}
	t.Fatalf("no process of %s", binary)
	return 0
}

// TestLocalBuildLivesALife runs the API function with the tag `local` as a container of `sam local` does, without an
// environment, and sends it the files of events/. They come one after the other, as SAM sends them: two at once crash
// the emulator.
func TestLocalBuildLivesALife(t *testing.T) {
	t.Parallel()
	emulatorProgram(t)
	binary := built(t, "ApiFunction", "GOARCH="+runtime.GOARCH, "FERRY_BUILD_TAGS=local")
	text, err := os.ReadFile(binary)
	if found := holds(text); err != nil || len(found) != len(onlyLocal) {
		t.Fatalf("of %q only %q are in the local build (%v): the search for them is blind", onlyLocal, found, err)
	}
	e := emulate(t, binary)
	e.expect(t, "unauthorised", 401, `"description":`)
	first := e.expect(t, "provision", 202, `"operation":"create-`)
	for range 19 {
		if again := e.expect(t, "provision-duplicate", 202, ""); again.Body != first.Body {
			t.Errorf("a duplicate gets %s, the first got %s", again.Body, first.Body)
		}
	}
	e.expect(t, "provision-different", 409, `"description":`)
	e.await(t)
	e.expect(t, "provision-duplicate", 200, `{`)
	key := e.expect(t, "bind", 201, `"big":9007199254740993`)
	if again := e.expect(t, "bind", 200, ""); again.Body != key.Body {
		t.Errorf("a duplicate gets %s, the first got %s", again.Body, key.Body)
	}
	e.expect(t, "update", 202, `"operation":"update-`)
	e.await(t)
	e.expect(t, "unbind", 200, `{`)
	e.expect(t, "deprovision", 202, `"operation":"delete-`)
	e.await(t)
	e.expect(t, "deprovision", 410, `{`)
	for _, odd := range []string{"encoded-ids", "decoded-ids", "base64-body"} {
		e.expect(t, odd, 202, `"operation":"create-`)
	}
	answer := e.expect(t, "repeated-headers", 200, `"services":[`)
	if got := answer.MultiValueHeaders["X-Broker-Api-Request-Identity"]; strings.Join(got, "|") != "first, with a comma,second" {
		t.Errorf("identity %q", got)
	}
	if !strings.Contains(e.log.String(), `"username":"demo","password":"demo"`) {
		t.Errorf("the log does not say how to log in: %s", e.log)
	}
}

// expect sends a file of events/ and checks status and a part of the body.
func (e *emulator) expect(t *testing.T, event string, status int, body string) events.APIGatewayProxyResponse {
	t.Helper()
	answer, err := e.invoke(readRoot(t, "events/"+event+".json"))
	if err != nil || answer.StatusCode != status || !strings.Contains(answer.Body, body) {
		t.Fatalf("%s: %d %s, %v; want %d and %s; the log: %s", event, answer.StatusCode, answer.Body, err, status, body, e.log)
	}
	return answer
}

// await polls until the operation has succeeded. Nobody sends a tick: the workflow goes on between the calls.
func (e *emulator) await(t *testing.T) {
	t.Helper()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for late := time.Now().Add(60 * time.Second); time.Now().Before(late); <-tick.C {
		answer := e.expect(t, "last-operation", 200, `"state":`)
		if strings.Contains(answer.Body, `"succeeded"`) {
			return
		}
		if !strings.Contains(answer.Body, `"in progress"`) {
			t.Fatalf("the operation ended as %s; the log: %s", answer.Body, e.log)
		}
	}
	t.Fatalf("the operation does not end; the log: %s", e.log)
}

// TestSamLocalSaysWhatIsMissing runs the script of `make sam-local` on machines that lack something, up to the point
// where it would build.
func TestSamLocalSaysWhatIsMissing(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("a script for sh")
	}
	const engine = `case "$1" in version) echo amd64 ;; *) exit 1 ;; esac`
	tests := map[string]struct {
		docker, event string // what docker does, "" for none; the script's argument
		want          string
	}{
		"no docker":                 {"", "", "docker is missing: install it ("},
		"docker, but no engine":     {"exit 1", "", "no docker engine answers at unix:///nowhere: start it ("},
		"an engine of another kind": {"echo riscv64", "", "the docker engine runs on riscv64, which Lambda does not know: use one on "},
		"no busybox and no image":   {engine, "", "a static busybox is missing: install it ("},
		"no such event":             {engine, "events/none.json", "there is no file events/none.json: name one of events/."},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			command := exec.CommandContext(t.Context(), "/bin/sh", "tools/samlocal/run.sh", test.event)
			command.Dir = root
			command.Env = []string{"PATH=" + poorPath(t, test.docker), "DOCKER_HOST=unix:///nowhere"}
			out, err := command.CombinedOutput()
			if err == nil {
				t.Errorf("it goes on: %s", out)
			}
			if said := string(out); !strings.HasPrefix(said, "sam-local: "+test.want) || strings.Count(said, "\n") != 1 {
				t.Errorf("it says %q, want one line that begins with %q", said, test.want)
			}
		})
	}
}

// TestSamLocalAsksForTheEngineFirst runs the target in a fresh clone on a machine without docker: nothing is installed
// before that is said.
func TestSamLocalAsksForTheEngineFirst(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("a script for sh")
	}
	clone, installed := t.TempDir(), filepath.Join(t.TempDir(), "installed")
	for _, folder := range []string{"tools/samlocal", "tools/standin"} {
		if err := os.CopyFS(filepath.Join(clone, folder), os.DirFS(filepath.Join(root, folder))); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(clone, "Makefile"), readRoot(t, "Makefile"), 0o600); err != nil {
		t.Fatal(err)
	}
	path := poorPath(t, "exit 1", "make", "rm", "touch", "go")
	command := exec.CommandContext(t.Context(), filepath.Join(path, "make"), "sam-local", "PYTHON=touch "+installed+" && false")
	command.Dir = clone
	command.Env = append(without(os.Environ(), "PATH", "MAKEFLAGS", "MFLAGS", "DOCKER_HOST"), "PATH="+path)
	out, err := command.CombinedOutput()
	if err == nil || !strings.Contains(string(out), "sam-local: no docker engine answers at ") {
		t.Errorf("%v; it says %s", err, out)
	}
	if _, err := os.Stat(installed); err == nil {
		t.Errorf("it began to install before it asked for the engine: %s", out)
	}
}

// poorPath is a folder with the few programs that the script needs, those that are named besides, and a docker that
// does as told.
func poorPath(t *testing.T, docker string, more ...string) string {
	t.Helper()
	dir := t.TempDir()
	for _, name := range append(more, "sh", "dirname") {
		program, err := exec.LookPath(name)
		if err != nil {
			t.Skip(err)
		}
		if err := os.Symlink(program, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	if docker != "" {
		if err := os.WriteFile(filepath.Join(dir, "docker"), []byte("#!/bin/sh\n"+docker+"\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}
