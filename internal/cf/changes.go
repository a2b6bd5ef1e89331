package cf

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"strings"

	"github.com/ferry-broker/ferry/internal/broker"
	"github.com/ferry-broker/ferry/internal/ccapi"
	"github.com/ferry-broker/ferry/internal/lifecycle"
)

// changes sends what changes something.
type changes struct {
	api     *ccapi.Client
	flavors *flavors
}

// send sends a request that changes something and says what became of it. The noun is what the user wanted of Cloud
// Foundry, as in "the service key".
func (c changes) send(ctx context.Context, r ccapi.Request, noun string) (broker.Answer, error) {
	response, err := c.api.Send(ctx, r)
	if err != nil {
		return refused(err, noun), err
	}
	answer, err := accepted(r, response)
	if answer.Job != "" {
		c.flavors.learnFromJob(answer.Job)
	}
	return answer, err
}

// accepted reads the answer of a call that succeeded. One that is neither a job nor the resource nor (to a DELETE)
// empty may be anybody's, so it leaves the fate open (docs/protocol.md 3.5). go-cfclient would take a lost Location for
// success.
func accepted(r ccapi.Request, response *ccapi.Response) (broker.Answer, error) {
	switch response.Status {
	case http.StatusAccepted:
		if job := jobOf(response.Header.Get("Location")); job != "" {
			answer := broker.Answer{Reply: lifecycle.ReplyAccepted, Job: job}
			if r.Method == http.MethodPost {
				answer.GUID = guidInJob(job)
			}
			return answer, nil
		}
		return unclear(r, response, "accepted without the address of a job")
	case http.StatusOK, http.StatusCreated:
		var made ccapi.Identity
		if json.Unmarshal(response.Body, &made) == nil && made.GUID != "" {
			done := broker.Answer{Reply: lifecycle.ReplyDone}
			if r.Method == http.MethodPost {
				done.GUID = made.GUID
			}
			return done, nil
		}
	case http.StatusNoContent:
		if r.Method == http.MethodDelete {
			return broker.Answer{Reply: lifecycle.ReplyDone}, nil
		}
	}
	return unclear(r, response, "the answer is not the resource")
}

func unclear(r ccapi.Request, response *ccapi.Response, why string) (broker.Answer, error) {
	err := &ccapi.Error{Call: r.What, Status: response.Status, Err: errors.New(why)}
	return broker.Answer{Reply: lifecycle.ReplyUnknown}, err
}

// jobOf returns the GUID in the address of a job. Only the path counts: a Cloud Controller may know itself under
// another name than we do.
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

// withParameters puts parameters into a JSON object, byte for byte. encoding/json would compact and escape them.
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

// unsendable is the answer to a call whose body cannot be built; another try would fail in the same way.
func unsendable(what, noun string, err error) (broker.Answer, error) {
	return broker.Answer{
		Reply:       lifecycle.ReplyRefused,
		Description: "Ferry cannot send " + noun + ": " + err.Error(),
	}, &ccapi.Error{Call: what, Err: err, Unsent: true}
}
