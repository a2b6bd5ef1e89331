package cf

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ferry-broker/ferry/internal/broker"
	"github.com/ferry-broker/ferry/internal/lifecycle"
)

// failedJob is the errors of a job, from the brace on, and what they mean.
type failedJob struct {
	errors string
	want   broker.JobStatus
}

// unable is the title of most failures.
const unable = "CF-UnableToPerform"

// brokersFailures are what backing brokers said.
func brokersFailures() map[string]failedJob {
	return map[string]failedJob{
		"the broker rejects a create": {
			cfError(10009, unable, "provision could not be completed: Service broker error: no quota at https://b.example.org/x"),
			broker.JobStatus{FromBackingBroker: true, Description: "no quota at [address]"}},
		"the broker rejects without a sentence": {
			cfError(10009, unable, "bind could not be completed: The service broker rejected the request. Status Code: 400 Bad Request, Body: {}"),
			broker.JobStatus{FromBackingBroker: true, Description: "The service broker rejected the request. Status Code: 400 Bad Request, Body: {}"}},
		"an asynchronous create fails": {
			cfError(10009, unable, "create managed could not be completed: Service broker error: disk full"),
			broker.JobStatus{FromBackingBroker: true, Description: "disk full"}},
		"an asynchronous bind fails with a class name": {
			cfError(10009, unable, "create could not be completed: "+lastOperationClass),
			broker.JobStatus{FromBackingBroker: true}},
		"a delete is rejected, behind the instance's name": {
			cfError(10009, unable, "delete could not be completed: Service instance a: b: Service broker error: in use"),
			broker.JobStatus{FromBackingBroker: true, Description: "in use"}},
		"an unbind is rejected": {
			cfError(10009, unable, "unbind could not be completed: "+unbindWrapper+"one: Service broker error: in use"),
			broker.JobStatus{FromBackingBroker: true, Description: "in use"}},
	}
}

// otherFailures are conflicts, timeouts and troubles inside Cloud Foundry; some more of brokers stand beside what they
// resemble.
func otherFailures() map[string]failedJob {
	return map[string]failedJob{
		"a key stands in the way of a delete": {
			cfError(10009, unable, "delete could not be completed: "+unbindWrapper+"one: Service broker error: in use"),
			broker.JobStatus{Description: unbindWrapper + "one: in use"}},
		"an unbind runs in the way of a delete": {
			cfError(10009, unable, "delete could not be completed: An operation for a service binding of service instance one is in progress."),
			broker.JobStatus{Description: "An operation for a service binding of service instance one is in progress."}},
		"the database is in the way": {
			cfError(10009, unable, "delete could not be completed: PG::ForeignKeyViolation: ERROR: update or delete"),
			broker.JobStatus{Description: "PG::ForeignKeyViolation: ERROR: update or delete"}},
		"superseded": {
			cfError(10009, unable, "create could not be completed: delete in progress"),
			broker.JobStatus{Description: "delete in progress"}},
		"in progress":        {cfError(60016, "CF-AsyncServiceInstanceOperationInProgress", "An operation for service instance one is in progress."), broker.JobStatus{Description: "An operation for service instance one is in progress."}},
		"out of time":        {cfError(290006, "CF-JobTimeout", "The job execution has timed out."), broker.JobStatus{Description: "The job execution has timed out."}},
		"vanished":           {cfError(10010, "CF-ResourceNotFound", "The service instance could not be found: g."), broker.JobStatus{Description: "The service instance could not be found: g."}},
		"unreachable broker": {cfError(10009, unable, "provision could not be completed: The service broker could not be reached"), broker.JobStatus{Description: "The service broker could not be reached"}},
		"needs an app":       {cfError(10009, unable, "bind could not be completed: "+requiresApp), broker.JobStatus{FromBackingBroker: true, Description: requiresApp, Code: "RequiresApp"}},
		"without a reason":   {`{"errors":[]}`, broker.JobStatus{}},
		"of several not all are the broker's": {
			`{"errors":[{"code":10009,"title":"x","detail":"delete could not be completed: Service broker error: a"},{"code":10008,"title":"x","detail":"b"}]}`,
			broker.JobStatus{Description: "a; b"}},
		"an asynchronous delete fails, in words without a sign": {
			cfError(10009, unable, "delete could not be completed: Service instance is in use"),
			broker.JobStatus{FromBackingBroker: true, Description: "Service instance is in use"}},
		"a delete runs out of time behind the instance's name": {
			cfError(10009, unable, "delete could not be completed: Service instance a: The request to the service broker timed out"),
			broker.JobStatus{Description: "Service instance a: The request to the service broker timed out"}},
		"an unbind runs out of time": {
			cfError(10009, unable, "unbind could not be completed: "+unbindWrapper+"a: The request to the service broker timed out"),
			broker.JobStatus{Description: unbindWrapper + "a: The request to the service broker timed out"}},
		"an exception": {
			cfError(10009, unable, "update could not be completed: Sequel::DatabaseConnectionError: x"),
			broker.JobStatus{Description: "Sequel::DatabaseConnectionError: x"}},
		"a wrapper under another code": {
			cfError(10008, "CF-UnprocessableEntity", "unbind could not be completed: Service broker error: x"),
			broker.JobStatus{Description: "unbind could not be completed: x"}},
		"a failure that no wrapper tells of": {
			cfError(10009, unable, "Service broker error: x"),
			broker.JobStatus{Description: "x"}},
	}
}

