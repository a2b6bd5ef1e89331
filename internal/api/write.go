package api

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"strconv"
	"time"

	"github.com/ferry-broker/ferry/internal/broker"
	"github.com/ferry-broker/ferry/internal/osb"
)

// answer is what a handler decided.
type answer struct {
	status int
	// body is encoded as JSON; nil is {}, because platforms parse every body.
	body any
	// document is sent as it is, in place of body.
	document []byte
	// delegate writes the answer itself; everything else here but header is moot.
	delegate http.Handler
	header   http.Header
	// outcome, operation, level, cause and stack are for the log.
	outcome   string
	operation string
	level     slog.Level
	cause     error
	stack     string
	// duplicate: the request changed and started nothing.
	duplicate bool
}

// errNotJSON replaces the encoder's error, whose text quotes what it choked on.
var errNotJSON = errors.New("the answer cannot be encoded: it holds something that is not JSON")

// conclude is where every exchange ends: it makes the answer of an error, sends it and reports it. It is called once,
// and a second time when something panicked.
func (h *handler) conclude(out *response, e *exchange, a answer, err error) {
	if err != nil {
		a = refusalOf(err).answer(e.route.verb)
	}
	text, err := a.encode(&out.text)
	if err != nil {
		a = refusalOf(err).answer(e.route.verb)
		text, _ = a.encode(&out.text) // an osb.Error always encodes
	}
	out.send(e, a, text)
	h.report(e, a, out.status)
}

// encode returns the text of the body, nil for an answer that has none. It is written into text where it has to be
// made.
func (a answer) encode(text *bytes.Buffer) ([]byte, error) {
	switch {
	case a.delegate != nil, a.status == http.StatusNotModified:
		return nil, nil
	case a.document != nil:
		return a.document, nil
	case a.body == nil:
		return []byte("{}\n"), nil
	}
	text.Reset()
	encoder := json.NewEncoder(text)
	// Credentials are to arrive letter for letter, "&" as "&".
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(a.body); err != nil {
		return nil, errNotJSON
	}
	return text.Bytes(), nil
}

// response remembers what was sent. It is used by one goroutine.
type response struct {
	http.ResponseWriter
	// status is 0 until the header was sent.
	status int
	// text is what the body is written into, and values what some headers are: both are part of what is allocated for
	// the request anyway.
	text   bytes.Buffer
	values [2]string
}

// WriteHeader sends the header, the first time.
func (w *response) WriteHeader(status int) {
	if w.status == 0 {
		w.status = status
		w.ResponseWriter.WriteHeader(status)
	}
}

// Write sends a part of the body, after the header.
func (w *response) Write(text []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	return w.ResponseWriter.Write(text)
}

// send is the only place that writes. It does nothing when an answer has begun.
func (w *response) send(e *exchange, a answer, text []byte) {
	if w.status != 0 {
		return
	}
	header := w.Header()
	header["Cache-Control"] = noStore
	maps.Copy(header, a.header)
	if e.identity != "" {
		w.values[0] = e.identity
		header[osb.RequestIdentityHeader] = w.values[0:1:1]
	}
	if a.delegate != nil {
		a.delegate.ServeHTTP(w, e.request)
		return
	}
	if text != nil {
		header["Content-Type"] = isJSON
		w.values[1] = strconv.Itoa(len(text))
		header["Content-Length"] = w.values[1:2:2]
	}
	w.WriteHeader(a.status)
	if text != nil {
		// A platform that has gone cannot be told anything more.
		_, _ = w.Write(text)
	}
}

// The values of headers that are the same in every answer. Nothing writes them.
var (
	noStore = []string{"no-store"}
	isJSON  = []string{"application/json"}
)

// statuses is the table of successes.
var statuses = map[broker.Outcome]int{
	broker.OutcomeAccepted: http.StatusAccepted,
	broker.OutcomeRunning:  http.StatusAccepted,
	broker.OutcomeCreated:  http.StatusCreated,
	broker.OutcomeExists:   http.StatusOK,
	broker.OutcomeDeleted:  http.StatusOK,
}

// succeed makes the answer to a PUT, PATCH or DELETE, whose body is still missing.
func succeed(result broker.Result) (answer, error) {
	status, ok := statuses[result.Outcome]
	if !ok {
		return answer{}, fmt.Errorf("answer a request: no status for the outcome %q", result.Outcome)
	}
	a := answer{status: status, outcome: string(result.Outcome), duplicate: result.Duplicate()}
	if status == http.StatusAccepted {
		a.operation = result.Operation
		a.header = retryAfter(result.RetryAfter)
	}
	return a, nil
}

// present leaves out a null: a field of an answer is either there or not.
func present(raw json.RawMessage) json.RawMessage {
	if bytes.Equal(bytes.TrimSpace(raw), []byte("null")) {
		return nil
	}
	return raw
}

// unrouted is the verb of requests that were refused before their route was found.
const unrouted = "none"

// maxLogged bounds each value of the log that a platform chose.
const maxLogged = 1024

// report writes the one line of a request and tells the observer. Nothing of a body, a query, a credential or an
// originating identity gets into the line: descriptions stay out as well, since they may quote the names of a body's
// keys.
func (h *handler) report(e *exchange, a answer, status int) {
	now := h.Now()
	took := now.Sub(e.started)
	verb := e.route.verb
	if verb == "" {
		verb = unrouted
	}
	if handler, ctx := h.Logger.Handler(), e.request.Context(); handler.Enabled(ctx, a.level) {
		// Logger.LogAttrs would look for the line of code that it is called from, which costs more than the rest.
		record := slog.NewRecord(now, a.level, "request", 0)
		record.AddAttrs(e.attrs(make([]slog.Attr, 0, 16), verb, a, status, took)...)
		_ = handler.Handle(ctx, record) // as the Logger does: there is nobody to tell
	}
	h.observe(e, verb, a, status, took)
}

// attrs appends what the log says of a request.
func (e *exchange) attrs(attrs []slog.Attr, verb string, a answer, status int, took time.Duration) []slog.Attr {
	add := func(key, value string) {
		if value != "" {
			attrs = append(attrs, slog.String(key, value[:min(len(value), maxLogged)]))
		}
	}
	add("request_identity", e.identity)
	add("client", e.client.Name)
	add("verb", verb)
	if verb == unrouted {
		add("method", e.request.Method)
		add("path", e.request.URL.Path)
	}
	add("instance_id", e.instanceID)
	add("binding_id", e.bindingID)
	attrs = append(attrs, slog.Int("status", status))
	add("outcome", a.outcome)
	add("operation", a.operation)
	attrs = append(attrs, slog.Int64("duration_ms", took.Milliseconds()))
	add("originating_user", e.originatorID)
	if e.badOriginator {
		add("originating_identity", "unreadable")
	}
	if a.cause != nil {
		add("error", a.cause.Error())
	}
	if a.stack != "" {
		attrs = append(attrs, slog.String("stack", a.stack))
	}
	return attrs
}

// observe counts requests under /v2, each once, even when the observer itself panics.
func (h *handler) observe(e *exchange, verb string, a answer, status int, took time.Duration) {
	if h.Observer == nil || e.observed || !e.osb {
		return
	}
	e.observed = true
	h.Observer.Request(verb, status, a.outcome, took)
	if a.duplicate {
		h.Observer.Duplicate(verb)
	}
}
