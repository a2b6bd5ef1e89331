package dynamo

import (
	"bytes"
	"context"
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
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

const root = "../.."

// standIn is the process that plays DynamoDB for this package, started by the first
// test that needs it and ended by TestMain.
type standIn struct {
	endpoint string
	stdin    io.Closer
	end      func() error
	wait     func() error
}

var (
	standInOnce sync.Once
	theStandIn  *standIn
	standInErr  error
	tables      atomic.Int64
)

var errNotInstalled = errors.New("the stand-in for DynamoDB is not installed: make stand-in")

func TestMain(m *testing.M) {
	code := m.Run()
	if theStandIn != nil {
		if err := theStandIn.stop(); err != nil {
			fmt.Fprintln(os.Stderr, "stop the stand-in:", err)
			code = 1
		}
	}
	os.Exit(code)
}

// requireStandIn returns its address, or skips the test where it is not installed.
func requireStandIn(t testing.TB) string {
	t.Helper()
	standInOnce.Do(func() { theStandIn, standInErr = startStandIn() })
	if errors.Is(standInErr, errNotInstalled) {
		t.Skip(standInErr)
	}
	if standInErr != nil {
		t.Fatal(standInErr)
	}
	return theStandIn.endpoint
}

// startStandIn tries again, on another port, when somebody was quicker to take it.
func startStandIn() (*standIn, error) {
	python, err := filepath.Abs(filepath.Join(root, ".cache", "venv", "bin", "python"))
	if err != nil {
		return nil, err
	}
	if _, err := os.Stat(filepath.Join(root, ".cache", "venv", "pinned")); err != nil {
		return nil, errNotInstalled
	}
	var faults error
	for range 3 {
		s, err := start(python)
		if err == nil {
			return s, nil
		}
		faults = errors.Join(faults, err)
	}
	return nil, faults
}

func start(python string) (*standIn, error) {
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "ferry-standin")
	if err != nil {
		return nil, err
	}
	c := exec.Command(python, filepath.Join(root, "tools", "standin", "serve.py"))
	c.Env = []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "TMPDIR=" + dir, "S3_DATA_DIR=" + dir, "STATE_DIR=" + dir,
		"BIND_HOST=127.0.0.1", "MINISTACK_HOST=127.0.0.1", "GATEWAY_PORT=" + strconv.Itoa(port),
		"SFTP_ENABLED=0", "IOT_MTLS_ENABLED=0", "LOG_LEVEL=WARNING", "DOCKER_HOST=unix://" + filepath.Join(dir, "none"),
	}
	var output bytes.Buffer
	c.Stdout, c.Stderr = &output, &output
	stdin, err := c.StdinPipe()
	if err != nil {
		return nil, err
	}
	s := &standIn{endpoint: fmt.Sprintf("http://127.0.0.1:%d", port), stdin: stdin, end: inGroup(c)}
	if err := c.Start(); err != nil {
		return nil, err
	}
	gone := make(chan struct{})
	go func() { _ = c.Wait(); close(gone) }()
	s.wait = func() error { <-gone; return os.RemoveAll(dir) }
	if err := s.ready(gone); err != nil {
		return nil, errors.Join(err, s.stop(), errors.New(output.String()))
	}
	return s, nil
}

func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	return l.Addr().(*net.TCPAddr).Port, l.Close()
}

func (s *standIn) ready(gone <-chan struct{}) error {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	late := time.After(30 * time.Second)
	for {
		answer, err := http.Get(s.endpoint + "/_ministack/health")
		if err == nil && answer.Body.Close() == nil && answer.StatusCode == http.StatusOK {
			return nil
		}
		select {
		case <-tick.C:
		case <-gone:
			return errors.New("the stand-in ended at once")
		case <-late:
			return fmt.Errorf("the stand-in does not answer: %w", err)
		}
	}
}

// stop ends the whole process group; what ended by itself is no fault.
func (s *standIn) stop() error {
	_ = s.end()
	_ = s.stdin.Close()
	return s.wait()
}

// credentials are what a stand-in takes.
func credentials(context.Context) (aws.Credentials, error) {
	return aws.Credentials{AccessKeyID: "test", SecretAccessKey: "test"}, nil
}

func configFor(endpoint string, client aws.HTTPClient) aws.Config {
	return aws.Config{
		Region: "us-east-1", BaseEndpoint: aws.String(endpoint), HTTPClient: client,
		Credentials: aws.CredentialsProviderFunc(credentials),
	}
}

// newTable makes an empty table of the test's own and returns its name and a client to
// look into it with.
func newTable(t testing.TB) (string, *dynamodb.Client) {
	t.Helper()
	client := dynamodb.NewFromConfig(configFor(requireStandIn(t), nil))
	name := fmt.Sprintf("ferry-%d", tables.Add(1))
	_, err := client.CreateTable(t.Context(), Table(name))
	// The stand-in loses an answer now and then; then the SDK asks for the table again.
	if _, made := errors.AsType[*types.ResourceInUseException](err); err != nil && !made {
		t.Fatal(err)
	}
	return name, client
}

// on returns a Store on the table that goes by the line.
func on(t testing.TB, table string, now func() time.Time, l *line) *Store {
	t.Helper()
	s, err := New(Options{Config: configFor("http://127.0.0.1:1", l), Endpoint: requireStandIn(t), Table: table, Now: now})
	if err != nil {
		t.Fatal(err)
	}
	s.part = shortPart
	return s
}
