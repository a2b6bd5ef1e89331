package api

import (
	"context"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"log/slog"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ferry-broker/ferry/internal/broker"
	"github.com/ferry-broker/ferry/internal/osb"
)

// codes reads the declared codes from the broker's source, so that a new one cannot be forgotten here.
func codes(t *testing.T) []broker.Code {
	t.Helper()
	paths, err := filepath.Glob("../broker/*.go")
	if err != nil {
		t.Fatal(err)
	}
	var found []broker.Code
	for _, path := range paths {
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			spec, ok := n.(*ast.ValueSpec)
			if !ok || len(spec.Values) != 1 || !strings.HasPrefix(spec.Names[0].Name, "Code") {
				return true
			}
			if literal, ok := spec.Values[0].(*ast.BasicLit); ok {
				text, err := strconv.Unquote(literal.Value)
				if err != nil {
					t.Fatal(err)
				}
				found = append(found, broker.Code(text))
			}
			return true
		})
	}
	if len(found) < 10 {
		t.Fatalf("found the codes %v only", found)
	}
	return found
}

func TestTheTableKnowsEveryCode(t *testing.T) {
	t.Parallel()
	for _, code := range codes(t) {
		rule, ok := rules[code]
		if !ok {
			t.Errorf("no rule for the code %s", code)
			continue
		}
		if !rule.empty && (!strings.HasSuffix(rule.standard, ".") || len(strings.Fields(rule.standard)) < 5) {
			t.Errorf("%s: the standard description %q is no advice", code, rule.standard)
		}
	}
	if _, ok := rules["Unheard"]; ok {
		t.Error("there is a rule for a code that does not exist")
	}
}

// ERR-01 to ERR-16.
func TestErrorsOnTheWire(t *testing.T) {
	t.Parallel()
	no := false
	standardInternal := rules[broker.CodeInternal].standard
	for _, test := range []struct {
		name       string
		err        error
		status     int
		want       osb.Error
		retryAfter string
	}{
		{"bad request", &broker.Error{Code: broker.CodeBadRequest, Description: "D"}, 400, osb.Error{Error: "BadRequest", Description: "D"}, ""},
		{"conflict", &broker.Error{Code: broker.CodeConflict, Description: "D"}, 409, osb.Error{Error: "Conflict", Description: "D"}, ""},
		{"not found", &broker.Error{Code: broker.CodeNotFound, Description: "D"}, 404, osb.Error{Error: "NotFound", Description: "D"}, ""},
		{"gone", &broker.Error{Code: broker.CodeGone, Description: "D"}, 410, osb.Error{}, ""},
		{"async required", &broker.Error{Code: broker.CodeAsyncRequired, Description: "D"}, 422, osb.Error{Error: osb.AsyncRequired, Description: osb.AsyncRequiredDescription, Details: "D"}, ""},
		{"concurrency", &broker.Error{Code: broker.CodeConcurrency, Description: "D"}, 422, osb.Error{Error: osb.ConcurrencyError, Description: osb.ConcurrencyErrorDescription, Details: "D"}, ""},
		{"requires app", &broker.Error{Code: broker.CodeRequiresApp, Description: "D"}, 422, osb.Error{Error: osb.RequiresApp, Description: osb.RequiresAppDescription, Details: "D"}, ""},
		{"maintenance info", &broker.Error{Code: broker.CodeMaintenanceInfoConflict, Description: "D"}, 422, osb.Error{Error: osb.MaintenanceInfoConflict, Description: "D"}, ""},
		{"unprocessable", &broker.Error{Code: broker.CodeUnprocessable, Description: "D", InstanceUsable: &no, UpdateRepeatable: &no}, 422, osb.Error{Error: "Unprocessable", Description: "D", InstanceUsable: &no, UpdateRepeatable: &no}, ""},
		{"backend", &broker.Error{Code: broker.CodeBackend, Description: "D"}, 500, osb.Error{Error: "Backend", Description: "D"}, ""},
		{"out of time", &broker.Error{Code: broker.CodeOutOfTime, Description: "D"}, 500, osb.Error{Error: "OutOfTime", Description: "D"}, ""},
		{"unavailable", &broker.Error{Code: broker.CodeUnavailable, Description: "D"}, 503, osb.Error{Error: "Unavailable", Description: "D"}, "10"},
		{"unavailable for a while", &broker.Error{Code: broker.CodeUnavailable, Description: "D", RetryAfter: 9999}, 503, osb.Error{Error: "Unavailable", Description: "D"}, "300"},
		{"internal", &broker.Error{Code: broker.CodeInternal, Description: "S3CRET"}, 500, osb.Error{Error: "Internal", Description: standardInternal}, ""},
		{"a code of tomorrow", &broker.Error{Code: "Tomorrow", Description: "S3CRET"}, 500, osb.Error{Error: "Internal", Description: standardInternal}, ""},
		{"unknown", errors.New("S3CRET"), 500, osb.Error{Error: "Internal", Description: standardInternal}, ""},
		{"wrapped", fmt.Errorf("S3CRET: %w", &broker.Error{Code: broker.CodeConflict, Description: "D", Cause: errors.New("S3CRET")}), 409, osb.Error{Error: "Conflict", Description: "D"}, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			b.broker.update = func(context.Context, broker.UpdateRequest) (broker.Result, error) { return broker.Result{}, test.err }
			w := b.send("PATCH", instanceURL+asynchronous, `{"service_id":"s"}`)
			if w.Code != test.status || w.Header().Get("Retry-After") != test.retryAfter {
				t.Errorf("status %d, Retry-After %q; want %d, %q", w.Code, w.Header().Get("Retry-After"), test.status, test.retryAfter)
			}
			if diff := cmp.Diff(wire(t, test.want), object(t, w)); diff != "" {
				t.Errorf("body (-want +got):\n%s", diff)
			}
		})
	}
}