func TestFailedJobs(t *testing.T) {
	t.Parallel()
	cases := brokersFailures()
	maps.Copy(cases, otherFailures())
	for name, test := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStub(t, func(w http.ResponseWriter, _ *http.Request) {
				reply(w, 200, `{"guid":"j","state":"FAILED",`+test.errors[1:])
			})
			test.want.State = lifecycle.JobFailed
			got, err := s.backend(t, nil).Job(t.Context(), "j")
			if diff := cmp.Diff(test.want, got); err != nil || diff != "" {
				t.Errorf("%v (-want +got):\n%s", err, diff)
			}
		})
	}
}

func TestJobStates(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		status int
		body   string
		want   lifecycle.JobState
		fails  bool
	}{
		"processing, with an error that does not count": {200, `{"guid":"j","state":"PROCESSING","errors":[{"code":1,"title":"x","detail":"y"}]}`, lifecycle.JobProcessing, false},
		"polling":                  {200, `{"guid":"j","state":"POLLING"}`, lifecycle.JobPolling, false},
		"complete":                 {200, `{"guid":"j","state":"COMPLETE","errors":[]}`, lifecycle.JobComplete, false},
		"lost":                     {404, cfError(10010, "CF-ResourceNotFound", "Job not found"), lifecycle.JobLost, false},
		"a router's 404":           {404, "Requested route does not exist", lifecycle.JobUnclear, true},
		"an unknown call":          {404, cfError(10000, "CF-NotFound", "Unknown request"), lifecycle.JobUnclear, true},
		"a gateway":                {502, "<html>", lifecycle.JobUnclear, true},
		"limited":                  {429, cfError(10013, "CF-RateLimitExceeded", "Rate Limit Exceeded"), lifecycle.JobUnclear, true},
		"a page":                   {200, "<html>", lifecycle.JobUnclear, true},
		"a state of another world": {200, `{"guid":"j","state":"DREAMING"}`, lifecycle.JobUnclear, true},
		"no state":                 {200, `{}`, lifecycle.JobUnclear, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStub(t, func(w http.ResponseWriter, _ *http.Request) { reply(w, test.status, test.body) })
			got, err := s.backend(t, nil).Job(t.Context(), "j")
			if got.State != test.want || (err != nil) != test.fails {
				t.Errorf("%+v, %v; want %s", got, err, test.want)
			}
		})
	}
}

func TestJobOfKorifiIsAskedByItsName(t *testing.T) {
	t.Parallel()
	const guid = "managed_service_instance.delete~7a4aaaef"
	s := newStub(t, func(w http.ResponseWriter, r *http.Request) {
		reply(w, 200, fmt.Sprintf(`{"guid":%q,"state":"POLLING","path":%q}`, guid, r.URL.Path))
	})
	if got, err := s.backend(t, nil).Job(t.Context(), guid); err != nil || got.State != lifecycle.JobPolling {
		t.Errorf("%+v, %v", got, err)
	}
	if s.count("GET /v3/jobs/"+guid) != 1 {
		t.Errorf("requests %v", s.requests)
	}
}

// logged returns the lines of one level.
func logged(t *testing.T, log *bytes.Buffer, level slog.Level) (lines []map[string]any) {
	t.Helper()
	for line := range strings.Lines(log.String()) {
		var fields map[string]any
		if err := json.Unmarshal([]byte(line), &fields); err != nil {
			t.Fatal(err)
		}
		if fields["level"] == level.String() {
			lines = append(lines, fields)
		}
	}
	return lines
}

func jsonLog(log *bytes.Buffer) func(*Config) {
	return func(c *Config) {
		c.Logger = slog.New(slog.NewJSONHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	}
}

// TestWarningsOfJobsAreLoggedOnce: every answer repeats those before.
func TestWarningsOfJobsAreLoggedOnce(t *testing.T) {
	t.Parallel()
	var asked atomic.Int64
	s := newStub(t, func(w http.ResponseWriter, _ *http.Request) {
		state, more := "POLLING", ""
		if asked.Add(1) == 3 {
			state, more = "COMPLETE", `,{"detail":"second"}`
		}
		reply(w, 200, fmt.Sprintf(`{"guid":"j","operation":"service_instance.delete","state":%q,"warnings":[{"detail":"first, Body: secret"}%s]}`, state, more))
	})
	var log bytes.Buffer
	b := s.backend(t, jsonLog(&log))
	for range 3 {
		if _, err := b.Job(t.Context(), "j"); err != nil {
			t.Fatal(err)
		}
	}
	lines := logged(t, &log, slog.LevelInfo)
	if len(lines) != 2 || lines[0]["warning"] != "first" || lines[1]["warning"] != "second" || lines[0]["job"] != "j" {
		t.Errorf("logged %v, want each warning once", lines)
	}
	if len(b.jobs.warned.counts) != 0 {
		t.Errorf("an ended job is remembered: %v", b.jobs.warned.counts)
	}
}

func TestWarningsAreNotRememberedWithoutEnd(t *testing.T) {
	t.Parallel()
	h := newWarned()
	for i := range 3 * maxWarned {
		h.count(fmt.Sprint(i), 1, false)
	}
	if len(h.counts) > maxWarned {
		t.Errorf("%d jobs are remembered", len(h.counts))
	}
}
