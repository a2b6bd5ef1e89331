package acceptance

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ferry-broker/ferry/internal/broker"
	"github.com/ferry-broker/ferry/internal/lifecycle"
)

// FuzzBroker sends scripts of requests to the whole broker, in memory and without chance: the real border, use cases
// and catalog, over a store and a Cloud Foundry that are healthy. What holds for every answer is in judge; once the
// script is over, every operation must have ended and Cloud Foundry must hold what the records say.
//
// A script is text, one step a line; script_test names the letters. Any text is one.
func FuzzBroker(f *testing.F) {
	catalog := marketOf(f)
	for number := range uint64(100) {
		f.Add(chanced(number))
	}
	f.Fuzz(func(t *testing.T, script string) {
		s := newSandbox(t, catalog, len(script)%2 == 0)
		steps := 0
		for line := range strings.Lines(script) {
			if steps++; steps > maxSteps {
				break
			}
			s.step(newCursor(strings.TrimSuffix(line, "\n")))
			if t.Failed() {
				t.Fatalf("that was line %d, %q", steps, line)
			}
		}
		s.rest()
		s.polled()
		s.consistent()
	})
}

// maxSteps keeps an execution short; two platforms and a few ids need no more.
const maxSteps = 24

// ask sends a request, judges the answer, and sends it again when it changed something: an identical request finds it
// done.
func (s *sandbox) ask(q *wanted) {
	s.t.Helper()
	before := s.dump()
	w, ok := s.send(q)
	if !ok {
		return
	}
	s.judge(q, w)
	after := s.dump()
	if w.Code >= 400 {
		s.traceless(q, w, before, after)
		return
	}
	s.remember(q, w)
	if q.method == http.MethodGet || w.Code == http.StatusNotModified {
		s.unchanged(q, w, before, after)
		return
	}
	again, _ := s.send(q)
	s.judge(q, again)
	s.repeated(q, w, again)
	if again.Code == http.StatusGone {
		s.traceless(q, again, after, s.dump())
		return
	}
	s.unchanged(q, again, after, s.dump())
}

// send is false for what net/http refuses before any handler sees it.
func (s *sandbox) send(q *wanted) (*httptest.ResponseRecorder, bool) {
	location, err := url.ParseRequestURI(q.target)
	if err != nil {
		return nil, false
	}
	r := httptest.NewRequest(http.MethodGet, "/", strings.NewReader(q.body))
	r.Method, r.URL, r.RequestURI, r.Header = q.method, location, q.target, q.header.Clone()
	if q.chunked {
		r.ContentLength = -1
	}
	s.slept, s.began = false, s.now
	w := httptest.NewRecorder()
	s.handler.ServeHTTP(w, r)
	return w, true
}

// judge checks what holds for every answer. No rule makes a 5xx legitimate here: held requests wait in the sandbox's
// own time, in which every job ends at once.
func (s *sandbox) judge(q *wanted, w *httptest.ResponseRecorder) {
	s.t.Helper()
	fail := func(format string, args ...any) {
		s.t.Helper()
		s.t.Errorf("%s %s, %d %s: "+format, append([]any{q.method, q.target, w.Code, w.Body}, args...)...)
	}
	if w.Code >= 500 {
		fail("nothing is wrong with the backend")
	}
	if want, got := q.identity(), w.Header().Get("X-Broker-API-Request-Identity"); printable(want) && got != want {
		fail("the request identity came back as %q, want %q", got, want)
	}
	var body struct{ State, Description, Operation string }
	switch err := json.Unmarshal(w.Body.Bytes(), &body); {
	case w.Code == http.StatusNotModified && w.Body.Len() == 0:
	case err != nil, !strings.HasPrefix(w.Body.String(), "{"):
		fail("the body is no JSON object: %v", err)
	case w.Header().Get("Content-Type") != "application/json":
		fail("Content-Type is %q", w.Header().Get("Content-Type"))
	case w.Code >= 400 && w.Code != http.StatusGone && body.Description == "":
		fail("there is no description")
	}
	if w.Code == http.StatusAccepted && (body.Operation == "" || !q.incomplete()) {
		fail("the platform did not ask for an operation, or got none")
	}
	if w.Code == http.StatusAccepted || body.State == "in progress" {
		seconds, err := strconv.Atoi(w.Header().Get("Retry-After"))
		if err != nil || seconds < 1 || seconds > 300 {
			fail("Retry-After is %q", w.Header().Get("Retry-After"))
		}
	}
}

