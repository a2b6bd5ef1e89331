package lambda

import (
	"strings"
	"testing"
)

// TestTheBasePathOfADomain: API Gateway keeps the base path of a domain's mapping in the
// path of the event. At the API's own address there is none.
func TestTheBasePathOfADomain(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		variable, path string
		status         int
	}{
		"below the base path":              {"/ferry", "/ferry/v2/catalog", 200},
		"a domain without a base path":     {"", "/v2/catalog", 200},
		"the own address goes on":          {"/ferry", "/v2/catalog", 200},
		"its health too":                   {"/ferry", "/healthz", 200},
		"health below the base path":       {"/ferry", "/ferry/healthz", 200},
		"nothing behind the base path":     {"/ferry", "/ferry", 404},
		"something alike":                  {"/ferry", "/ferryman/v2/catalog", 404},
		"a base path that nobody told us":  {"", "/ferry/v2/catalog", 404},
		"another one than we were told of": {"/broker", "/ferry/v2/catalog", 404},
		"the base path twice":              {"/ferry", "/ferry/ferry/v2/catalog", 404},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			event := readEvent(t, "catalog")
			event.Path, event.StageVariables = test.path, map[string]string{"logRole": "existing", basePath: test.variable}
			answer, _ := newRig(t).api.Handle(t.Context(), event)
			if answer.StatusCode != test.status || test.status == 404 && !strings.Contains(answer.Body, "Register this broker by its URL without ") {
				t.Errorf("%d %.300s, want %d", answer.StatusCode, answer.Body, test.status)
			}
		})
	}
}
