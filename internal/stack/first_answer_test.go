package stack

import (
	"bytes"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
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
	"testing"
	"time"
)

// TestFirstAnswer starts the deployed binary under the runtime interface emulator that
// comes with SAM and asks for the catalog: one read of the secret, one of the table.
// `make sizes` prints how long that took; no time is asserted, since machines differ.
func TestFirstAnswer(t *testing.T) {
	if testing.Short() {
		t.Skip("builds a binary")
	}
	emulatorProgram(t)
	binary := buildAPI(t, runtime.GOARCH)
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

// backdrop answers for Secrets Manager and DynamoDB at once, so that the figures are the
// function's own: a configuration, and the catalog that the first version stored. It
// speaks TLS, as AWS does, and returns the file with the certificate to trust.
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
	event := readRoot(t, "events/catalog.json")
	began := time.Now()
	answer, err := e.invoke(event)
	took := time.Since(began)
	if err != nil || answer.StatusCode != http.StatusOK || !strings.Contains(answer.Body, `"services":[`) {
		t.Fatalf("%d %.300s, %v; the log: %s", answer.StatusCode, answer.Body, err, e.log)
	}
	return took
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
