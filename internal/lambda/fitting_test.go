package lambda

import (
	"context"
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"github.com/awslabs/aws-lambda-go-api-proxy/httpadapter"
)

// TestAnAnswerThatLambdaCannotCarryIsRefused: 6 MB of the answer as an event, in which
// each quote takes two bytes. Nothing of a long answer gets into the log.
func TestAnAnswerThatLambdaCannotCarryIsRefused(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		body   string
		status int
	}{
		"a common answer":                       {`{"services":[]}`, 200},
		"one of 5 MB":                           {strings.Repeat("s3cr3t", 5<<20/6), 200},
		"one of 3 MB that is mostly quotes":     {strings.Repeat(`"`, 3<<20), 500},
		"one of more than 6 MB":                 {strings.Repeat("s3cr3t", 6<<20/6+1), 500},
		"one of 4 MB with signs of HTML":        {strings.Repeat("<", 4<<20), 200},
		"one that is only just short enough":    {strings.Repeat("x", maxAnswer-1000), 200},
		"one that its frame makes too long":     {strings.Repeat("x", maxAnswer-10), 500},
		"one of 2 MB of what has to be escaped": {strings.Repeat("\x01", 2<<20), 500},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			log := &logged{}
			adapter := httpadapter.New(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(test.body)) }))
			p := proxy{logger: slog.New(newLines(log)), ready: func(context.Context) (*httpadapter.HandlerAdapter, error) { return adapter, nil }}
			event := readEvent(t, "catalog")
			event.QueryStringParameters = map[string]string{"q": "s3cr3t"}
			answer := p.handle(t.Context(), event)
			if answer.StatusCode != test.status {
				t.Fatalf("%d %.200s, want %d", answer.StatusCode, answer.Body, test.status)
			}
			if refused := test.status == 500; refused != strings.Contains(log.String(), `"msg":"the answer is too long for Lambda"`) ||
				refused && !strings.HasPrefix(answer.Body, `{"description":"The answer has `) || strings.Contains(log.String(), "s3cr3t") {
				t.Errorf("%.300s; the log: %.500s", answer.Body, log)
			}
		})
	}
}
