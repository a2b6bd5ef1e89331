package ccapi

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"
)

// answered makes the error of an answer.
func answered(t *testing.T, status int, body string) *Error {
	t.Helper()
	c, err := New(Config{API: "http://127.0.0.1:1", Now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	return c.newError("test", &Response{Status: status, Header: http.Header{}, Body: []byte(body)})
}

func TestAdvice(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		status int
		body   string
		want   Advice
	}{
		"no authority":         {403, cfError(10003, "CF-NotAuthorized", "x"), AdviceRole},
		"a token not accepted": {401, cfError(1000, "CF-InvalidAuthToken", "x"), AdviceToken},
		"no token":             {401, cfError(10002, "CF-NotAuthenticated", "x"), AdviceToken},
		"a router's 401":       {401, "<html>", ""},
		"a suspended org":      {403, cfError(10017, "CF-OrgSuspended", "x"), ""},
		"a quota":              {422, cfError(10008, "CF-UnprocessableEntity", "You have exceeded your space's services limit."), ""},
	} {
		if e := answered(t, test.status, test.body); e.Advice != test.want || !strings.Contains(e.Error(), string(test.want)) {
			t.Errorf("%s: %v; want it to say %q", name, e, test.want)
		}
	}
}

func TestUnreachable(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		err  error
		want bool
	}{
		"no error":                {nil, false},
		"another's error":         {errors.New("x"), false},
		"a refusal":               {answered(t, 422, cfError(10008, "CF-UnprocessableEntity", "no")), false},
		"a fault in it":           {answered(t, 500, cfError(10001, "UnknownError", "x")), false},
		"a gateway":               {fmt.Errorf("wrapped: %w", answered(t, 502, "<html>")), true},
		"no connection":           {&Error{Call: "x", Err: io.ErrUnexpectedEOF}, true},
		"a refused login":         {&Error{Call: "log in", Status: 401, Title: "invalid_client", Unsent: true}, false},
		"a login's gateway error": {&Error{Call: "log in", Status: 503, Unsent: true}, true},
	} {
		if got := Unreachable(test.err); got != test.want {
			t.Errorf("%s: %v, want %v", name, got, test.want)
		}
	}
}

func TestRetryAfterIsReadInAllForms(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for name, test := range map[string]struct {
		header http.Header
		want   time.Duration
	}{
		"seconds":                     {http.Header{"Retry-After": {"90"}}, 90 * time.Second},
		"a date by our clock":         {http.Header{"Retry-After": {now.Add(time.Minute).Format(http.TimeFormat)}}, time.Minute},
		"a date by the answer's":      {http.Header{"Retry-After": {now.Format(http.TimeFormat)}, "Date": {now.Add(-time.Hour).Format(http.TimeFormat)}}, time.Hour},
		"a date that has passed":      {http.Header{"Retry-After": {now.Add(-time.Minute).Format(http.TimeFormat)}}, 0},
		"negative":                    {http.Header{"Retry-After": {"-5"}}, 0},
		"a day":                       {http.Header{"Retry-After": {"86400"}}, time.Hour},
		"the Unix time":               {http.Header{"Retry-After": {fmt.Sprint(now.Unix() + 37)}}, 37 * time.Second},
		"the Unix time by the answer": {http.Header{"Retry-After": {fmt.Sprint(now.Unix() + 37)}, "Date": {now.Add(-time.Minute).Format(http.TimeFormat)}}, 97 * time.Second},
		"a Unix time that has passed": {http.Header{"Retry-After": {"1000000000"}}, 0},
		"a date that nobody means":    {http.Header{"Retry-After": {"99999999999"}}, time.Hour},
		"a number that is none":       {http.Header{"Retry-After": {"99999999999999999999"}}, time.Hour},
		"as little as can be":         {http.Header{"Retry-After": {"-9223372036854775808"}}, 0},
		"a date of another age":       {http.Header{"Retry-After": {"Fri, 01 Jan 2100 00:00:00 GMT"}}, time.Hour},
		"nothing":                     {http.Header{}, 0},
		"nonsense":                    {http.Header{"Retry-After": {"soon"}}, 0},
	} {
		if got := retryAfter(test.header, now); got != test.want {
			t.Errorf("%s: %v, want %v", name, got, test.want)
		}
	}
}

