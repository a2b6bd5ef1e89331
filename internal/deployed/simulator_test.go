package deployed

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"testing"
)

// simulator is the simulated Cloud Foundry, past its API (docs/simulator.md).
type simulator struct{ url string }

// cfInstance is an instance that Cloud Foundry has.
type cfInstance struct {
	GUID, Name, Org, Space, Offering, Plan string
	Labels, Annotations                    map[string]string
	Parameters                             json.RawMessage
	Keys                                   []struct {
		GUID, Name  string
		Annotations map[string]string
	}
}

// cfState is what GET /__sim/state tells.
type cfState struct {
	Instances   []cfInstance
	Requests    map[string]int
	BrokerCalls []struct {
		Org, Instance, Binding, Operation string
		Count                             int
	} `json:"broker_calls"`
}

// control calls one of the simulator's controls with a body, "" for none.
func (s *simulator) control(t *testing.T, method, path, body string, into any) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, s.url+"/__sim/"+path, bytes.NewReader([]byte(body)))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode >= http.StatusBadRequest {
		t.Fatalf("%s %s: %d %s %v", method, path, resp.StatusCode, text, err)
	}
	if into != nil {
		if err := json.Unmarshal(text, into); err != nil {
			t.Fatalf("%s %s: %v in %s", method, path, err, text)
		}
	}
}

func (s *simulator) state(t *testing.T) cfState {
	t.Helper()
	var state cfState
	s.control(t, http.MethodGet, "state", "", &state)
	return state
}

// rows are the instances of this name in the platform's org.
func (s *simulator) rows(p platform, id string) []cfInstance {
	p.t.Helper()
	var found []cfInstance
	for _, i := range s.state(p.t).Instances {
		if i.Name == id && i.Org == p.org {
			found = append(found, i)
		}
	}
	return found
}

// row is the one instance of this name; anything else ends the test.
func (s *simulator) row(p platform, id string) cfInstance {
	p.t.Helper()
	rows := s.rows(p, id)
	if len(rows) != 1 {
		p.t.Fatalf("Cloud Foundry has %d instances %s, want one: %+v", len(rows), id, rows)
	}
	return rows[0]
}

// nothingLeft checks that the name is free in Cloud Foundry.
func (s *simulator) nothingLeft(p platform, id string) {
	p.t.Helper()
	if rows := s.rows(p, id); len(rows) != 0 {
		p.t.Errorf("Cloud Foundry still has %+v", rows)
	}
}

// asked is how often the backing broker was asked for this; binding may be "".
func (s *simulator) asked(p platform, operation, id, binding string) int {
	p.t.Helper()
	for _, c := range s.state(p.t).BrokerCalls {
		if c.Org == p.org && c.Operation == operation && c.Instance == id && c.Binding == binding {
			return c.Count
		}
	}
	return 0
}

// askedOnce checks that it was asked for this exactly once.
func (s *simulator) askedOnce(p platform, operation, id, binding string) {
	p.t.Helper()
	if n := s.asked(p, operation, id, binding); n != 1 {
		p.t.Errorf("the backing broker was asked %d times to %s %s/%s, want once", n, operation, id, binding)
	}
}
