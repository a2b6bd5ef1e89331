package process

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/ferry-broker/ferry/internal/osbtest"
)

// address is where the broker is at the moment; nobody listens when it is empty.
type address struct{ url atomic.Pointer[string] }

func (a *address) open(url string) { a.url.Store(&url) }
func (a *address) shut()           { a.url.Store(nil) }

type answer = osbtest.Answer

// platform sends OSB requests and, as real ones do, sends a request again whose answer got lost.
type platform struct {
	osbtest.Client
	address *address
	tally   *tally
}

// newPlatform returns a platform that has no address yet.
func newPlatform(name, password string, transport http.RoundTripper) *platform {
	return &platform{Client: osbtest.Client{Username: name, Password: password, HTTP: &http.Client{Transport: transport}}, address: new(address), tally: new(tally)}
}

// tally counts what became of requests.
type tally struct{ inFlight, refused, lost, answered atomic.Int64 }

var (
	errClosed = errors.New("nobody listens")
	errWrong  = errors.New("wrong answer")
)

// send sends the request until it is answered.
func (p *platform) send(ctx context.Context, method, path string, body any) (answer, error) {
	payload, err := encode(body)
	if err != nil {
		return answer{}, err
	}
	for {
		a, err := p.once(ctx, method, path, payload)
		switch {
		case err == nil:
			p.tally.answered.Add(1)
			return a, nil
		case errors.Is(err, errWrong):
			return answer{}, err
		case errors.Is(err, errClosed), errors.Is(err, syscall.ECONNREFUSED):
			p.tally.refused.Add(1)
		default:
			p.tally.lost.Add(1)
		}
		if ctxErr := wait(ctx, 10*time.Millisecond); ctxErr != nil {
			return answer{}, fmt.Errorf("%s %s was never answered: %w, last %w", method, path, ctxErr, err)
		}
	}
}

// encode takes a body as it is when it is text already.
func encode(body any) (string, error) {
	switch b := body.(type) {
	case nil:
		return "", nil
	case string:
		return b, nil
	default:
		text, err := json.Marshal(body)
		return string(text), err
	}
}

// once sends it one time, and judges what holds for every answer.
func (p *platform) once(ctx context.Context, method, path, payload string) (answer, error) {
	url := p.address.url.Load()
	if url == nil {
		return answer{}, errClosed
	}
	if method != http.MethodGet {
		p.tally.inFlight.Add(1)
		defer p.tally.inFlight.Add(-1)
	}
	c := p.Client
	c.URL = *url
	a, err := c.Try(ctx, method, path, payload)
	if err != nil {
		return answer{}, err
	}
	if faults := a.Faults(); len(faults) > 0 {
		return answer{}, fmt.Errorf("%w: %s: %v: %d %s", errWrong, a.Request, faults, a.Status, a.Body)
	}
	return a, nil
}

// longest is how long an operation may take, kills on its way included.
const longest = 3 * time.Minute

// end polls until the operation has ended, and returns the state.
func (p *platform) end(ctx context.Context, path, operation string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, longest)
	defer cancel()
	for pause := 10 * time.Millisecond; ; pause = min(pause*3/2, 200*time.Millisecond) {
		a, err := p.send(ctx, http.MethodGet, path+"/last_operation?operation="+operation, nil)
		if err != nil {
			return "", err
		}
		if a.Status != http.StatusOK {
			return "", fmt.Errorf("last_operation of %s (%s): %d %s", path, operation, a.Status, a.Body)
		}
		if a.State() != "in progress" {
			return a.State(), nil
		}
		if err := wait(ctx, pause); err != nil {
			return "", fmt.Errorf("%s (%s) does not end: %w", path, operation, err)
		}
	}
}

func hints(p osbtest.Plan) string { return "service_id=" + p.ServiceID + "&plan_id=" + p.PlanID }

// plans waits for the catalog and reads it: offering/plan to its ids.
func (p *platform) plans(ctx context.Context) (map[string]osbtest.Plan, error) {
	var catalog struct {
		Services []struct {
			ID, Name string
			Plans    []struct{ ID, Name string }
		}
	}
	a, err := p.send(ctx, http.MethodGet, "/v2/catalog", nil)
	for ; err == nil && a.Status == http.StatusServiceUnavailable; a, err = p.send(ctx, http.MethodGet, "/v2/catalog", nil) {
		if err := wait(ctx, 10*time.Millisecond); err != nil { // not fetched yet
			return nil, err
		}
	}
	if err == nil {
		err = json.Unmarshal([]byte(a.Body), &catalog)
	}
	found := map[string]osbtest.Plan{}
	for _, s := range catalog.Services {
		for _, plan := range s.Plans {
			found[s.Name+"/"+plan.Name] = osbtest.Plan{ServiceID: s.ID, PlanID: plan.ID}
		}
	}
	return found, err
}