func TestForUsers(t *testing.T) {
	t.Parallel()
	c, err := New(Config{API: "https://api.cf.example.org", ClientSecret: "long-client-secret", Now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]string{
		"plain":                                       "plain",
		"storage.size must be 1.5 or v1.2.3":          "storage.size must be 1.5 or v1.2.3",
		"maintenance_info.version is invalid":         "maintenance_info.version is invalid",
		"e.g. node.js":                                "e.g. node.js",
		"see https://user:pw@b.example.org/x?y=z for": "see [address] for",
		"dial tcp 10.0.0.7:5432: refused":             "dial tcp [address]: refused",
		"host db-1.service.internal is down":          "host [address] is down",
		"host broker.internal:8080 is down":           "host [address] is down",
		"dial tcp [fd00::7]:5432: refused":            "dial tcp [address]: refused",
		"lookup broker.internal: no such host":        "lookup [address]: no such host",
		"[a:b is no address":                          "[a:b is no address",
		"at localhost:8080":                           "at [address]",
		"a\nb\x00c":                                   "a b c",
		"with long-client-secret in it":               "with [secret] in it",
		"Bearer eyJhbGci.eyJzdWIi.c2ln":               "Bearer [secret]",
		"token eyJhbGci.eyJzdWIi.c2ln":                "token [token]",
		"Basic authentication failed":                 "Basic authentication failed",
		strings.Repeat("ü", 2000):                     strings.Repeat("ü", 1000) + "…",
	} {
		if got := c.ForUsers(text); got != want {
			t.Errorf("ForUsers(%q) = %q, want %q", text, got, want)
		}
	}
}

// TestDecodingErrorsQuoteNothing: encoding/json quotes a number that does not fit.
func TestDecodingErrorsQuoteNothing(t *testing.T) {
	t.Parallel()
	s := newStub(t, func(w http.ResponseWriter, _ *http.Request) { reply(w, 200, `{"size":98765}`) })
	var row struct {
		Size int8 `json:"size"`
	}
	_, err := s.client(t, nil).Get(t.Context(), Request{Path: "/v3/x", What: "get x"}, &row)
	if err == nil || strings.Contains(err.Error(), "98765") || !strings.Contains(err.Error(), `"size"`) {
		t.Errorf("error %v, want one that names the field and does not quote the answer", err)
	}
}

// TestWhatUsersAreTold: an operation that waits for an operator says so, and tells nothing of where things are.
func TestWhatUsersAreTold(t *testing.T) {
	t.Parallel()
	const refused = "Cloud Foundry refused it: "
	withoutText := func(e *Error, advice Advice) *Error { e.Advice = advice; return e }
	for name, test := range map[string]struct {
		err             *Error
		user, explained string
	}{
		"a refusal": {answered(t, 422, cfError(10008, "CF-UnprocessableEntity", "You have exceeded it, see https://cf.example.org")),
			"Cloud Foundry: You have exceeded it, see [address]", refused + "You have exceeded it, see [address]"},
		"a broker's word, once": {answered(t, 422, cfError(10009, "CF-UnableToPerform", "Service broker error: Service broker error: no room")),
			"Cloud Foundry: no room", refused + "no room"},
		"no database": {answered(t, 503, cfError(10015, "CF-ServiceUnavailable", "Database on db.internal connection failure")),
			"Cloud Foundry: Database on [address] connection failure", refused + "Database on [address] connection failure"},
		"a limit": {answered(t, 429, cfError(10013, "CF-RateLimitExceeded", "Rate Limit Exceeded")),
			"Cloud Foundry takes no more requests of the broker for now; it goes on later.",
			"Cloud Foundry takes no more requests of the broker for now; it goes on later."},
		"a gateway": {answered(t, 502, "<html>10.0.0.1</html>"),
			"Cloud Foundry does not answer at the moment.", "Cloud Foundry does not answer at the moment."},
		"no answer": {&Error{Err: io.ErrUnexpectedEOF},
			"Cloud Foundry does not answer at the moment.", "Cloud Foundry does not answer at the moment."},
		"an answer that cannot be used": {&Error{Title: "the key is there, its details are not"},
			"Cloud Foundry gave an answer that the broker cannot use.", "Cloud Foundry gave an answer that the broker cannot use."},
		"a refused token": {answered(t, 401, cfError(1000, "CF-InvalidAuthToken", "Invalid Auth Token")),
			"The broker cannot log in to Cloud Foundry. Its operator has to look at it.",
			"The broker cannot log in to Cloud Foundry. Its operator has to look at it."},
		"a missing role": {answered(t, 403, cfError(10003, "CF-NotAuthorized", "You are not authorized")),
			"Cloud Foundry: You are not authorized (the broker's login in Cloud Foundry lacks a role; its operator has to look at it)",
			refused + "You are not authorized (the broker's login in Cloud Foundry lacks a role; its operator has to look at it)"},
		"a role that is missing by all signs": {withoutText(&Error{}, AdviceRole),
			"The broker's login in Cloud Foundry lacks a role; its operator has to look at it.",
			"The broker's login in Cloud Foundry lacks a role; its operator has to look at it."},
		"no org": {withoutText(&Error{}, AdviceOrg),
			"The broker does not see its org in Cloud Foundry. Its operator has to look at it.",
			"The broker does not see its org in Cloud Foundry. Its operator has to look at it."},
	} {
		if got := test.err.UserText(); got != test.user {
			t.Errorf("%s: a user is told %q, want %q", name, got, test.user)
		}
		if got := test.err.Explain(refused); got != test.explained {
			t.Errorf("%s: it is explained as %q, want %q", name, got, test.explained)
		}
	}
}

func TestAbsenceIsCloudFoundrysOwnWord(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]bool{
		cfError(10010, "CF-ResourceNotFound", "x"):        true,
		cfError(60004, "CF-ServiceInstanceNotFound", "x"): true,
		cfError(10000, "CF-NotFound", "Unknown request"):  false,
		"404 Not Found: Requested route does not exist.":  false,
	} {
		if got := IsAbsent(fmt.Errorf("wrapped: %w", answered(t, 404, body))); got != want {
			t.Errorf("404 %s: absent %v, want %v", body, got, want)
		}
	}
	if IsAbsent(answered(t, 422, cfError(10010, "CF-ResourceNotFound", "x"))) || IsAbsent(io.EOF) {
		t.Error("what is no 404 was taken for one")
	}
}
