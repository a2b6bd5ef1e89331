package cf

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"strings"

	"github.com/ferry-broker/ferry/internal/broker"
	"github.com/ferry-broker/ferry/internal/lifecycle"
)

// call sends a request that changes something and says what became of it.
func (b *Backend) call(ctx context.Context, r request, noun string) (broker.Answer, error) {
	answer, err := b.send(ctx, r)
	if err != nil {
		return b.refused(err, noun), err
	}
	reply, err := taken(r, answer)
	if reply.Job != "" {
		b.tongue.learnFromJob(reply.Job)
	}
	return reply, err
}

// taken reads the answer of a call that succeeded. One that is neither a job nor
// the resource nor (to a DELETE) empty may be anybody's, so it leaves the fate open
// (protocol.md 3.5). go-cfclient would take a lost Location for success.
func taken(r request, answer *response) (broker.Answer, error) {
	switch answer.status {
	case http.StatusAccepted:
		if job := jobOf(answer.header.Get("Location")); job != "" {
			accepted := broker.Answer{Reply: lifecycle.ReplyAccepted, Job: job}
			if r.method == http.MethodPost {
				accepted.GUID = guidInJob(job)
			}
			return accepted, nil
		}
		return unclear(r, answer, "accepted without the address of a job")
	case http.StatusOK, http.StatusCreated:
		var made identity
		if json.Unmarshal(answer.body, &made) == nil && made.GUID != "" {
			done := broker.Answer{Reply: lifecycle.ReplyDone}
			if r.method == http.MethodPost {
				done.GUID = made.GUID
			}
			return done, nil
		}
	case http.StatusNoContent:
		if r.method == http.MethodDelete {
			return broker.Answer{Reply: lifecycle.ReplyDone}, nil
		}
	}
	return unclear(r, answer, "the answer is not the resource")
}

func unclear(r request, answer *response, why string) (broker.Answer, error) {
	err := &Error{Call: r.what, Status: answer.status, Err: errors.New(why)}
	return broker.Answer{Reply: lifecycle.ReplyUnknown}, err
}

// jobOf returns the GUID in the address of a job. Only the path counts: a Cloud
// Controller may know itself under another name than we do.
func jobOf(location string) string {
	address, err := url.Parse(location)
	if err != nil {
		return ""
	}
	_, guid, found := strings.Cut(address.Path, "/v3/jobs/")
	if !found || strings.Contains(guid, "/") {
		return ""
	}
	return guid
}

// withParameters puts parameters into a JSON object, byte for byte. encoding/json
// would compact and escape them.
func withParameters(body any, parameters json.RawMessage) ([]byte, error) {
	rest, err := json.Marshal(body)
	if err != nil || len(parameters) == 0 {
		return rest, err
	}
	if !json.Valid(parameters) {
		return nil, errParameters
	}
	whole := make([]byte, 0, len(rest)+len(parameters)+len(`{"parameters":,`))
	whole = append(whole, `{"parameters":`...)
	whole = append(whole, parameters...)
	whole = append(whole, ',')
	return append(whole, rest[1:]...), nil
}

var errParameters = errors.New("the parameters are not JSON")

// unsendable is the answer to a call whose body cannot be built; another try would
// fail in the same way.
func unsendable(what, noun string, err error) (broker.Answer, error) {
	return broker.Answer{
		Reply:       lifecycle.ReplyRefused,
		Description: "Ferry cannot send " + noun + ": " + err.Error(),
	}, &Error{Call: what, Err: err, unsent: true}
}
