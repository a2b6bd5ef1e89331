package cf

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/cloudfoundry/go-cfclient/v3/resource"

	"github.com/ferry-broker/ferry/internal/broker"
	"github.com/ferry-broker/ferry/internal/lifecycle"
)

// jobRow is a job as the API shows it. The state alone decides.
type jobRow struct {
	identity
	State     string                                 `json:"state"`
	Operation optional[string]                       `json:"operation"`
	Errors    optional[[]resource.CloudFoundryError] `json:"errors"`
	Warnings  optional[[]resource.JobWarning]        `json:"warnings"`
	Links     optional[map[string]*link]             `json:"links"`
}

// worksOn returns the GUID of the instance or key that the job is about, "" where it is
// not told: a Cloud Controller links it while it exists, Korifi has it in the job's name.
func (j jobRow) worksOn(job string) string {
	if guid := guidInJob(job); guid != "" {
		return guid
	}
	for _, l := range j.Links.value {
		if l == nil {
			continue
		}
		address, err := url.Parse(l.Href)
		if err != nil {
			continue
		}
		for _, route := range []string{instancesRoute + "/", keysRoute + "/"} {
			if _, guid, found := strings.Cut(address.Path, route); found && isGUID(guid) {
				return guid
			}
		}
	}
	return ""
}

// guidInJob returns the GUID in the name of one of Korifi's jobs, or "".
func guidInJob(job string) string {
	kind, guid, _ := strings.Cut(job, "~")
	if !strings.HasPrefix(kind, "managed_service_") || !isGUID(guid) {
		return ""
	}
	return guid
}

// isGUID reports whether the last part of an address or of a job's name can be a GUID.
func isGUID(text string) bool { return text != "" && !strings.ContainsAny(text, "/~") }

// Job returns the state of a job, by one GET (go-cfclient's waiting for a job
// ignores its context).
func (b *Backend) Job(ctx context.Context, guid string) (broker.JobStatus, error) {
	r := request{
		method: http.MethodGet, path: "/v3/jobs/" + url.PathEscape(guid), route: "/v3/jobs/:guid",
		what: "get job " + strconv.Quote(guid),
	}
	var job jobRow
	_, err := b.get(ctx, r, &job)
	switch {
	case isAbsent(err):
		return broker.JobStatus{State: lifecycle.JobLost}, nil
	case err != nil:
		return broker.JobStatus{State: lifecycle.JobUnclear}, err
	}
	b.warn(ctx, guid, job)
	switch state := lifecycle.JobState(job.State); state {
	case lifecycle.JobFailed:
		sight := b.failedJob(job)
		sight.GUID = job.worksOn(guid)
		return sight, nil
	case lifecycle.JobProcessing, lifecycle.JobPolling, lifecycle.JobComplete:
		// Errors may show before the state does; only the state counts.
		return broker.JobStatus{State: state, GUID: job.worksOn(guid)}, nil
	default:
		return broker.JobStatus{State: lifecycle.JobUnclear}, &Error{Call: r.what, Err: errors.New("the job has no state that we know")}
	}
}

func (b *Backend) failedJob(job jobRow) broker.JobStatus {
	failures := job.Errors.value
	sight := broker.JobStatus{State: lifecycle.JobFailed, FromBackingBroker: len(failures) > 0}
	var texts []string
	for _, e := range failures {
		f := readFailure(e)
		sight.FromBackingBroker = sight.FromBackingBroker && f.brokersWord
		if f.code != "" {
			sight.Code = string(f.code)
		}
		if f.text != "" {
			texts = append(texts, f.text)
		}
	}
	sight.Description = b.userText(strings.Join(texts, "; "))
	return sight
}
