package cf

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ferry-broker/ferry/internal/broker"
)

func TestUserText(t *testing.T) {
	t.Parallel()
	b, err := New(Config{API: "https://api.cf.example.org", ClientSecret: "long-client-secret", Now: time.Now})
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
		if got := b.userText(text); got != want {
			t.Errorf("userText(%q) = %q, want %q", text, got, want)
		}
	}
}

// TestSecretsStayInside has a Cloud Foundry that repeats all it is told in every
// place where it can, and looks for it in errors and logs.
func TestSecretsStayInside(t *testing.T) {
	t.Parallel()
	secrets := []string{"secret-of-client", "secret-of-user", "secret-in-parameters", "secret-in-credentials", "secret-token"}
	for name, answer := range map[string]func(http.ResponseWriter, *http.Request, string){
		"in a body of its own": func(w http.ResponseWriter, _ *http.Request, told string) { reply(w, 500, told) },
		"in a page":            func(w http.ResponseWriter, _ *http.Request, told string) { reply(w, 200, "<html>"+told) },
		"in a quoted answer": func(w http.ResponseWriter, _ *http.Request, told string) {
			reply(w, 502, cfError(10001, "CF-ServiceBrokerBadResponse", "The service broker returned an invalid response. Status Code: 500, Body: "+told))
		},
		"in a quoted object": func(w http.ResponseWriter, _ *http.Request, told string) {
			reply(w, 502, cfError(10001, "CF-ServiceBrokerResponseMalformed", "expected valid JSON object in body, broker returned '"+told+"'"))
		},
		"in a value of the wrong type": func(w http.ResponseWriter, _ *http.Request, told string) {
			quoted, _ := json.Marshal(told)
			reply(w, 200, `{"guid":[`+string(quoted)+`],"credentials":"secret-in-credentials","syslog_drain_url":{"x":"secret-in-credentials"}}`)
		},
		"in half an answer": func(w http.ResponseWriter, _ *http.Request, told string) {
			w.Header().Set("Content-Length", "100000")
			reply(w, 200, told)
		},
		"in a redirect": func(w http.ResponseWriter, r *http.Request, told string) {
			http.Redirect(w, r, "/"+told, http.StatusFound)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStub(t, func(w http.ResponseWriter, r *http.Request) {
				body, _ := io.ReadAll(r.Body)
				answer(w, r, r.Header.Get("Authorization")+string(body)+"secret-in-credentials")
			})
			var log lockedBuffer
			b := s.backend(t, func(c *Config) {
				c.ClientSecret, c.Username, c.Password = "secret-of-client", "u", "secret-of-user"
				c.Logger = slog.New(slog.NewJSONHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
			})
			for _, err := range tryEverything(t.Context(), b) {
				_, _ = fmt.Fprintln(&log, err)
			}
			for _, secret := range secrets {
				if strings.Contains(log.String(), secret) {
					t.Errorf("%s got out:\n%s", secret, log.String())
				}
			}
			if !strings.Contains(log.String(), "POST /v3/service_instances") {
				t.Error("the log lacks the calls, so nothing was looked at")
			}
		})
	}
}

// TestSecretsOfALoginStayInside: the UAA repeats what it was told.
func TestSecretsOfALoginStayInside(t *testing.T) {
	t.Parallel()
	g := newGate(t, hangUp, func(_ int64, w http.ResponseWriter, r *http.Request) bool {
		told, _ := json.Marshal(r.Header.Get("Authorization") + " secret-of-client " + r.PostFormValue("password"))
		reply(w, 400, `{"error":"invalid","error_description":`+string(told)+`,"more":`+string(told)+`}`)
		return true
	})
	b := g.backend(t, func(c *Config) { c.ClientSecret, c.Username, c.Password = "secret-of-client", "u", "secret-of-user" })
	_, err := b.Job(t.Context(), "j")
	if err == nil || strings.Contains(err.Error(), "secret-of") || strings.Contains(err.Error(), "Basic Z") {
		t.Errorf("error %v", err)
	}
}

// tryEverything calls each method once and returns the errors, with descriptions
// meant for users among them.
func tryEverything(ctx context.Context, b *Backend) []error {
	call := testCall()
	call.Parameters = []byte(`{"p":"secret-in-parameters"}`)
	key := broker.KeyCall{Name: "k", InstanceGUID: "g", Parameters: call.Parameters, Marks: call.Marks}
	var errs []error
	note := func(a broker.Answer, err error) { errs = append(errs, err, errors.New(a.Description)) }
	note(b.CreateInstance(ctx, call))
	note(b.UpdateInstance(ctx, "g", call))
	note(b.DeleteInstance(ctx, "g"))
	note(b.CreateKey(ctx, key))
	note(b.DeleteKey(ctx, "g"))
	call.Parameters = []byte(`{"p":"secret-in-parameters"`)
	note(b.CreateInstance(ctx, call))
	_, err := b.KeyDetails(ctx, "g")
	errs = append(errs, err)
	_, err = b.InstanceParameters(ctx, "g")
	errs = append(errs, err)
	_, err = b.KeyParameters(ctx, "g")
	errs = append(errs, err)
	_, err = b.FindInstances(ctx, "one")
	errs = append(errs, err)
	_, err = b.FindInstance(ctx, "g")
	errs = append(errs, err)
	_, err = b.FindKeys(ctx, "g", "k")
	errs = append(errs, err)
	_, err = b.Job(ctx, "j")
	errs = append(errs, err)
	_, err = b.Marketplace(ctx)
	return append(errs, err)
}

// lockedBuffer is a buffer for several writers.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// TestDecodingErrorsQuoteNothing: encoding/json quotes a number that does not fit.
func TestDecodingErrorsQuoteNothing(t *testing.T) {
	t.Parallel()
	s := newStub(t, func(w http.ResponseWriter, _ *http.Request) {
		reply(w, 200, `{"guid":"j","state":98765432109876543210}`)
	})
	if _, err := s.backend(t, nil).Job(t.Context(), "j"); err == nil || strings.Contains(err.Error(), "98765") {
		t.Errorf("error %v, want one that does not quote the answer", err)
	}
}
