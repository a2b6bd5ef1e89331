package cf

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/cloudfoundry/go-cfclient/v3/resource"

	"github.com/ferry-broker/ferry/internal/broker"
	"github.com/ferry-broker/ferry/internal/ccapi"
	"github.com/ferry-broker/ferry/internal/lifecycle"
)

// jobs reads jobs.
type jobs struct {
	api    *ccapi.Client
	logger *slog.Logger
	warned *warned
}

// Job returns the state of a job, by one GET (go-cfclient's waiting for a job ignores its context).
func (j *jobs) Job(ctx context.Context, guid string) (broker.JobStatus, error) {
	r := ccapi.Request{
		Method: http.MethodGet, Path: "/v3/jobs/" + url.PathEscape(guid), Route: "/v3/jobs/:guid",
		What: "get job " + strconv.Quote(guid),
	}
	var job jobRow
	_, err := j.api.Get(ctx, r, &job)
	switch {
	case ccapi.IsAbsent(err):
		return broker.JobStatus{State: lifecycle.JobLost}, nil
	case err != nil:
		return broker.JobStatus{State: lifecycle.JobUnclear}, err
	}
	j.warn(ctx, guid, job)
	switch state := lifecycle.JobState(job.State); state {
	case lifecycle.JobFailed:
		status := j.failed(job)
		status.GUID = job.worksOn(guid)
		return status, nil
	case lifecycle.JobProcessing, lifecycle.JobPolling, lifecycle.JobComplete:
		// Errors may show before the state does; only the state counts.
		return broker.JobStatus{State: state, GUID: job.worksOn(guid)}, nil
	default:
		return broker.JobStatus{State: lifecycle.JobUnclear}, &ccapi.Error{Call: r.What, Err: errors.New("the job has no state that we know")}
	}
}

func (j *jobs) failed(job jobRow) broker.JobStatus {
	failures := job.Errors.Value
	status := broker.JobStatus{State: lifecycle.JobFailed, FromBackingBroker: len(failures) > 0}
	var texts []string
	for _, e := range failures {
		f := readFailure(e)
		status.FromBackingBroker = status.FromBackingBroker && f.fromBackingBroker
		if f.code != "" {
			status.Code = string(f.code)
		}
		if f.text != "" {
			texts = append(texts, f.text)
		}
	}
	status.Description = j.api.ForUsers(strings.Join(texts, "; "))
	return status
}

// jobRow is a job as the API shows it. The state alone decides.
type jobRow struct {
	ccapi.Identity
	State     string                                 `json:"state"`
	Operation ccapi.Optional[string]                 `json:"operation"`
	Errors    ccapi.Optional[[]ccapi.Reason]         `json:"errors"`
	Warnings  ccapi.Optional[[]resource.JobWarning]  `json:"warnings"`
	Links     ccapi.Optional[map[string]*ccapi.Link] `json:"links"`
}