// wire returns what an error body looks like to a platform.
func wire(t *testing.T, e osb.Error) map[string]any {
	t.Helper()
	m := map[string]any{}
	for name, value := range map[string]string{"error": e.Error, "description": e.Description, "ferry_details": e.Details} {
		if value != "" {
			m[name] = value
		}
	}
	if e.InstanceUsable != nil {
		m["instance_usable"] = *e.InstanceUsable
	}
	if e.UpdateRepeatable != nil {
		m["update_repeatable"] = *e.UpdateRepeatable
	}
	return m
}

func TestEveryRefusalHasADescriptionEvenWhenTheBrokerGaveNone(t *testing.T) {
	t.Parallel()
	for _, code := range codes(t) {
		b := newBench(t)
		b.broker.bind = func(context.Context, broker.BindRequest) (broker.Result, error) {
			return broker.Result{}, &broker.Error{Code: code}
		}
		w := b.send("PUT", bindingURL, goodBinding)
		if code == broker.CodeGone {
			if got := strings.TrimSpace(w.Body.String()); got != "{}" {
				t.Errorf("%s: body %s, want {}", code, got)
			}
			continue
		}
		described(t, w, w.Code)
		if w.Code < 400 {
			t.Errorf("%s: status %d", code, w.Code)
		}
	}
}

// ERR-04 to ERR-07.
func TestUsabilityIsToldOnlyWhereTheSpecificationAllowsIt(t *testing.T) {
	t.Parallel()
	no := false
	refusal := &broker.Error{Code: broker.CodeUnprocessable, Description: "D", InstanceUsable: &no, UpdateRepeatable: &no}
	for _, test := range []struct {
		method, target, body string
		usable, repeatable   bool
	}{
		{"PATCH", instanceURL, goodInstance, true, true},
		{"DELETE", instanceURL + hints, "", true, false},
		{"PUT", instanceURL, goodInstance, false, false},
		{"PUT", bindingURL, goodBinding, false, false},
		{"DELETE", bindingURL + hints, "", false, false},
		{"GET", instanceURL, "", false, false},
	} {
		b := newBench(t)
		*b.broker = failing(refusal)
		body := object(t, b.send(test.method, test.target, test.body))
		_, usable := body["instance_usable"]
		_, repeatable := body["update_repeatable"]
		if usable != test.usable || repeatable != test.repeatable {
			t.Errorf("%s %s: %v", test.method, test.target, body)
		}
	}
}

// failing returns a broker that answers everything with err.
func failing(err error) fakeBroker {
	return fakeBroker{
		provision:   func(context.Context, broker.ProvisionRequest) (broker.Result, error) { return broker.Result{}, err },
		update:      func(context.Context, broker.UpdateRequest) (broker.Result, error) { return broker.Result{}, err },
		deprovision: func(context.Context, broker.DeleteRequest) (broker.Result, error) { return broker.Result{}, err },
		bind:        func(context.Context, broker.BindRequest) (broker.Result, error) { return broker.Result{}, err },
		unbind:      func(context.Context, broker.DeleteRequest) (broker.Result, error) { return broker.Result{}, err },
		instance: func(context.Context, broker.FetchRequest) (broker.InstanceBody, error) {
			return broker.InstanceBody{}, err
		},
		binding: func(context.Context, broker.FetchRequest) (broker.BindingBody, error) {
			return broker.BindingBody{}, err
		},
		poll: func(context.Context, broker.PollRequest) (broker.Poll, error) { return broker.Poll{}, err },
	}
}

// TestLevelsOfRefusals: what a platform or a backing broker causes is logged at INFO, what an operator should look at
// is a WARN, and a fault of ours an ERROR.
func TestLevelsOfRefusals(t *testing.T) {
	t.Parallel()
	for _, code := range codes(t) {
		want := slog.LevelInfo
		switch code {
		case broker.CodeInternal:
			want = slog.LevelError
		case broker.CodeUnavailable:
			want = slog.LevelWarn
		default: // what platforms and backing brokers cause
		}
		b := newBench(t)
		*b.broker = failing(&broker.Error{Code: code, Description: "D", Cause: errors.New("the cause")})
		b.send("GET", instanceURL, "")
		line := b.lines(t)[0]
		if line["level"] != want.String() || !strings.Contains(fmt.Sprint(line["error"]), "the cause") {
			t.Errorf("%s: log line %v, want level %s and the cause", code, line, want)
		}
	}
}
