package lambda

import (
	"encoding/base64"
	"fmt"
	"strings"

	"github.com/aws/aws-lambda-go/events"
)

// readable makes of an event one that the adapter can turn into a request: it would
// print and refuse a path or a body that it cannot read, with words of its own.
//
// A REST API hands the path over as the platform encoded it. Stand-ins decode it, and
// then a '?' in an id would begin a query and a '%' would be no escape; both are
// encoded again. A '/' that was decoded cannot be told from one that was not.
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

// basePath is the variable of the stage with what a domain puts before the paths of the
// API, with its slash.
const basePath = "basePath"

// below is the path of the event behind the base path. API Gateway keeps the base path
// of a domain's mapping in the path of the event; at the API's own address there is
// none, and whoever has registered that goes on to use it.
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
