package secrets

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/ferry-broker/ferry/internal/config"
)

const arn = "arn:aws:secretsmanager:eu-central-1:123456789012:secret:ferry-AbCdEf"

func text(client string) string {
	return "clients:\n- name: " + client + "\n  credentials:\n  - {username: u, password: s3cr3t-of-" + client + "}\n" +
		"  cloud_foundry: {api: 'https://api.example.org', org: ferry, client_id: ferry, client_secret: hidden-one}\n"
}

// manager is a Secrets Manager with one secret.
type manager struct {
	mu      sync.Mutex
	version string
	text    string
	binary  bool
	fault   string
	calls   int
	// gate, when there is one, is received from before each answer.
	gate chan struct{}
	// asked, when there is one, is told of each call.
	asked chan struct{}
}

func (m *manager) set(version, text, fault string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.version, m.text, m.fault = version, text, fault
}

func (m *manager) count() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.calls
}

func (m *manager) RoundTrip(r *http.Request) (*http.Response, error) {
	m.mu.Lock()
	m.calls++
	gate, asked := m.gate, m.asked
	m.mu.Unlock()
	if asked != nil {
		asked <- struct{}{}
	}
	if gate != nil {
		select {
		case <-gate:
		case <-r.Context().Done():
			return nil, r.Context().Err()
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	status, body := 200, map[string]any{"ARN": arn, "VersionId": m.version, "SecretString": m.text}
	switch {
	case m.fault != "":
		status, body = 400, map[string]any{"__type": m.fault, "message": "no"}
	case m.binary:
		body = map[string]any{"ARN": arn, "VersionId": m.version, "SecretBinary": []byte(m.text)}
	}
	encoded, err := json.Marshal(body)
	return &http.Response{
		StatusCode: status, Header: http.Header{"Content-Type": {"application/x-amz-json-1.1"}},
		Body: io.NopCloser(bytes.NewReader(encoded)), Request: r,
	}, err
}

// harness is a source with its clock and its log.
type harness struct {
	*Source
	manager *manager
	log     *bytes.Buffer
	mu      sync.Mutex
	now     time.Time
}

func (r *harness) pass(d time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.now = r.now.Add(d)
}

func newHarness() *harness {
	r := &harness{manager: &manager{version: "v1", text: text("one")}, log: &bytes.Buffer{}, now: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)}
	r.Source = New(Options{
		Config: aws.Config{
			Region: "eu-central-1", HTTPClient: &http.Client{Transport: r.manager},
			Credentials: aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
				return aws.Credentials{AccessKeyID: "id", SecretAccessKey: "none"}, nil
			}),
		},
		Secret: arn, MaxAge: time.Minute, Timeout: 10 * time.Second,
		LookupEnv: func(string) (string, bool) { return "", false },
		ReadFile:  func(string) ([]byte, error) { return nil, errors.New("no files here") },
		Now: func() time.Time {
			r.mu.Lock()
			defer r.mu.Unlock()
			return r.now
		},
		Logger: slog.New(slog.NewTextHandler(r.log, nil)),
	})
	return r
}

// expect fails unless the source answers with that client after so many calls in all.
func (r *harness) expect(t *testing.T, client string, calls int) {
	t.Helper()
	c, err := r.Current(t.Context())
	if err != nil || len(c.Config.Clients) != 1 || c.Config.Clients[0].Name != client {
		t.Errorf("%v, %v; want client %s", c.Config.Clients, err, client)
	}
	if got := r.manager.count(); got != calls {
		t.Errorf("%d calls of Secrets Manager, want %d", got, calls)
	}
}

func TestNothingIsReadBeforeTheFirstQuestion(t *testing.T) {
	t.Parallel()
	r := newHarness()
	if r.manager.count() != 0 {
		t.Error("New called Secrets Manager")
	}
	r.expect(t, "one", 1)
}

func TestACopyIsUsedUntilItsAge(t *testing.T) {
	t.Parallel()
	r := newHarness()
	r.expect(t, "one", 1)
	r.manager.set("v2", text("two"), "")
	r.pass(time.Minute - 1)
	r.expect(t, "one", 1)
	r.pass(1)
	r.expect(t, "two", 2)
	r.expect(t, "two", 2)
}

