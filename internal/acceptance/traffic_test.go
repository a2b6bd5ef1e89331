package acceptance

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ferry-broker/ferry/internal/osbtest"
)

// recorded is one request of a real Kubernetes client. What a scripted broker answered then is not what is expected
// here.
type recorded struct {
	AtMS    int               `json:"at_ms"`
	Method  string            `json:"method"`
	URI     string            `json:"uri"`
	Headers map[string]string `json:"headers"`
	Body    json.RawMessage   `json:"body"`
	// SameInFlight counts the requests on this resource that were not answered yet, itself among them.
	SameInFlight int `json:"same_in_flight"`
}

func recording(t *testing.T, file string) []recorded {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	var all []recorded
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var r recorded
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		all = append(all, r)
	}
	if err := lines.Err(); err != nil || len(all) == 0 {
		t.Fatalf("%s: %d requests, %v", file, len(all), err)
	}
	return all
}

// TestTraffic replays what two versions of a real client sent, its duplicates and overlaps included, against a plan
// that works at once and one that takes its time.
func TestTraffic(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/traffic/*.jsonl")
	if err != nil || len(files) != 5 {
		t.Fatalf("%d recordings, want 5 (%v)", len(files), err)
	}
	for _, file := range files {
		for _, plan := range []string{"postgres/small", "postgres/async"} {
			t.Run(fmt.Sprintf("%s on %s", strings.TrimSuffix(filepath.Base(file), ".jsonl"), plan), func(t *testing.T) {
				t.Parallel()
				newReplay(start(t), plan).run(recording(t, file))
			})
		}
	}
}

// replay sends a recording and judges what comes back.
type replay struct {
	tenant
	as osbtest.Plan
	// things are the resources that the recording names, by path.
	things map[string]*thing
	all    sync.WaitGroup
}

// thing is an instance or a binding on its way through the recording.
type thing struct {
	instance, binding string
	// inFlight are the requests on it that are not answered yet.
	inFlight sync.WaitGroup
	// made is closed when the first PUT was answered.
	made    chan struct{}
	sent    bool
	settled sync.Once

	mu sync.Mutex
	// lives counts how often it was made, PUTs after a DELETE beginning a new life.
	lives   int
	deleted bool
	// cut: a DELETE came while a PUT was in flight, so that a life may have ended before anything was made of it, and
	// the PUT that waited was told so.
	cut         bool
	credentials map[int]string
	operations  map[string]string // the last one by method
	seen        map[int]string    // what a life was made of
}

func newReplay(c tenant, plan string) *replay {
	return &replay{tenant: c, as: c.Plan(plan), things: map[string]*thing{}}
}

// pause is the longest gap between two requests; longer ones are cut.
const pause = 10 * time.Millisecond

func (r *replay) run(requests []recorded) {
	last := 0
	for _, q := range requests {
		gap := min(time.Duration(q.AtMS-last)*time.Millisecond, pause)
		last = q.AtMS
		wait := time.NewTimer(gap)
		<-wait.C
		r.step(q)
	}
	r.all.Wait()
	r.judge()
}

// step sends one request beside those that were in flight with it, and after all others on the same resource.
func (r *replay) step(q recorded) {
	th := r.thing(q)
	r.follow(th, q)
	life := th.begins(q)
	path, body := r.translate(q, th)
	th.inFlight.Add(1)
	r.all.Go(func() {
		defer th.inFlight.Done()
		if q.Method == http.MethodPut {
			defer th.settled.Do(func() { close(th.made) })
		}
		a := r.Send(q.Method, path, body, func(req *http.Request) {
			for name, value := range q.Headers {
				req.Header.Set(name, value)
			}
		})
		r.check(th, life, q, a)
	})
}

// follow keeps the order that the recorded client had: a resource has one request at a time where the recording says
// so, and what depends on an instance comes after the answer to a PUT of it.
func (r *replay) follow(th *thing, q recorded) {
	if q.SameInFlight < 2 {
		th.inFlight.Wait()
		r.settle(th, q)
	}
	if q.Method == http.MethodGet {
		return
	}
	owner := r.things[at(th.instance)]
	depends := th.binding != "" || q.Method == http.MethodDelete
	if depends && owner != nil && owner.sent {
		<-owner.made
	}
	th.sent = th.sent || q.Method == http.MethodPut
}

func (r *replay) thing(q recorded) *thing {
	path, _, _ := strings.Cut(q.URI, "?")
	path = strings.TrimSuffix(path, "/last_operation")
	if th := r.things[path]; th != nil {
		return th
	}
	th := &thing{made: make(chan struct{}), credentials: map[int]string{}, operations: map[string]string{}, seen: map[int]string{}}
	parts := strings.Split(strings.TrimPrefix(path, "/"), "/")
	if len(parts) > 2 {
		th.instance = parts[2]
	}
	if len(parts) > 4 {
		th.binding = parts[4]
	}
	r.things[path] = th
	return th
}

// settle does what a platform does between an answer and the next request: it polls until the operation has ended,
// because the recorded broker had ended at once.
func (r *replay) settle(th *thing, q recorded) {
	th.mu.Lock()
	create, deletion, deleted := th.operations["PUT"], th.operations["DELETE"], th.deleted
	th.mu.Unlock()
	switch {
	case th.binding != "":
	case q.Method == http.MethodPut && deleted && deletion != "":
		r.Succeeds(at(th.instance), deletion)
	case q.Method == http.MethodDelete && !deleted && create != "":
		r.Succeeds(at(th.instance), create)
	}
}

// begins notes what the request means for the resource, and which of its lives the request belongs to.
func (th *thing) begins(q recorded) int {
	th.mu.Lock()
	defer th.mu.Unlock()
	switch q.Method {
	case http.MethodPut:
		if th.lives == 0 || th.deleted {
			th.lives, th.deleted = th.lives+1, false
		}
	case http.MethodDelete:
		th.deleted = true
		th.cut = th.cut || q.SameInFlight > 1
	}
	return th.lives
}

// translate maps the ids of the recorded catalog and of recorded operations.
func (r *replay) translate(q recorded, th *thing) (path, body string) {
	text := strings.NewReplacer("11111111-2222-4333-8444-000000000001", r.as.ServiceID,
		"11111111-2222-4333-8444-000000000100", r.as.PlanID, "11111111-2222-4333-8444-000000000101", r.Plan("postgres/async").PlanID)
	th.mu.Lock()
	defer th.mu.Unlock()
	path = text.Replace(q.URI)
	for kind, method := range map[string]string{"operation=provision-op-1": "PUT", "operation=deprovision-op-1": "DELETE"} {
		path = strings.Replace(path, kind, "operation="+url.QueryEscape(th.operations[method]), 1)
	}
	if string(q.Body) != "null" {
		body = text.Replace(string(q.Body))
	}
	return path, body
}

// check judges one answer. Identical are requests of one life of a resource whose bodies are equal; the first of a life
// decides what that is.
func (r *replay) check(th *thing, life int, q recorded, a answer) {
	th.mu.Lock()
	defer th.mu.Unlock()
	// A PUT that a DELETE overtook may be told to clean up (protocol.md 2.3).
	if a.Status >= 500 && (q.Method != http.MethodPut || !th.cut) {
		r.t.Errorf("%s: %d %s", a.Request, a.Status, a.Body)
	}
	if a.Operation() != "" {
		th.operations[q.Method] = a.Operation()
	}
	switch q.Method {
	case http.MethodPut:
		r.checkPut(th, life, q, a)
	case http.MethodDelete:
		if a.Status != 200 && a.Status != 202 && a.Status != 410 {
			r.t.Errorf("%s: %d %s, want 200, 202 or 410", a.Request, a.Status, a.Body)
		}
	default:
		if a.Status != 200 {
			r.t.Errorf("%s: %d %s, want 200", a.Request, a.Status, a.Body)
		}
	}
}

func (r *replay) checkPut(th *thing, life int, q recorded, a answer) {
	if first, found := th.seen[life]; !found {
		th.seen[life] = string(q.Body)
	} else if first != string(q.Body) {
		r.t.Fatalf("%s: the recording has a different body in one life, which this test does not expect", a.Request)
	}
	if a.Status >= 400 {
		if !th.cut || a.Status == http.StatusConflict {
			r.t.Errorf("%s: %d %s to a request like the others", a.Request, a.Status, a.Body)
		}
		return
	}
	if th.binding == "" {
		return
	}
	if first, found := th.credentials[life]; found && first != a.Credentials() || a.Credentials() == "" {
		r.t.Errorf("%s: credentials %s, want %s", a.Request, a.Credentials(), first)
	}
	th.credentials[life] = a.Credentials()
}

// judge compares what the backing broker was asked with the lives of each resource, once every operation has ended.
func (r *replay) judge() {
	for _, th := range r.things {
		if th.instance != "" {
			r.Eventually("the last operation of "+th.path()+" ends", func() bool { return r.Poll(th.path(), "").State() != "in progress" })
		}
	}
	state := r.State()
	left := map[string]int{}
	for _, row := range state.Instances {
		left[row.Name]++
	}
	asked := map[osbtest.BrokerCall]int{}
	for _, call := range state.BrokerCalls {
		n := call.Count
		call.Count = 0
		asked[call] = n
	}
	for _, th := range r.things {
		if th.instance != "" {
			th.judge(r.t, asked[osbtest.BrokerCall{Org: r.Org, Instance: th.instance, Binding: th.binding, Operation: th.word()}], left[th.instance])
		}
	}
}

func (th *thing) judge(t *testing.T, asked, left int) {
	t.Helper()
	if asked > th.lives || asked < th.lives && !th.cut {
		t.Errorf("%s: the backing broker was asked %d times to %s in %d lives", th.path(), asked, th.word(), th.lives)
	}
	want := 1
	if th.deleted || th.lives == 0 {
		want = 0
	}
	if th.binding == "" && left != want {
		t.Errorf("%s: Cloud Foundry has %d instances, want %d", th.path(), left, want)
	}
}

func (th *thing) path() string {
	if th.binding != "" {
		return bindingAt(th.instance, th.binding)
	}
	return at(th.instance)
}

func (th *thing) word() string {
	if th.binding != "" {
		return "bind"
	}
	return "provision"
}
