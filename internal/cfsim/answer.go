package cfsim

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"strconv"
	"time"
)

// answer is a whole HTTP response, kept in memory until it is known whether a fault lets it through.
type answer struct {
	status int
	header http.Header
	body   []byte
	value  any           // what is yet to be encoded as the body, nil for nothing
	wait   time.Duration // how long the caller has to wait for the answer
}

func newAnswer(status int, contentType string, body []byte) *answer {
	header := http.Header{}
	if contentType != "" {
		header.Set("Content-Type", contentType)
	}
	return &answer{status: status, header: header, body: body}
}

const jsonType = "application/json; charset=utf-8"

// jsonAnswer answers with a value that nobody changes any more: it is encoded after the lock has been released.
func jsonAnswer(status int, value any) *answer {
	a := newAnswer(status, jsonType, nil)
	a.value = value
	return a
}

// jobAnswer is the empty 202 that names a job.
func jobAnswer(base string, j *job) *answer {
	a := newAnswer(http.StatusAccepted, "", nil)
	a.header.Set("Location", base+"/v3/jobs/"+j.guid)
	return a
}

// errorAnswer is the one place where an error becomes a response.
func errorAnswer(err error) *answer {
	if api, ok := errors.AsType[*apiError](err); ok {
		return jsonAnswer(api.status, map[string][]cfError{"errors": {api.cfError}}).encoded()
	}
	if uaa, ok := errors.AsType[*uaaError](err); ok {
		return uaa.answer()
	}
	const unknown = `{"errors":[{"code":10001,"title":"UnknownError","detail":"An unknown error occurred."}]}`
	return newAnswer(http.StatusInternalServerError, jsonType, []byte(unknown))
}

// encoded returns the answer with its body.
func (a *answer) encoded() *answer {
	if a.value == nil {
		return a
	}
	body, err := encode(a.value)
	if err != nil {
		return errorAnswer(err)
	}
	a.body, a.value = body, nil
	return a
}

// encode writes v as the Cloud Controller does, without escaping for HTML.
func encode(v any) ([]byte, error) {
	var buffer bytes.Buffer
	encoder := json.NewEncoder(&buffer)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimRight(buffer.Bytes(), "\n"), nil
}

func (a *answer) write(w http.ResponseWriter) {
	maps.Copy(w.Header(), a.header)
	w.Header().Set("Content-Length", strconv.Itoa(len(a.body)))
	if a.status == http.StatusNoContent {
		w.Header().Del("Content-Length")
	}
	w.WriteHeader(a.status)
	_, _ = w.Write(a.body) // the caller may have gone
}

// timestamp renders times as the API does: UTC, whole seconds.
func timestamp(t time.Time) string {
	return t.UTC().Format("2006-01-02T15:04:05Z")
}

// Codes of the Cloud Controller that are used in more than one place.
const (
	codeUnprocessable    = 10008
	codeUnableToPerform  = 10009
	codeNotFound         = 10010
	codeJobTimeout       = 290006
	codeInstanceBusy     = 60016
	titleUnprocessable   = "CF-UnprocessableEntity"
	titleResourceMissing = "CF-ResourceNotFound"
)

// cfError is one entry of the "errors" of an answer or a job.
type cfError struct {
	Code   int    `json:"code"`
	Title  string `json:"title"`
	Detail string `json:"detail"`
}

// apiError is an answer that reports a cfError.
type apiError struct {
	status int
	cfError
}

// Error says what the body of the answer says.
func (e *apiError) Error() string {
	return fmt.Sprintf("%d %d %s: %s", e.status, e.Code, e.Title, e.Detail)
}

func failure(status, code int, title, detail string) *apiError {
	return &apiError{status: status, cfError: cfError{Code: code, Title: title, Detail: detail}}
}

func unprocessable(detail string) *apiError {
	return failure(http.StatusUnprocessableEntity, codeUnprocessable, titleUnprocessable, detail)
}

// notFound reports a missing resource; what is the kind in the Cloud Controller's words, as in "Service instance".
func notFound(what string) *apiError {
	return failure(http.StatusNotFound, codeNotFound, titleResourceMissing, what+" not found")
}

func unknownRequest() *apiError {
	return failure(http.StatusNotFound, 10000, "CF-NotFound", "Unknown request")
}

func unparseable() *apiError {
	return failure(http.StatusBadRequest, 1001, "CF-MessageParseError", "Request invalid due to parse error: invalid request body")
}

func notAuthenticated() *apiError {
	return failure(http.StatusUnauthorized, 10002, "CF-NotAuthenticated", "Authentication error")
}

func invalidToken() *apiError {
	return failure(http.StatusUnauthorized, 1000, "CF-InvalidAuthToken", "Invalid Auth Token")
}

func notAuthorized() *apiError {
	return failure(http.StatusForbidden, 10003, "CF-NotAuthorized", "You are not authorized to perform the requested action")
}

func orgSuspended() *apiError {
	return failure(http.StatusForbidden, 10017, "CF-OrgSuspended", "The organization is suspended")
}

func spaceSuspended() *apiError {
	return failure(http.StatusForbidden, 10019, "CF-SpaceSuspended", "The space is suspended")
}

// beingDeleted refuses new things in a place, which is a space or an organization.
func beingDeleted(place string) *apiError {
	return failure(http.StatusUnprocessableEntity, 10020, "CF-ResourceBeingDeleted", "The "+place+" is being deleted")
}

func instanceBusy(name string) cfError {
	return cfError{codeInstanceBusy, "CF-AsyncServiceInstanceOperationInProgress", "An operation for service instance " + name + " is in progress."}
}

// unableTo is the error of a job whose backing broker did not do as asked.
func unableTo(verb, message string) cfError {
	return cfError{codeUnableToPerform, "CF-UnableToPerform", verb + " could not be completed: " + message}
}

func jobTimeout() cfError {
	return cfError{codeJobTimeout, "CF-JobTimeout", "The job execution has timed out."}
}

// rowGone is the error of a job whose row is no longer there.
func rowGone(detail string) cfError {
	return cfError{codeNotFound, titleResourceMissing, detail}
}
