package deployed

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/secretsmanager"
	"github.com/aws/aws-sdk-go-v2/service/sfn"
)

// What the stand-in takes.
const (
	region  = "us-east-1"
	testKey = "test"
)

// cloud is the stand-in as its operator sees it, past the gate.
type cloud struct {
	endpoint string
	dynamodb *dynamodb.Client
	sfn      *sfn.Client
	secrets  *secretsmanager.Client
}

func credentials(context.Context) (aws.Credentials, error) {
	return aws.Credentials{AccessKeyID: testKey, SecretAccessKey: testKey}, nil
}

func newCloud(endpoint string) *cloud {
	c := aws.Config{
		Region: region, BaseEndpoint: aws.String(endpoint), HTTPClient: &http.Client{Timeout: patience},
		Credentials: aws.CredentialsProviderFunc(credentials),
	}
	return &cloud{
		endpoint: endpoint, dynamodb: dynamodb.NewFromConfig(c),
		sfn: sfn.NewFromConfig(c), secrets: secretsmanager.NewFromConfig(c),
	}
}

// call sends a signed request to a service that go.mod has no client for, and returns status and body. The test ends
// when there is no answer.
func (c *cloud) call(t *testing.T, service string, req *http.Request, body []byte) (int, http.Header, []byte) {
	t.Helper()
	sum := sha256.Sum256(body)
	identity, _ := credentials(context.Background())
	if err := v4.NewSigner().SignHTTP(context.Background(), identity, req, hex.EncodeToString(sum[:]), service, region, time.Now()); err != nil {
		t.Fatal(err)
	}
	answer, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatalf("%s: %v", service, err)
	}
	defer func() { _ = answer.Body.Close() }()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatalf("%s: %v", service, err)
	}
	return answer.StatusCode, answer.Header, text
}

func (c *cloud) request(t *testing.T, method, path string, body []byte) *http.Request {
	t.Helper()
	req, err := http.NewRequestWithContext(context.Background(), method, c.endpoint+path, bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	return req
}

// query speaks the form-encoded protocol of CloudFormation and IAM. The answer is decoded into the struct, if one is
// given.
func (c *cloud) query(t *testing.T, service, version, action string, fields url.Values, into any) error {
	t.Helper()
	form := url.Values{"Action": {action}, "Version": {version}}
	for name, values := range fields {
		form[name] = values
	}
	body := []byte(form.Encode())
	req := c.request(t, http.MethodPost, "/", body)
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded; charset=utf-8")
	status, _, text := c.call(t, service, req, body)
	if status != http.StatusOK {
		return fmt.Errorf("%s %s: %d %s", service, action, status, text)
	}
	if into == nil {
		return nil
	}
	return xml.Unmarshal(text, into)
}

// target speaks the JSON protocol, as CloudWatch Logs does.
func (c *cloud) target(t *testing.T, service, action string, input, into any) error {
	t.Helper()
	body, err := json.Marshal(input)
	if err != nil {
		t.Fatal(err)
	}
	req := c.request(t, http.MethodPost, "/", body)
	req.Header.Set("Content-Type", "application/x-amz-json-1.1")
	req.Header.Set("X-Amz-Target", action)
	status, _, text := c.call(t, service, req, body)
	if status != http.StatusOK {
		return fmt.Errorf("%s: %d %s", action, status, text)
	}
	return json.Unmarshal(text, into)
}

// invoke calls a function as an operator does and returns the answer, and the name of the error when the function
// failed ("" when it did not).
func (c *cloud) invoke(t *testing.T, function, event string) (answer, failed string) {
	t.Helper()
	req := c.request(t, http.MethodPost, "/2015-03-31/functions/"+url.PathEscape(function)+"/invocations", []byte(event))
	status, header, text := c.call(t, "lambda", req, []byte(event))
	if status != http.StatusOK {
		t.Fatalf("invoke %s: %d %s", function, status, text)
	}
	return string(text), header.Get("X-Amz-Function-Error")
}

// begin lets Lambda call a function, and does not wait for its answer.
func (c *cloud) begin(t *testing.T, function, event string) {
	t.Helper()
	req := c.request(t, http.MethodPost, "/2015-03-31/functions/"+url.PathEscape(function)+"/invocations", []byte(event))
	req.Header.Set("X-Amz-Invocation-Type", "Event")
	if status, _, text := c.call(t, "lambda", req, []byte(event)); status != http.StatusAccepted {
		t.Fatalf("invoke %s: %d %s", function, status, text)
	}
}

// environment returns the variables of a version of a function, or of an alias.
func (c *cloud) environment(t *testing.T, function, qualifier string) map[string]string {
	t.Helper()
	path := "/2015-03-31/functions/" + url.PathEscape(function) + "/configuration?Qualifier=" + url.QueryEscape(qualifier)
	status, _, text := c.call(t, "lambda", c.request(t, http.MethodGet, path, nil), nil)
	var is struct {
		Environment struct{ Variables map[string]string }
	}
	if err := json.Unmarshal(text, &is); err != nil || status != http.StatusOK {
		t.Fatalf("%s of %s: %d %s, %v", qualifier, function, status, text, err)
	}
	return is.Environment.Variables
}

// line is a message in a log.
type line struct {
	Group, Message string
	Timestamp      int64
}

// mostLines is how many lines one answer holds.
const mostLines = 10000

// logs returns every line of a log group, those at the border of two answers twice.
func (c *cloud) logs(t *testing.T, group string) []line {
	t.Helper()
	var found []line
	var from int64
	for {
		page := c.linesFrom(t, group, from)
		found = append(found, page...)
		if len(page) < mostLines {
			return found
		}
		next := page[len(page)-1].Timestamp
		if next == from {
			t.Fatalf("%s has more lines in one millisecond than one answer holds", group)
		}
		from = next
	}
}

func (c *cloud) linesFrom(t *testing.T, group string, from int64) []line {
	t.Helper()
	var answer struct{ Events []line }
	input := map[string]any{"logGroupName": group, "limit": mostLines, "startTime": from}
	if err := c.target(t, "logs", "Logs_20140328.FilterLogEvents", input, &answer); err != nil {
		t.Fatal(err)
	}
	for i := range answer.Events {
		answer.Events[i].Group, answer.Events[i].Message = group, strings.TrimSpace(answer.Events[i].Message)
	}
	return answer.Events
}

// functionLogs returns all lines of the three functions.
func (s *stack) functionLogs(t *testing.T) []line {
	t.Helper()
	return s.logs(t, "ApiLogs", "PollerLogs", "JanitorLogs")
}

// logs returns all lines of the log groups that have these logical names.
func (s *stack) logs(t *testing.T, groups ...string) []line {
	t.Helper()
	var all []line
	for _, group := range groups {
		if s.resources[group] == "" {
			t.Fatalf("the stack has no log group %s", group)
		}
		all = append(all, s.cloud.logs(t, s.resources[group])...)
	}
	return all
}

// level is that of a line of ours; false for what Lambda says, which is no JSON.
func (l line) level() (slog.Level, bool) {
	var said struct{ Level *slog.Level }
	if err := json.Unmarshal([]byte(l.Message), &said); err != nil || said.Level == nil {
		return 0, false
	}
	return *said.Level, true
}

// explain prints what the functions complained about, when the test has failed.
func (s *stack) explain(t *testing.T) {
	if !t.Failed() || s.deleted {
		return
	}
	for _, l := range s.functionLogs(t) {
		if level, ours := l.level(); ours && level > slog.LevelInfo {
			t.Logf("%s: %s", l.Group, l.Message)
		}
	}
}
