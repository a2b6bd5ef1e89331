package cf

import (
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ferry-broker/ferry/internal/broker"
)

func TestKeyDetails(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		status int
		body   string
		want   broker.KeyDetails
		absent bool
		fails  bool
	}{
		"credentials keep every byte": {200, `{"credentials": {"big":9007199254740993, "f":1.10,"t":"<&>\u00e9"} }`,
			broker.KeyDetails{Credentials: json.RawMessage(`{"big":9007199254740993, "f":1.10,"t":"<&>\u00e9"}`)}, false, false},
		"volume mounts are objects": {200, `{"credentials":{},"syslog_drain_url":"syslog://d","volume_mounts":[{"driver":"x","n":9007199254740993}]}`,
			broker.KeyDetails{Credentials: json.RawMessage(`{}`), SyslogDrainURL: "syslog://d", VolumeMounts: json.RawMessage(`[{"driver":"x","n":9007199254740993}]`)}, false, false},
		"nulls are nothing":           {200, `{"credentials":{},"syslog_drain_url":null,"volume_mounts":null}`, broker.KeyDetails{Credentials: json.RawMessage(`{}`)}, false, false},
		"absent":                      {404, notFound("Service credential binding not found"), broker.KeyDetails{}, true, true},
		"not finished":                {404, notFound("Creation of service key in progress"), broker.KeyDetails{}, false, true},
		"delete failed":               {404, notFound("Deletion of service key failed"), broker.KeyDetails{}, false, true},
		"a router's 404":              {404, "no route", broker.KeyDetails{}, false, true},
		"no CredHub":                  {503, cfError(10015, "CF-ServiceUnavailable", "Fetching credentials from CredHub failed; reason: x"), broker.KeyDetails{}, false, true},
		"an unfinished key of Korifi": {500, cfError(10001, "UnknownError", "An unknown error occurred."), broker.KeyDetails{}, false, true},
		"half an answer":              {200, `{"credentials":{"a":`, broker.KeyDetails{}, false, true},
		"no credentials":              {200, `{}`, broker.KeyDetails{}, false, false},
		"credentials that are null": {200, `{"credentials":null,"syslog_drain_url":"syslog://d","route_service_url":"https://r","endpoints":[{"host":"h","ports":["1"]}]}`,
			broker.KeyDetails{SyslogDrainURL: "syslog://d", RouteServiceURL: "https://r", Endpoints: json.RawMessage(`[{"host":"h","ports":["1"]}]`)}, false, false},
		"the rest is not as documented": {200, `{"credentials":{},"syslog_drain_url":7,"volume_mounts":{},"route_service_url":[],"endpoints":"none"}`,
			broker.KeyDetails{Credentials: json.RawMessage(`{}`)}, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStub(t, func(w http.ResponseWriter, _ *http.Request) { reply(w, test.status, test.body) })
			got, err := s.backend(t, nil).KeyDetails(t.Context(), "g", "")
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("details (-want +got):\n%s", diff)
			}
			if (err != nil) != test.fails || errors.Is(err, broker.ErrNotFound) != test.absent {
				t.Errorf("error %v, absent %v", err, test.absent)
			}
		})
	}
}

// TestCredentialsOfAnotherKind: what no platform can be handed is said once and for all, without its value.
func TestCredentialsOfAnotherKind(t *testing.T) {
	t.Parallel()
	for credentials, kind := range map[string]string{`["hunter2"]`: "an array", `"hunter2"`: "a text", `17`: "a number", `true`: "a boolean"} {
		s := newStub(t, func(w http.ResponseWriter, _ *http.Request) { reply(w, 200, `{"credentials": `+credentials+`}`) })
		_, err := s.backend(t, nil).KeyDetails(t.Context(), "g", "")
		said, ok := errors.AsType[broker.UserTexter](err)
		if !errors.Is(err, broker.ErrCredentials) || !ok || !strings.Contains(said.UserText(), kind) || strings.Contains(said.UserText()+err.Error(), "hunter2") {
			t.Errorf("%s: %v; want that the credentials are %s", credentials, err, kind)
		}
	}
}

func TestParameters(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		status int
		body   string
		want   string
		never  bool
		fails  bool
	}{
		"as the broker sent them": {200, `{"a": 1.0, "big":9007199254740993}`, `{"a": 1.0, "big":9007199254740993}`, false, false},
		"none":                    {200, `{}`, `{}`, false, false},
		"instance not offered":    {400, cfError(120004, "CF-ServiceFetchInstanceParametersNotSupported", "x"), "", true, true},
		"key not offered":         {400, cfError(90007, "CF-ServiceFetchBindingParametersNotSupported", "x"), "", true, true},
		"absent":                  {404, notFound("x"), "", false, true},
		"no such call":            {404, cfError(10000, "CF-NotFound", "Unknown request"), "", true, true},
		"a router's 404":          {404, "no route", "", false, true},
		"in progress":             {409, cfError(60016, "CF-AsyncServiceInstanceOperationInProgress", "x"), "", false, true},
		"a broker that fails":     {502, cfError(10001, "CF-ServiceBrokerBadResponse", "x"), "", false, true},
		"not JSON":                {200, `<html>`, "", false, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStub(t, func(w http.ResponseWriter, _ *http.Request) { reply(w, test.status, test.body) })
			b := s.backend(t, nil)
			for what, get := range map[string]func() (json.RawMessage, error){
				"InstanceParameters": func() (json.RawMessage, error) { return b.InstanceParameters(t.Context(), "g") },
				"KeyParameters":      func() (json.RawMessage, error) { return b.KeyParameters(t.Context(), "g") },
			} {
				got, err := get()
				if errors.Is(err, broker.ErrBusy) != (name == "in progress") {
					t.Errorf("%s: %v; want ErrBusy while an operation runs, and only then", what, err)
				}
				if errors.Is(err, broker.ErrNotFound) != (name == "absent") {
					t.Errorf("%s: %v; want ErrNotFound for what Cloud Foundry does not know, and only then", what, err)
				}
				if string(got) != test.want || (err != nil) != test.fails || errors.Is(err, broker.ErrNotRetrievable) != test.never {
					t.Errorf("%s = %s, %v", what, got, err)
				}
			}
		})
	}
}

// TestKeysWithoutAnInstanceAreNotLookedFor: a filter without a value would find all.
func TestKeysWithoutAnInstanceAreNotLookedFor(t *testing.T) {
	t.Parallel()
	s := newStub(t, busyCloud)
	if look, err := s.backend(t, nil).FindKeys(t.Context(), broker.Lookup{Instance: "", Name: "k"}); err == nil || len(s.requests) != 0 {
		t.Errorf("%+v after %q; want an error and no call", look, s.requests)
	}
}
