package lambda

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"

	"github.com/aws/aws-lambda-go/events"
)

// maxAnswer is how long an answer may be that Lambda carries, encoded as the event that
// it is: 6 MB. Of a longer one API Gateway would make a 502 without a reason.
const maxAnswer = 6 << 20

// longest is by how much an encoding can lengthen a body: a control character becomes
// six.
const longest = 6

// fitting is the answer, or a refusal when it is longer than Lambda carries. What was
// done stays done: the platform is told that the broker failed, and acts on that.
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
