package stack

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-lambda-go/events"
)

// onlyLocal are the rooms that `sam local` needs and AWS does not.
var onlyLocal = []string{"internal/bolt", "internal/cfsim", "internal/loop", "internal/metrics", "internal/lambda/local"}

// holds returns the rooms whose functions are in a binary. Their names stay, for stack
// traces, when the symbols are stripped.
func holds(t *testing.T, binary string) []string {
	t.Helper()
	text, err := os.ReadFile(binary)
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, room := range onlyLocal {
		if bytes.Contains(text, []byte("github.com/ferry-broker/ferry/"+room+".")) {
			found = append(found, room)
		}
	}
	return found
}

// localBuild builds the API function as `make sam-local` does.
func localBuild(t *testing.T) string {
	t.Helper()
	if testing.Short() {
		t.Skip("builds a binary")
	}
	dir := t.TempDir()
	command := exec.CommandContext(t.Context(), "make", "--no-print-directory", "build-ApiFunction", "ARTIFACTS_DIR="+dir)
	command.Dir = root
	command.Env = append(without(os.Environ(), "MAKEFLAGS", "MFLAGS"), "GOARCH="+runtime.GOARCH, "FERRY_BUILD_TAGS=local")
	if out, err := command.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return filepath.Join(dir, "bootstrap")
}

// TestLocalBuildLivesALife runs the API function with the tag `local` as a container of
// `sam local` does, without an environment, and sends it the files of events/. They
// come one after the other, as SAM sends them: two at once crash the emulator.
func TestLocalBuildLivesALife(t *testing.T) {
	t.Parallel()
	emulatorProgram(t)
	binary := localBuild(t)
	if found := holds(t, binary); len(found) != len(onlyLocal) {
		t.Fatalf("of %q only %q are in the local build: the search for them is blind", onlyLocal, found)
	}
	e := emulate(t, binary)
	e.expect(t, "catalog", 200, `"services":[`)
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
}

func TestLocalBuildAnswersOddEvents(t *testing.T) {
	t.Parallel()
	emulatorProgram(t)
	e := emulate(t, localBuild(t))
	for _, name := range []string{"encoded-ids", "decoded-ids", "base64-body"} {
		e.expect(t, name, 202, `"operation":"create-`)
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
	answer := e.send(t, event)
	if answer.StatusCode != status || !strings.Contains(answer.Body, body) {
		t.Fatalf("%s: %d %s; want %d and %s; the log: %s", event, answer.StatusCode, answer.Body, status, body, e.log)
	}
	return answer
}

// await polls until the operation has succeeded. Nobody sends a tick: the workflow
// goes on between the calls.
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
