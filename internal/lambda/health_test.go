package lambda

import (
	"errors"
	"net/http"
	"testing"

	"github.com/aws/aws-lambda-go/events"
)

// TestHealthWithoutAConfiguration: the process lives; it is not ready.
func TestHealthWithoutAConfiguration(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.configure(nil, errors.New("no such secret"))
	for path, want := range map[string]int{"/healthz": http.StatusOK, "/readyz": http.StatusServiceUnavailable, "/v2/catalog": http.StatusServiceUnavailable} {
		answer, err := r.api.Handle(t.Context(), events.APIGatewayProxyRequest{HTTPMethod: http.MethodGet, Path: path})
		if err != nil || answer.StatusCode != want {
			t.Errorf("%s: %d %s, %v; want %d", path, answer.StatusCode, answer.Body, err, want)
		}
		if (answer.Headers["Retry-After"] != "") != (want == http.StatusServiceUnavailable) {
			t.Errorf("%s: Retry-After %q", path, answer.Headers["Retry-After"])
		}
	}
}