func TestAnUnchangedVersionStays(t *testing.T) {
	t.Parallel()
	r := newHarness()
	first, err := r.Current(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	r.pass(time.Hour)
	again, err := r.Current(t.Context())
	if err != nil || again.Version != first.Version || &again.Config.Clients[0] != &first.Config.Clients[0] {
		t.Errorf("version %s, %v: it was parsed again", again.Version, err)
	}
}

func TestTheLastGoodCopyStays(t *testing.T) {
	t.Parallel()
	tests := map[string]struct{ version, text, fault string }{
		"when Secrets Manager is out":              {"v2", text("two"), "InvalidRequestException"},
		"when the role lost its right":             {"v2", text("two"), "AccessDeniedException"},
		"when the secret was deleted":              {"v2", text("two"), "ResourceNotFoundException"},
		"when the new text is no YAML":             {"v2", "clients: [", ""},
		"when the new text is no configuration":    {"v2", "clients: []", ""},
		"when the new text has an unknown key":     {"v2", text("two") + "passwords: s3cr3t\n", ""},
		"when the new text refers to nothing":      {"v2", strings.ReplaceAll(text("two"), "hidden-one", "${env:GONE}"), ""},
		"when the new version has no text at all":  {"v2", "", ""},
		"when a password was written as a mapping": {"v2", strings.ReplaceAll(text("two"), "hidden-one", "{s3cr3t: x}"), ""},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newHarness()
			r.expect(t, "one", 1)
			r.manager.set(test.version, test.text, test.fault)
			r.pass(time.Minute)
			r.expect(t, "one", 2)
			r.expect(t, "one", 2) // and it is not asked again at once
			if !strings.Contains(r.log.String(), "in_use=v1") || strings.Contains(r.log.String(), "s3cr3t") {
				t.Errorf("the log: %s", r.log)
			}
			r.manager.set("v3", text("three"), "")
			r.pass(pause)
			r.expect(t, "three", 3)
		})
	}
}

func TestWithoutAGoodCopyThereIsAnError(t *testing.T) {
	t.Parallel()
	r := newHarness()
	r.manager.set("v1", "clients: []", "")
	_, err := r.Current(t.Context())
	if _, faults := errors.AsType[*config.Faults](err); !faults {
		t.Errorf("error %v, want the faults of the text", err)
	}
	r.manager.set("v2", text("two"), "")
	r.expect(t, "two", 2)
}

func TestABinarySecretIsReadToo(t *testing.T) {
	t.Parallel()
	r := newHarness()
	r.manager.binary = true
	r.expect(t, "one", 1)
}

func TestOneCallerReadsAndTheOthersGoOn(t *testing.T) {
	t.Parallel()
	r := newHarness()
	r.expect(t, "one", 1)
	r.manager.mu.Lock()
	r.manager.gate, r.manager.asked = make(chan struct{}), make(chan struct{}, 1)
	r.manager.mu.Unlock()
	r.manager.set("v2", text("two"), "")
	r.pass(time.Minute)
	read := make(chan Copy)
	go func() {
		c, _ := r.Current(t.Context())
		read <- c
	}()
	<-r.manager.asked // the reader is under way and holds the lock
	if c, err := r.Current(t.Context()); err != nil || c.Version != "v1" {
		t.Errorf("version %q, %v: a reader held up the others", c.Version, err)
	}
	close(r.manager.gate)
	if c := <-read; c.Version != "v2" {
		t.Errorf("the reader got version %q", c.Version)
	}
}

func TestTheFirstReadersShareOneCall(t *testing.T) {
	t.Parallel()
	r := newHarness()
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			if c, err := r.Current(t.Context()); err != nil || c.Version != "v1" {
				t.Errorf("version %q, %v", c.Version, err)
			}
		})
	}
	all.Wait()
	if n := r.manager.count(); n != 1 {
		t.Errorf("%d calls, want 1", n)
	}
}

func TestAHangingSecretsManagerIsNotWaitedFor(t *testing.T) {
	t.Parallel()
	r := newHarness()
	r.expect(t, "one", 1)
	r.manager.mu.Lock()
	r.manager.gate = make(chan struct{})
	r.manager.mu.Unlock()
	r.options.Timeout = 20 * time.Millisecond
	r.pass(time.Minute)
	r.expect(t, "one", 2)
}
