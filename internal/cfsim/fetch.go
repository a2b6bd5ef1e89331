package cfsim

import (
	"encoding/json"
	"net/http"
)

// What the backing broker is asked for parameters by. Such requests change
// nothing and are not among broker_calls; an instruction has to name them.
const (
	fetchInstance = "fetch_instance"
	fetchBinding  = "fetch_binding"
)

func (c brokerCall) fetches() bool {
	return c.operation == fetchInstance || c.operation == fetchBinding
}

// fetch is a request for parameters, and what comes of it.
type fetch struct {
	parameters json.RawMessage
	as         instruction // the zero one when there is none
}

// newFetch takes the instruction for a fetch; the caller holds s.mu.
func (s *Simulator) newFetch(c brokerCall, parameters json.RawMessage) *fetch {
	f := &fetch{parameters: parameters}
	if i := s.backing.instructed(c); i != nil {
		f.as = *i
	}
	return f
}

// fetched answers with the parameters, or with the error that the Cloud
// Controller passes on. The caller does not hold s.mu: a broker that is silent
// keeps nobody else waiting.
func (s *Simulator) fetched(f *fetch) (*answer, error) {
	switch f.as.Answer {
	case "", answerDone:
		return jsonAnswer(http.StatusOK, orEmpty(f.parameters))
	case answerSilent:
		s.hold(s.options.BrokerTimeout)
		return nil, failure(http.StatusGatewayTimeout, 10001, "CF-HttpClientTimeout", timedOutMessage)
	}
	r := f.as.refusal()
	status := http.StatusBadGateway
	if f.as.Answer == "request-timeout" {
		status = http.StatusGatewayTimeout
	}
	return nil, failure(status, 10001, fetchTitle(f.as.Answer), r.message)
}

// fetchTitle is the class of error that the Cloud Controller shows when a fetch
// is answered so.
func fetchTitle(answered string) string {
	titles := map[string]string{
		"unauthorized": "CF-ServiceBrokerApiAuthenticationFailed", "request-timeout": "CF-ServiceBrokerApiTimeout",
		"error": "CF-ServiceBrokerBadResponse", "unprocessable": "CF-ServiceBrokerBadResponse", "unexpected-success": "CF-ServiceBrokerBadResponse",
		"malformed": "CF-ServiceBrokerResponseMalformed", "unreachable": "CF-ServiceBrokerApiUnreachable",
	}
	if title, known := titles[answered]; known {
		return title
	}
	return "CF-ServiceBrokerRequestRejected"
}
