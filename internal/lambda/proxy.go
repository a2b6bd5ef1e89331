package lambda

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"strings"

	"github.com/aws/aws-lambda-go/events"
	"github.com/awslabs/aws-lambda-go-api-proxy/httpadapter"

	"github.com/ferry-broker/ferry/internal/broker"
	"github.com/ferry-broker/ferry/internal/osb"
)

// proxy makes a request of an event of the REST API, and an event of the answer.
type proxy struct {
	logger *slog.Logger
	// ready returns the handler in force. It is called once for each event.
	ready func(context.Context) (*httpadapter.HandlerAdapter, error)
}

func (p proxy) handle(ctx context.Context, event events.APIGatewayProxyRequest) (answer events.APIGatewayProxyResponse) {
	defer func() {
		// The handler recovers by itself; this is for what lies around it, so that no panic ends the environment.
		if value := recover(); value != nil {
			panicked := broker.Recovered(value)
			p.logger.ErrorContext(ctx, "panic", "value", panicked.Type, "stack", panicked.Stack)
			answer = refuse(http.StatusInternalServerError, "The broker failed. Its operator finds the reason in its log.")
		}
	}()
	event, err := readable(event)
	if err != nil {
		p.logger.InfoContext(ctx, "event refused", "error", err.Error())
		return refuse(http.StatusBadRequest, "The body of the request cannot be read.")
	}
	adapter, err := p.ready(ctx)
	if err != nil && event.Path == "/healthz" { // the process lives
		return plain(http.StatusOK, []byte(`{"status":"ok"}`))
	}
	if err != nil {
		p.logger.ErrorContext(ctx, "no configuration", "error", err.Error())
		return refuse(http.StatusServiceUnavailable, "The broker has no valid configuration yet. Its operator finds the reason in its log.")
	}
	answer, err = adapter.ProxyWithContext(ctx, event)
	if err != nil {
		p.logger.WarnContext(ctx, "event refused", "error_type", fmt.Sprintf("%T", err))
		return refuse(http.StatusBadRequest, "The request cannot be read.")
	}
	return p.fitting(ctx, event, answer)
}

// refuse answers in OSB's shape what no handler could answer.
func refuse(status int, description string) events.APIGatewayProxyResponse {
	body, _ := json.Marshal(osb.Error{Description: description}) // two strings always encode
	answer := plain(status, body)
	if status == http.StatusServiceUnavailable {
		answer.Headers["Retry-After"] = "10"
	}
	return answer
}

func plain(status int, body []byte) events.APIGatewayProxyResponse {
	header := map[string]string{"Content-Type": "application/json", "Cache-Control": "no-store"}
	return events.APIGatewayProxyResponse{StatusCode: status, Headers: header, Body: string(body)}
}

// readable makes of an event one that the adapter can turn into a request: it would print and refuse a path or a body
// that it cannot read, with words of its own.
//
// A REST API hands the path over as the platform encoded it. Stand-ins decode it, and then a '?' in an id would begin a
// query and a '%' would be no escape; both are encoded again. A '/' that was decoded cannot be told from one that was
// not.
//
// The error is that the body is not the base64 that the event says it is.
func readable(event events.APIGatewayProxyRequest) (events.APIGatewayProxyRequest, error) {
	event.Path = escaped(below(event))
	if event.IsBase64Encoded {
		body, err := base64.StdEncoding.DecodeString(event.Body)
		if err != nil {
			return event, fmt.Errorf("body of the event: %w", err)
		}
		event.Body, event.IsBase64Encoded = string(body), false
	}
	return event, nil
}

// basePath is the variable of the stage with what a domain puts before the paths of the API, with its slash.
const basePath = "basePath"

// below is the path of the event behind the base path. API Gateway keeps the base path of a domain's mapping in the
// path of the event; at the API's own address there is none, and whoever has registered that goes on to use it.
func below(event events.APIGatewayProxyRequest) string {
	rest, found := strings.CutPrefix(event.Path, event.StageVariables[basePath])
	if found && (rest == "" || rest[0] == '/') {
		return rest
	}
	return event.Path
}

// escaped encodes what may not stand in an encoded path, and nothing else.
func escaped(path string) string {
	var out strings.Builder
	for i := 0; i < len(path); i++ {
		c := path[i]
		whole := c == '%' && i+2 < len(path) && isHex(path[i+1]) && isHex(path[i+2])
		if c == '%' && !whole || c == '?' || c == '#' || c <= ' ' || c >= 0x7f {
			fmt.Fprintf(&out, "%%%02X", c)
			continue
		}
		out.WriteByte(c)
	}
	return out.String()
}

func isHex(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c && c <= 'f' || 'A' <= c && c <= 'F'
}

// maxAnswer is how long an answer may be that Lambda carries, encoded as the event that it is: 6 MB. Of a longer one
// API Gateway would make a 502 without a reason.
const maxAnswer = 6 << 20

// longest is by how much an encoding can lengthen a body: a control character becomes six.
const longest = 6

// fitting is the answer, or a refusal when it is longer than Lambda carries. What was done stays done: the platform is
// told that the broker failed, and acts on that.
func (p proxy) fitting(ctx context.Context, event events.APIGatewayProxyRequest, answer events.APIGatewayProxyResponse) events.APIGatewayProxyResponse {
	if len(answer.Body) <= maxAnswer/longest {
		return answer
	}
	var bytes counter
	encoder := json.NewEncoder(&bytes)
	encoder.SetEscapeHTML(false) // as Lambda's runtime encodes it
	if err := encoder.Encode(answer); err == nil && int(bytes) <= maxAnswer {
		return answer
	}
	p.logger.ErrorContext(ctx, "the answer is too long for Lambda", "method", event.HTTPMethod,
		"path", event.Path[:min(len(event.Path), maxLogged)], "status", answer.StatusCode, "bytes", int(bytes), "limit", maxAnswer)
	return refuse(http.StatusInternalServerError, fmt.Sprintf("The answer has %d bytes, and AWS Lambda carries %d. "+
		"The broker's operator can offer fewer plans to this platform, or run the broker as a process.", int(bytes), maxAnswer))
}

// maxLogged bounds what a line repeats of a path.
const maxLogged = 1024

// counter counts what is written.
type counter int

// Write implements io.Writer.
func (c *counter) Write(p []byte) (int, error) {
	*c += counter(len(p))
	return len(p), nil
}
