package cfsim

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"time"
)

// answer is a whole HTTP response, kept in memory until it is known whether a
// fault lets it through.
type answer struct {
	status int
	header http.Header
	body   []byte
}

func newAnswer(status int, contentType string, body []byte) *answer {
	header := http.Header{}
	if contentType != "" {
		header.Set("Content-Type", contentType)
	}
	return &answer{status: status, header: header, body: body}
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

func jsonAnswer(status int, v any) (*answer, error) {
	body, err := encode(v)
	if err != nil {
		return nil, err
	}
	return newAnswer(status, "application/json; charset=utf-8", body), nil
}

// jobAnswer is the empty 202 that names a job.
func jobAnswer(base string, j *job) *answer {
	a := newAnswer(http.StatusAccepted, "", nil)
	a.header.Set("Location", base+"/v3/jobs/"+j.guid)
	return a
}

// errorAnswer is the one place where an error becomes a response.
func errorAnswer(err error) *answer {
	var api *apiError
	if errors.As(err, &api) {
		body := struct {
			Errors []cfError `json:"errors"`
		}{[]cfError{api.cfError}}
		if a, err := jsonAnswer(api.status, body); err == nil {
			return a
		}
	}
	const unknown = `{"errors":[{"code":10001,"title":"UnknownError","detail":"An unknown error occurred."}]}`
	return newAnswer(http.StatusInternalServerError, "application/json; charset=utf-8", []byte(unknown))
}

func (a *answer) write(w http.ResponseWriter) {
	for name, values := range a.header {
		w.Header()[name] = values
	}
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
