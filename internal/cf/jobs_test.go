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

// failedJob is the errors of a job and what they mean.
type failedJob struct {
	errors string
	want   broker.JobStatus
}

// brokersFailures are what backing brokers said. A number is that of a scenario in docs/cf-contract.md 5.
func brokersFailures() map[string]failedJob {
	said := func(text string) broker.JobStatus {
		return broker.JobStatus{FromBackingBroker: true, Description: text}
	}
	return map[string]failedJob{
		"17 the broker rejects a create": {cfError(10009, unable, "provision could not be completed: Service broker error: no quota at https://b.example.org/x"),
			said("no quota at [address]")},
		"the broker rejects without a sentence": {cfError(10009, unable, "bind could not be completed: The service broker rejected the request. Status Code: 400 Bad Request, Body: {}"),
			said("The service broker rejected the request. Status Code: 400 Bad Request, Body: {}")},
		"an asynchronous create fails": {cfError(10009, unable, "create managed could not be completed: Service broker error: disk full"),
			said("disk full")},
		"38 an asynchronous bind fails, with the name of a class": {cfError(10009, unable, "create could not be completed: "+lastOperationClass),
			said("")},
		"29 the broker rejects an update": {cfError(10009, unable, "update could not be completed: Service broker error: not today"),
			said("not today")},
		"36 a delete is rejected, behind the instance's name": {cfError(10009, unable, "delete could not be completed: Service instance a: b: Service broker error: in use"),
			said("in use")},
		"an unbind is rejected": {cfError(10009, unable, "unbind could not be completed: "+unbindWrapper+"one: Service broker error: in use"),
			said("in use")},
		"an asynchronous delete fails, in words without a sign": {cfError(10009, unable, "delete could not be completed: Service instance is in use"),
			said("Service instance is in use")},
		"needs an app": {cfError(10009, unable, "bind could not be completed: "+requiresApp),
			broker.JobStatus{FromBackingBroker: true, Description: requiresApp, Code: "RequiresApp"}},
	}
}

// otherFailures are conflicts, timeouts and troubles inside Cloud Foundry.
func otherFailures() map[string]failedJob {
	own := func(text string) broker.JobStatus { return broker.JobStatus{Description: text} }
	same := func(code int, wrapper, text string) failedJob {
		return failedJob{cfError(code, "CF-Any", wrapper+text), own(text)}
	}
	return map[string]failedJob{
		"a key stands in the way of a delete": {cfError(10009, unable, "delete could not be completed: "+unbindWrapper+"one: Service broker error: in use"),
			own(unbindWrapper + "one: in use")},
		"34 an unbind runs in the way of a delete":             same(10009, "delete could not be completed: ", "An operation for a service binding of service instance one is in progress."),
		"the database is in the way":                           same(10009, "delete could not be completed: ", "PG::ForeignKeyViolation: ERROR: update or delete"),
		"28 an exception":                                      same(10009, "update could not be completed: ", "Sequel::DatabaseConnectionError: x"),
		"superseded":                                           same(10009, "create could not be completed: ", "delete in progress"),
		"an unreachable broker":                                same(10009, "provision could not be completed: ", "The service broker could not be reached"),
		"a delete runs out of time behind the instance's name": same(10009, "delete could not be completed: ", "Service instance a: The request to the service broker timed out"),
		"an unbind runs out of time":                           same(10009, "unbind could not be completed: ", unbindWrapper+"a: The request to the service broker timed out"),
		"33 in progress":                                       same(60016, "", "An operation for service instance one is in progress."),
		"18 out of time":                                       same(290006, "", "The job execution has timed out."),
		"22 vanished":                                          same(10010, "", "The service instance could not be found: g."),
		"without a reason":                                     {`{"errors":[]}`, broker.JobStatus{}},
		"of several not all are the broker's": {
			`{"errors":[{"code":10009,"title":"x","detail":"delete could not be completed: Service broker error: a"},{"code":10008,"title":"x","detail":"b"}]}`,
			own("a; b")},
		"a wrapper under another code":       {cfError(10008, "CF-UnprocessableEntity", "unbind could not be completed: Service broker error: x"), own("unbind could not be completed: x")},
		"a failure that no wrapper tells of": {cfError(10009, unable, "Service broker error: x"), own("x")},
	}
}