// worksOn returns the GUID of the instance or key that the job is about, "" where it is not told: a Cloud Controller
// links it while it exists, Korifi has it in the job's name.
func (row jobRow) worksOn(job string) string {
	if guid := guidInJob(job); guid != "" {
		return guid
	}
	for _, l := range row.Links.Value {
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

// failure is one error of a job (docs/cf-contract.md 2.5).
type failure struct {
	text              string
	fromBackingBroker bool
	code              broker.Code
}

// Texts of failures.
const (
	// lastOperationClass is what a key's job says when the backing broker reported a failure later on.
	lastOperationClass = "VCAP::CloudController::V3::LastOperationFailedState"
	requiresApp        = "This service supports generation of credentials through binding an application only."
	namedInstance      = "Service instance "
	unbindWrapper      = "Service broker failed to delete service binding for instance "
)

var (
	// wrapped matches how Cloud Foundry says what it was doing when it failed.
	wrapped = regexp.MustCompile(`^(provision|create managed|create|update|delete|bind|unbind) could not be completed: `)
	// rubyClass matches the start of an exception's text, a database's as a rule.
	rubyClass = regexp.MustCompile(`^[A-Z]\w*(::[A-Z]\w*)+`)
)

// brokersSentences begin what a backing broker answered to a request.
var brokersSentences = []string{"Service broker error: ", "The service broker rejected the request", requiresApp}

// ownSentences begin what Cloud Foundry says of conflicts, of brokers that did not answer, and of its own troubles.
var ownSentences = []string{
	"An operation for a service binding of service instance ",
	"An operation for service instance ",
	"delete in progress",
	unbindWrapper,
	"The service broker could not be reached",
	"The request to the service broker timed out",
	"The service broker returned an invalid response",
	"The service broker could not perform this operation in parallel",
	"The service broker reported an error during deprovisioning",
	"Authentication with the service broker failed",
	"Resource conflict",
	"Service Broker failed to ",
	"The service instance could not be found",
	"The binding could not be found",
	"Operation was stuck",
}

// readFailure takes an error of a job apart. What a backing broker says when an asynchronous operation fails follows
// the wrapper as it is, without any sign; so its word is what is in the wrapper and not one of Cloud Foundry's own
// sentences.
func readFailure(e ccapi.Reason) failure {
	match := wrapped.FindStringSubmatch(e.Detail)
	if match == nil || e.Code != ccapi.CodeUnableToPerform {
		return failure{text: withoutClass(e.Detail)}
	}
	text := strings.TrimPrefix(e.Detail, match[0])
	said := text
	// Of a key's own deletion the second is what its broker said; in an instance's it is a key that stood in the way.
	if strings.HasPrefix(text, namedInstance) || (match[1] == "unbind" && strings.HasPrefix(text, unbindWrapper)) {
		said = behindName(text)
	}
	if said == "" || cloudFoundrysOwn(said) {
		return failure{text: withoutClass(text)}
	}
	f := failure{text: withoutClass(said), fromBackingBroker: true}
	if said == requiresApp {
		f.code = broker.CodeRequiresApp
	}
	return f
}

// behindName returns the sentence that follows the name of an instance. A name may be anything, so known sentences are
// looked for; without one, text is returned.
func behindName(text string) string {
	first := len(text)
	for _, sentence := range slices.Concat(brokersSentences, ownSentences) {
		if i := strings.Index(text, ": "+sentence); i >= 0 && i < first {
			first = i
		}
	}
	if first == len(text) {
		return text
	}
	return text[first+len(": "):]
}

func cloudFoundrysOwn(text string) bool {
	for _, sentence := range ownSentences {
		if strings.HasPrefix(text, sentence) {
			return true
		}
	}
	return rubyClass.MatchString(text) && text != lastOperationClass
}

// withoutClass empties a text that is but the name of a class: the row's last operation knows the reason.
func withoutClass(text string) string {
	if text == lastOperationClass {
		return ""
	}
	return text
}

// maxWarned is for how many jobs it is remembered which warnings were logged.
const maxWarned = 1000

// warned counts the warnings of running jobs that were logged: a job is asked at every tick and repeats them all.
type warned struct {
	mu     sync.Mutex
	counts map[string]int // by job
}

func newWarned() *warned { return &warned{counts: map[string]int{}} }

// count notes that a job has n warnings and returns how many of them were logged before.
func (w *warned) count(job string, n int, ended bool) (before int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	before = min(w.counts[job], n)
	switch {
	case ended:
		delete(w.counts, job)
	case n > 0:
		if len(w.counts) >= maxWarned {
			clear(w.counts) // lines said twice do no harm
		}
		w.counts[job] = n
	}
	return before
}

// warn logs what Cloud Foundry warns of in a job, each warning once.
func (j *jobs) warn(ctx context.Context, guid string, job jobRow) {
	ended := lifecycle.JobState(job.State).Ended()
	warnings := job.Warnings.Value
	if len(warnings) == 0 && !ended {
		return
	}
	before := j.warned.count(guid, len(warnings), ended)
	for _, w := range warnings[before:] {
		j.logger.InfoContext(ctx, "cloud foundry warns", "job", guid, "operation", job.Operation.Value, "warning", j.api.ForLog(w.Detail))
	}
}
