package demo

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
)

// reply is an answer of the stub, before it is sent.
type reply struct {
	status int
	body   string
}

// stub is a broker and a simulated Cloud Foundry that give the answers of the tour, from memory. spoil may change each
// answer on its way out.
type stub struct {
	mu        sync.Mutex
	instances map[string]*record
	key       string // parameters of the bind; empty for none
	spoil     func(method, path string, n int, r *reply)
	seen      map[string]int // how often each request came
}

// record is one instance of the stub.
type record struct {
	parameters string
	operation  string
	state      string // of the operation
	deleting   bool
	polls      int
	superseded string
}

func newStub(t *testing.T, spoil func(method, path string, n int, r *reply)) *httptest.Server {
	s := &stub{instances: map[string]*record{}, spoil: spoil, seen: map[string]int{}}
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	return server
}

func (s *stub) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	raw, _ := io.ReadAll(r.Body) // a short body is the parameters' loss
	var body struct{ Parameters json.RawMessage }
	_ = json.Unmarshal(raw, &body) // GET and DELETE have none
	answer := s.answer(r, string(body.Parameters))
	s.seen[r.Method+r.URL.Path]++
	if s.spoil != nil {
		s.spoil(r.Method, r.URL.Path, s.seen[r.Method+r.URL.Path], &answer)
	}
	w.WriteHeader(answer.status)
	_, _ = io.WriteString(w, answer.body)
}

func (s *stub) answer(r *http.Request, parameters string) reply {
	path, _ := strings.CutPrefix(r.URL.Path, "/v2/service_instances/")
	id, rest, _ := strings.Cut(path, "/")
	switch {
	case r.URL.Path == "/v2/catalog":
		return reply{200, `{"services":[{"id":"s","name":"postgres","plans":[{"id":"p1","name":"small"},{"id":"p2","name":"async"}]}]}`}
	case r.URL.Path == "/__sim/state":
		return reply{200, `{"instances":[],"broker_calls":[{"instance":"a","operation":"provision","count":1},{"instance":"a","operation":"deprovision","count":1},` +
			`{"instance":"a","binding":"b","operation":"bind","count":1},{"instance":"a","binding":"b","operation":"unbind","count":1}]}`}
	case rest == "last_operation":
		return s.poll(id, r.URL.Query().Get("operation"))
	case rest != "":
		return s.binding(r.Method, parameters)
	case r.Method == http.MethodPut:
		return s.put(id, parameters)
	default:
		return s.remove(id)
	}
}

func (s *stub) put(id, parameters string) reply {
	known := s.instances[id]
	switch {
	case known == nil:
		s.instances[id] = &record{parameters: parameters, operation: "create-" + id, state: "in progress"}
		return reply{202, `{"operation":"create-` + id + `"}`}
	case known.parameters != parameters:
		return reply{409, `{"error":"Conflict"}`}
	case known.state == "in progress":
		return reply{202, fmt.Sprintf(`{"operation":%q}`, known.operation)}
	default:
		return reply{200, `{}`}
	}
}

func (s *stub) remove(id string) reply {
	known := s.instances[id]
	switch {
	case known == nil || known.deleting && known.state == "succeeded":
		return reply{410, `{}`}
	case !known.deleting:
		*known = record{deleting: true, operation: "delete-" + id, state: "in progress", superseded: known.operation}
	}
	return reply{202, fmt.Sprintf(`{"operation":%q}`, known.operation)}
}

func (s *stub) poll(id, operation string) reply {
	known := s.instances[id]
	if known.superseded == operation {
		return reply{200, `{"state":"failed"}`}
	}
	if known.polls++; known.polls > 1 {
		known.state = "succeeded"
	}
	return reply{200, fmt.Sprintf(`{"state":%q}`, known.state)}
}

func (s *stub) binding(method, parameters string) reply {
	const credentials = `{"credentials":{"password":"x"}}`
	switch {
	case method == http.MethodDelete && s.key == "":
		return reply{410, `{}`}
	case method == http.MethodDelete:
		s.key = ""
		return reply{200, `{}`}
	case s.key == "":
		s.key = "parameters: " + parameters
		return reply{201, credentials}
	case s.key == "parameters: "+parameters:
		return reply{200, credentials}
	default:
		return reply{409, `{"error":"Conflict"}`}
	}
}
