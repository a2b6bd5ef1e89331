package lambda

import (
	"maps"

	"github.com/aws/aws-lambda-go/events"

	"github.com/ferry-broker/ferry/internal/sfn"
)

// basic are the headers of a platform.
func basic() map[string]string {
	return map[string]string{"Authorization": "Basic ZGVtbzpkZW1v", "X-Broker-API-Version": "2.17", "Content-Type": "application/json"}
}

// unchanged asks for the catalog with the tag that it has.
func (s *stack) unchanged() {
	s.Helper()
	headers := basic()
	headers["If-None-Match"] = s.tag
	s.deliver(304, "GET", "/v2/catalog", "", headers)
}

// stranger asks without credentials.
func (s *stack) stranger() {
	s.Helper()
	headers := basic()
	delete(headers, "Authorization")
	s.deliver(401, "GET", "/v2/catalog", "", headers)
}

// ask sends a request to the API and wants a status.
func (s *stack) ask(status int, method, path, body string) events.APIGatewayProxyResponse {
	s.Helper()
	return s.deliver(status, method, path, body, basic())
}

func (s *stack) deliver(status int, method, path, body string, headers map[string]string) events.APIGatewayProxyResponse {
	s.Helper()
	event := read[events.APIGatewayProxyRequest](s.T, "catalog")
	event.HTTPMethod, event.Body, event.Headers = method, body, headers
	event.MultiValueHeaders, event.MultiValueQueryStringParameters = nil, nil
	event.Path, event.QueryStringParameters = split(path)
	var answer events.APIGatewayProxyResponse
	s.invoke("api", func() { answer, _ = s.api.Handle(s.event(), event) })
	if answer.StatusCode != status {
		s.Fatalf("%s %s: %d %s, want %d", method, path, answer.StatusCode, answer.Body, status)
	}
	s.adopt()
	return answer
}

// sweep has the janitor carry a task out.
func (s *stack) sweep(task string) { s.Helper(); s.schedule(Schedule{Task: task}) }

// sweepDue is the turn of each hour, in which an audit may be due.
func (s *stack) sweepDue() { s.Helper(); s.schedule(Schedule{Task: TaskAudit, Due: true}) }

func (s *stack) schedule(event Schedule) {
	s.Helper()
	s.invoke("janitor", func() {
		if err := s.janitor.Handle(s.event(), event); err != nil {
			s.Fatal(err)
		}
	})
}

// oldest is the execution that began first of those that run.
func (s *stack) oldest() *execution {
	s.Helper()
	for _, e := range s.running {
		if !e.ended {
			return e
		}
	}
	s.Fatal("no execution runs")
	return nil
}

// turn takes one turn of it.
func (s *stack) turn() {
	s.Helper()
	s.step(s.oldest())
}

// heldTurn takes one while Cloud Foundry's workers do nothing.
func (s *stack) heldTurn() {
	s.Helper()
	s.foundry.hold(true)
	s.turn()
}

// lastTurn lets Cloud Foundry do its work, and wants the turn to be the last one.
func (s *stack) lastTurn() {
	s.Helper()
	s.foundry.hold(false)
	e := s.oldest()
	s.step(e)
	if !e.ended {
		s.Errorf("%s goes on after %d turns", e.tick.Operation, e.turns)
	}
}

// branch finishes what the oldest execution started.
func (s *stack) branch() {
	s.Helper()
	first := s.oldest()
	for _, e := range s.running {
		for e != first && !e.ended {
			s.step(e)
		}
	}
}

// warm lives a life, so that every environment knows its clients' logins, catalog, org
// and spaces.
func (s *stack) warm() {
	s.Helper()
	other := at("warm-" + instanceID)
	tag := s.ask(200, "GET", "/v2/catalog", "").Headers
	for name, value := range maps.All(s.ask(200, "GET", "/v2/catalog", "").MultiValueHeaders) {
		if name == "Etag" {
			s.tag = value[0]
		}
	}
	if s.tag == "" {
		s.tag = tag["Etag"]
	}
	s.ask(202, "PUT", other+async, provisionBody(small))
	s.finish()
	s.ask(201, "PUT", other+"/service_bindings/warm", bindBody())
	s.ask(202, "DELETE", other+"/service_bindings/warm"+async+"&"+ids, "")
	s.finish()
	s.ask(202, "DELETE", other+async+"&"+ids, "")
	s.finish()
	s.sweep(TaskRound)
	s.sweep(TaskAudit)
}

// fresh has every environment read what it reads once a minute.
func (s *stack) fresh() {
	s.Helper()
	s.ask(200, "GET", "/v2/catalog", "")
	if _, err := s.poller.Handle(s.event(), sfn.Tick{Client: "demo", InstanceID: "none", Operation: "none"}); err != nil {
		s.Fatal(err)
	}
	s.sweep(TaskRound)
}
