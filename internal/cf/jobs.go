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

// Job returns the state of a job, by one GET (go-cfclient's waiting for a job
// ignores its context, trap 8).
func (b *Backend) Job(ctx context.Context, guid string) (broker.JobSight, error) {
	r := request{
		method: http.MethodGet, path: "/v3/jobs/" + url.PathEscape(guid), route: "/v3/jobs/:guid",
		what: "get job " + strconv.Quote(guid),
	}
	var job resource.Job
	_, err := b.get(ctx, r, &job)
	switch {
	case isAbsent(err):
		return broker.JobSight{State: lifecycle.JobLost}, nil
	case err != nil:
		return broker.JobSight{State: lifecycle.JobUnclear}, err
	}
	b.warn(ctx, guid, job)
	switch state := lifecycle.JobState(job.State); state {
	case lifecycle.JobFailed:
		return b.failedJob(job), nil
	case lifecycle.JobProcessing, lifecycle.JobPolling, lifecycle.JobComplete:
		// Errors may show before the state does; only the state counts.
		return broker.JobSight{State: state}, nil
	default:
		return broker.JobSight{State: lifecycle.JobUnclear}, &Error{Call: r.what, Err: errors.New("the job has no state that we know")}
	}
}

func (b *Backend) failedJob(job resource.Job) broker.JobSight {
	sight := broker.JobSight{State: lifecycle.JobFailed, BrokersWord: len(job.Errors) > 0}
	var texts []string
	for _, e := range job.Errors {
		f := readFailure(e)
		sight.BrokersWord = sight.BrokersWord && f.brokersWord
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
