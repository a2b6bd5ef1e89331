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
	"testing"

	"github.com/ferry-broker/ferry/internal/broker"
)

// TestSecretsStayInside has a Cloud Foundry that repeats all it is told in every place where it can, and looks for it
// in errors and logs.
func TestSecretsStayInside(t *testing.T) {
	t.Parallel()
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
			var log bytes.Buffer
			b := s.backend(t, func(c *Config) {
				c.ClientSecret, c.Username, c.Password = "secret-of-client", "u", "secret-of-user"
				c.Logger = slog.New(slog.NewJSONHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
			})
			for _, err := range tryEverything(t.Context(), b) {
				_, _ = fmt.Fprintln(&log, err)
			}
			for _, secret := range []string{"secret-of-client", "secret-of-user", "secret-in-parameters", "secret-in-credentials", s.token} {
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

// tryEverything calls each method once and returns the errors, with descriptions meant for users among them.
func tryEverything(ctx context.Context, b *Backend) (errs []error) {
	call := testCall()
	call.Parameters = []byte(`{"p":"secret-in-parameters"}`)
	key := broker.KeyCall{Name: "k", InstanceGUID: "g", Parameters: call.Parameters, Marks: call.Marks}
	note := func(a broker.Answer, err error) { errs = append(errs, err, errors.New(a.Description)) }
	note(b.CreateInstance(ctx, call))
	note(b.UpdateInstance(ctx, "g", call))
	note(b.DeleteInstance(ctx, "g"))
	note(b.CreateKey(ctx, key))
	note(b.DeleteKey(ctx, "g"))
	call.Parameters = []byte(`{"p":"secret-in-parameters"`)
	note(b.CreateInstance(ctx, call))
	for _, look := range looks(ctx, b, "") {
		_, err := look()
		errs = append(errs, err)
	}
	_, details := b.KeyDetails(ctx, "g", "")
	_, instance := b.InstanceParameters(ctx, "g")
	_, binding := b.KeyParameters(ctx, "g")
	_, job := b.Job(ctx, "j")
	_, market := b.Marketplace(ctx)
	return append(errs, details, instance, binding, job, market)
}