// printable texts come back as they are; of others only the harmless part does.
func printable(text string) bool {
	return len(text) <= 1024 && strings.TrimSpace(text) == text &&
		!strings.ContainsFunc(text, func(c rune) bool { return c < ' ' || c > '~' })
}

// repeated compares the answers to two identical requests, the first of which was carried out or accepted.
func (s *sandbox) repeated(q *wanted, first, again *httptest.ResponseRecorder) {
	s.t.Helper()
	status, text := first.Code, first.Body.String()
	switch {
	case q.method == http.MethodDelete && status == http.StatusOK:
		status, text = http.StatusGone, "{}\n"
	case status == http.StatusCreated:
		status = http.StatusOK
	case status == http.StatusAccepted:
		text = `{"operation":"` + operationOf(first) + `"}` + "\n"
	}
	got := again.Body.String()
	if again.Code == http.StatusAccepted {
		got = `{"operation":"` + operationOf(again) + `"}` + "\n"
	}
	if again.Code != status || got != text {
		s.t.Errorf("%s %s: %d %s, sent again: %d %s", q.method, q.target, first.Code, first.Body, again.Code, again.Body)
	}
}

func operationOf(w *httptest.ResponseRecorder) string {
	var body struct{ Operation string }
	_ = json.Unmarshal(w.Body.Bytes(), &body) // judge has said so
	return body.Operation
}

// traceless holds a refusal to the law that it leaves no trace. Two kinds of trace are in order: a 410 moves the life
// of its id, and a bind that was held may have seen other operations go on meanwhile, or have failed itself (422
// RequiresApp).
func (s *sandbox) traceless(q *wanted, w *httptest.ResponseRecorder, before, after state) {
	s.t.Helper()
	if w.Code == http.StatusGone && q.method == http.MethodDelete {
		before = before.buried(s.t, after)
	}
	if s.slept {
		for key, now := range after.records {
			then := before.records[key].Lifecycle.State
			if then.Busy() || now.Lifecycle.State == lifecycle.CreateFailed && errorOf(w) == "RequiresApp" {
				before.records[key] = now
			}
		}
		before.rows = after.rows
	}
	s.unchanged(q, w, before, after)
}

func errorOf(w *httptest.ResponseRecorder) string {
	var body struct{ Error string }
	_ = json.Unmarshal(w.Body.Bytes(), &body) // judge has said so
	return body.Error
}

func (s *sandbox) unchanged(q *wanted, w *httptest.ResponseRecorder, before, after state) {
	s.t.Helper()
	if before.equal(after) {
		return
	}
	s.t.Errorf("%s %s, %d %s: it changed (-before +after)\n%s\n%s", q.method, q.target, w.Code, w.Body,
		cmp.Diff(before.records, after.records), cmp.Diff(before.rows, after.rows))
}

// buried is what a 410 may make of the state before it: the life of one id has risen, and what counted as gone is now
// noted as gone.
func (before state) buried(t *testing.T, after state) state {
	t.Helper()
	want := before.clone()
	moved := 0
	for key, now := range after.records {
		then := before.records[key]
		if now.Revision == then.Revision {
			continue
		}
		moved++
		if now.Lifecycle.Life != then.Lifecycle.Life+1 {
			t.Errorf("the life of %v went from %d to %d", key, then.Lifecycle.Life, now.Lifecycle.Life)
		}
		want.records[key] = interred(then, now)
	}
	if moved != 1 {
		t.Errorf("a 410 moved %d records, want 1", moved)
	}
	return want
}

// interred is then with what now may have otherwise. Nothing of it is visible: an id without a record has a ghost, and
// the binding of an instance that is gone is gone.
func interred(then, now broker.Record) broker.Record {
	want := then
	want.Key, want.Revision, want.Token = now.Key, then.Revision+1, now.Token
	want.Lifecycle.Life++
	want.Lifecycle.ExpiresAt = now.Lifecycle.ExpiresAt
	switch state := then.Lifecycle.State; {
	case state == lifecycle.Absent:
		want.Lifecycle.Kind, want.Lifecycle.State, want.Lifecycle.Seq = now.Key.Kind(), lifecycle.Ghost, now.Lifecycle.Seq
	case state.Living() && now.Key.BindingID != "":
		want.Lifecycle.State, want.Lifecycle.Finished = lifecycle.Gone, now.Lifecycle.Finished
		want.Target, want.Parameters = nil, nil
	}
	return want
}
