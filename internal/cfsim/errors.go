package cfsim

import (
	"fmt"
	"net/http"
)

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

func (e *apiError) Error() string {
	return fmt.Sprintf("%d %d %s: %s", e.status, e.Code, e.Title, e.Detail)
}

func failure(status, code int, title, detail string) *apiError {
	return &apiError{status: status, cfError: cfError{Code: code, Title: title, Detail: detail}}
}

func unprocessable(detail string) *apiError {
	return failure(http.StatusUnprocessableEntity, codeUnprocessable, titleUnprocessable, detail)
}

// notFound reports a missing resource; what is the kind in the Cloud
// Controller's words, as in "Service instance".
func notFound(what string) *apiError {
	return failure(http.StatusNotFound, codeNotFound, titleResourceMissing, what+" not found")
}

func unknownRequest() *apiError {
	return failure(http.StatusNotFound, 10000, "CF-NotFound", "Unknown request")
}

func badQuery(detail string) *apiError {
	return failure(http.StatusBadRequest, 10005, "CF-BadQueryParameter", "The query parameter is invalid: "+detail)
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

// vanished is the error of a job whose row is no longer there.
func vanished(detail string) cfError {
	return cfError{codeNotFound, titleResourceMissing, detail}
}
