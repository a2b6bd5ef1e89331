package cfsim

import (
	"errors"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strings"
)

// maxBody is what the front end of a Cloud Controller lets through.
const maxBody = 15 << 20

// call is one request on its way through a handler.
type call struct {
	request *http.Request
	query   url.Values
	body    []byte
	guid    string // the :guid of the route
	second  string // another one behind it
	base    string // scheme and host that links begin with
	caller  string // subject of the token, "" without one
	korifi  bool   // answers are to be Korifi's
	names   collations
}

// serve is the way of every request: count, fault, handle, write.
func (s *Simulator) serve(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == controlPrefix || strings.HasPrefix(r.URL.Path, controlPrefix+"/") {
		s.control.ServeHTTP(w, r)
		return
	}
	// The body is read before anything else: a call that is delayed must have
	// it even when its caller has gone.
	body, readErr := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	found, values := s.find(r)
	s.count(r.Method + " " + found.pattern)
	values = append(values, "", "")
	c := &call{request: r, query: r.URL.Query(), body: body, guid: values[0], second: values[1], base: baseURL(r), korifi: s.options.Korifi, names: s.world.names}
	handle := func() *answer { return s.handle(found, c, readErr) }
	answer := s.throughFaults(c, found.pattern, handle)
	answer.header.Set("X-Vcap-Request-Id", s.requestID(r))
	answer.write(w)
	s.log.Debug("request", "method", r.Method, "route", found.pattern, "status", answer.status)
}

func (s *Simulator) count(line string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.counts[line]++
}

// handle passes a request through the front end, the token check and the rate
// limiter, which counts whoever sent it.
func (s *Simulator) handle(found route, c *call, readErr error) *answer {
	var tooLarge *http.MaxBytesError
	if errors.As(readErr, &tooLarge) {
		return frontPages()["nginx-413"].answer(c.request)
	}
	unknown := s.authenticate(found.access, c)
	limits, result := s.limited(found, c)
	if result == nil {
		result = s.dispatch(found, c, readErr, unknown)
	}
	for name, values := range limits {
		result.header[name] = values
	}
	return result
}

func (s *Simulator) dispatch(found route, c *call, readErr, unknown error) *answer {
	switch {
	case readErr != nil:
		return errorAnswer(unparseable())
	case found.handle == nil:
		return errorAnswer(unknownRequest())
	case unknown != nil:
		return errorAnswer(unknown)
	}
	result, err := found.handle(c)
	if err != nil {
		return errorAnswer(err)
	}
	return result
}

func (s *Simulator) authenticate(a access, c *call) error {
	if a == open {
		return nil
	}
	header := c.request.Header.Get("Authorization")
	if header == "" {
		if a == optional {
			return nil
		}
		return notAuthenticated()
	}
	scheme, token, _ := strings.Cut(header, " ")
	subject, err := s.tokens.subject(strings.TrimSpace(token), accessToken)
	if err != nil || !strings.EqualFold(scheme, "bearer") {
		return invalidToken()
	}
	c.caller = subject
	return nil
}

func baseURL(r *http.Request) string {
	if r.TLS != nil {
		return "https://" + r.Host
	}
	return "http://" + r.Host
}

var traceID = regexp.MustCompile(`^[\w-]{1,255}$`)

// requestID continues the caller's own request id, as the Cloud Controller does.
func (s *Simulator) requestID(r *http.Request) string {
	own := s.random.guid()
	for _, name := range []string{"X-Vcap-Request-Id", "X-Request-Id"} {
		if sent := r.Header.Get(name); traceID.MatchString(sent) {
			return sent + "::" + own
		}
	}
	return own
}