func TestFailedJobs(t *testing.T) {
	t.Parallel()
	cases := brokersFailures()
	maps.Copy(cases, otherFailures())
	for name, test := range cases {
		s := newStub(t, func(w http.ResponseWriter, _ *http.Request) {
			reply(w, 200, `{"guid":"j","state":"FAILED",`+test.errors[1:])
		})
		test.want.State = lifecycle.JobFailed
		got, err := s.backend(t, nil).Job(t.Context(), "j")
		if diff := cmp.Diff(test.want, got); err != nil || diff != "" {
			t.Errorf("%s: %v (-want +got):\n%s", name, err, diff)
		}
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
		"20 lost":                  {404, notFound("Job not found"), lifecycle.JobLost, false},
		"a router's 404":           {404, "Requested route does not exist", lifecycle.JobUnclear, true},
		"an unknown call":          {404, cfError(10000, "CF-NotFound", "Unknown request"), lifecycle.JobUnclear, true},
		"a gateway":                {502, "<html>", lifecycle.JobUnclear, true},
		"a page":                   {200, "<html>", lifecycle.JobUnclear, true},
		"a state of another world": {200, `{"guid":"j","state":"DREAMING"}`, lifecycle.JobUnclear, true},
		"no state":                 {200, `{}`, lifecycle.JobUnclear, true},
	} {
		s := newStub(t, func(w http.ResponseWriter, _ *http.Request) { reply(w, test.status, test.body) })
		got, err := s.backend(t, nil).Job(t.Context(), "j")
		if got.State != test.want || (err != nil) != test.fails {
			t.Errorf("%s: %+v, %v; want %s", name, got, err, test.want)
		}
	}
}

// TestAJobNamesItsRow (docs/protocol.md 1): so that the GUID is recorded before anybody sees the row.
func TestAJobNamesItsRow(t *testing.T) {
	t.Parallel()
	const korifis = "managed_service_binding.create~k-1"
	for job, test := range map[string]struct{ links, want string }{
		"j-1":                     {`{"self":{"href":"https://api/v3/jobs/j-1"},"service_instances":{"href":"https://api/v3/service_instances/g-1"}}`, "g-1"},
		"j-2":                     {`{"service_instance":{"href":"/v3/service_instances/g-2"},"service_credential_bindings":null}`, "g-2"},
		"j-3":                     {`{"service_credential_binding":{"href":"/v3/service_credential_bindings/k-3"}}`, "k-3"},
		"j-4":                     {`{"service_instances":{"href":"/v3/service_instances/g/credentials"}}`, ""},
		"j-5":                     {`{"service_instances":{"href":"%zz"}}`, ""},
		"j-6":                     {`null`, ""},
		korifis:                   {`{"self":{"href":"/v3/jobs/` + korifis + `"}}`, "k-1"},
		"service_broker.create~b": {`{}`, ""},
	} {
		for _, state := range []string{"PROCESSING", "COMPLETE", "FAILED"} {
			s := newStub(t, func(w http.ResponseWriter, _ *http.Request) {
				reply(w, 200, `{"guid":"`+job+`","state":"`+state+`","links":`+test.links+`}`)
			})
			got, err := s.backend(t, nil).Job(t.Context(), job)
			if err != nil || got.GUID != test.want || string(got.State) != state || s.count("GET /v3/jobs/"+job) != 1 {
				t.Errorf("%s: %+v, %v; want %s of %q", job, got, err, state, test.want)
			}
		}
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
	b := s.backend(t, func(c *Config) { c.Logger = slog.New(slog.NewJSONHandler(&log, nil)) })
	for range 3 {
		if _, err := b.Job(t.Context(), "j"); err != nil {
			t.Fatal(err)
		}
	}
	var lines []map[string]any
	for line := range strings.Lines(log.String()) {
		var fields map[string]any
		if err := json.Unmarshal([]byte(line), &fields); err != nil {
			t.Fatal(err)
		}
		delete(fields, "time")
		lines = append(lines, fields)
	}
	want := []map[string]any{
		{"level": "INFO", "msg": "cloud foundry warns", "job": "j", "operation": "service_instance.delete", "warning": "first"},
		{"level": "INFO", "msg": "cloud foundry warns", "job": "j", "operation": "service_instance.delete", "warning": "second"},
	}
	if diff := cmp.Diff(want, lines); diff != "" {
		t.Errorf("logged (-want +got):\n%s", diff)
	}
	if len(b.jobs.warned.counts) != 0 {
		t.Errorf("an ended job is remembered: %v", b.jobs.warned.counts)
	}
	w := newWarned()
	for i := range 3 * maxWarned {
		w.count(fmt.Sprint(i), 1, false)
	}
	if len(w.counts) > maxWarned {
		t.Errorf("%d jobs are remembered", len(w.counts))
	}
}
