package process

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync/atomic"
	"syscall"
	"time"
)

// door is where the broker is at the moment; nobody listens when it is empty.
type door struct{ url atomic.Pointer[string] }

func (d *door) open(url string) { d.url.Store(&url) }
func (d *door) shut()           { d.url.Store(nil) }

// platform sends OSB requests and, as real ones do, sends a request again whose
// answer got lost.
type platform struct {
	door           *door
	user, password string
	http           *http.Client
	tally          *tally
}

// tally counts what became of requests.
type tally struct{ inFlight, refused, lost, answered atomic.Int64 }

// answer is what came back.
type answer struct {
	status int
	raw    []byte
	header http.Header
	fields
}

type fields struct {
	Operation   string
	State       string
	Description string
	Credentials json.RawMessage
}

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

// encode takes a body as it is when it is bytes already.
func encode(body any) ([]byte, error) {
	switch b := body.(type) {
	case nil:
		return nil, nil
	case []byte:
		return b, nil
	default:
		return json.Marshal(body)
	}
}

// once sends it one time.
func (p *platform) once(ctx context.Context, method, path string, payload []byte) (answer, error) {
	url := p.door.url.Load()
	if url == nil {
		return answer{}, errClosed
	}
	req, err := http.NewRequestWithContext(ctx, method, *url+path, bytes.NewReader(payload))
	if err != nil {
		return answer{}, err
	}
	req.SetBasicAuth(p.user, p.password)
	req.Header.Set("X-Broker-API-Version", "2.17")
	if method != http.MethodGet {
		p.tally.inFlight.Add(1)
		defer p.tally.inFlight.Add(-1)
	}
	resp, err := p.http.Do(req)
	if err != nil {
		return answer{}, err
	}
	defer func() { _ = resp.Body.Close() }()
	a := answer{status: resp.StatusCode, header: resp.Header}
	if a.raw, err = io.ReadAll(resp.Body); err != nil {
		return answer{}, err
	}
	if len(a.raw) > 0 && json.Unmarshal(a.raw, &a.fields) != nil && path != "/metrics" {
		return answer{}, fmt.Errorf("%w: %s %s: %d with a body that is no JSON: %s", errWrong, method, path, a.status, a.raw)
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
		if a.status != http.StatusOK {
			return "", fmt.Errorf("last_operation of %s (%s): %d %s", path, operation, a.status, a.raw)
		}
		if a.State != "in progress" {
			return a.State, nil
		}
		if err := wait(ctx, pause); err != nil {
			return "", fmt.Errorf("%s (%s) does not end: %w", path, operation, err)
		}
	}
}

// ids are those of a plan in the catalog.
type ids struct{ service, plan string }

func (i ids) query() string { return "service_id=" + i.service + "&plan_id=" + i.plan }

// plans reads the catalog: offering/plan to its ids.
func (p *platform) plans(ctx context.Context) (map[string]ids, error) {
	var catalog struct {
		Services []struct {
			ID, Name string
			Plans    []struct{ ID, Name string }
		}
	}
	for {
		a, err := p.send(ctx, http.MethodGet, "/v2/catalog", nil)
		if err != nil {
			return nil, err
		}
		if a.status == http.StatusServiceUnavailable { // not fetched yet
			if err := wait(ctx, 10*time.Millisecond); err != nil {
				return nil, err
			}
			continue
		}
		if err := json.Unmarshal(a.raw, &catalog); err != nil {
			return nil, fmt.Errorf("catalog: %w", err)
		}
		break
	}
	found := map[string]ids{}
	for _, s := range catalog.Services {
		for _, plan := range s.Plans {
			found[s.Name+"/"+plan.Name] = ids{s.ID, plan.ID}
		}
	}
	return found, nil
}
