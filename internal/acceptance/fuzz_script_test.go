package acceptance

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/ferry-broker/ferry/internal/brokertest"
)

// cursor reads one line of a script: a letter each for what to do, the instance, the binding, the query, the headers
// and the body, then raw text. Each letter is looked up in a table, in which a dot and what is missing is the first; a
// letter that the table lacks stands for one that it has, so that every mutation means something. A tilde puts the raw
// text there.
type cursor struct {
	letters [6]byte
	raw     string
}

func newCursor(line string) cursor {
	var c cursor
	n := copy(c.letters[:], line)
	c.raw = line[n:]
	return c
}

// option is a row of a table.
type option struct {
	letter byte
	text   string
}

func (c cursor) pick(place int, table []option) string {
	letter := c.letters[place]
	switch letter {
	case '~':
		return c.raw
	case 0, '.':
		return table[0].text
	}
	for _, o := range table {
		if o.letter == letter {
			return o.text
		}
	}
	return table[int(letter)%len(table)].text
}

// Places of the letters in a line.
const (
	doing = iota
	instanceID
	bindingID
	querying
	heading
	carrying
)

func verbs() []option {
	return []option{
		{'p', "PUT instance"}, {'u', "PATCH instance"}, {'d', "DELETE instance"}, {'g', "GET instance"}, {'l', "GET instance/last_operation"},
		{'b', "PUT binding"}, {'x', "DELETE binding"}, {'f', "GET binding"}, {'m', "GET binding/last_operation"},
		{'c', "GET catalog"}, {'h', "HEAD instance"}, {'o', "OPTIONS binding"}, {'z', "raw"},
		// Not requests: a step of one operation, time, a platform that sends again, a process that is killed, the
		// janitor, and so long that all is forgotten.
		{'t', "tick"}, {'w', "wait"}, {'r', "repeat"}, {'k', "crash"}, {'j', "janitor"}, {'y', "age"},
	}
}

func instanceIDs() []option {
	return append([]option{{'0', "i-0"}, {'1', "i-1"}}, oddNames()...)
}

func bindingIDs() []option {
	return append([]option{{'0', "b-0"}, {'1', "b-1"}}, oddNames()...)
}

func oddNames() []option {
	return []option{
		{'s', "a/b c"}, {'p', "%2F"}, {'h', "#?&=;"}, {'n', "\xff\x00\n"}, {'u', "ünï"}, {'d', ".."}, {'e', ""},
		{'l', strings.Repeat("a", 900)}, {'L', strings.Repeat("a", 901)}, {'r', "last_operation"}, {'q', `"quoted'\`},
	}
}

// queries may hold HINTS, which become the mandatory ids of a DELETE, and OPERATION, the newest one.
func queries() []option {
	return []option{
		{'a', "?accepts_incomplete=true&HINTS"}, {'s', "?HINTS"}, {'n', ""}, {'b', "?accepts_incomplete=true"},
		{'T', "?accepts_incomplete=True&HINTS"}, {'f', "?accepts_incomplete=false&accepts_incomplete=true&HINTS"},
		{'g', "?HINTS&accepts_incomplete=true&accepts_incomplete=false"}, {'o', "?operation=OPERATION"},
		{'q', "?operation=delete-unknown"}, {'Q', "?operation=" + strings.Repeat("x", 70)}, {'z', "?accepts_incomplete=%zz&;"},
	}
}

// headers are lines that are added to, or replace, those of a platform in order.
func headers() []option {
	return []option{
		{'.', ""}, {'2', "client: quirky"}, {'4', "client: quirky\nX-Broker-Api-Version: "}, {'w', "password: wrong"}, {'0', "client: "}, {'v', "X-Broker-Api-Version: "},
		{'3', "X-Broker-Api-Version: 3.0"}, {'b', "X-Broker-Api-Version: two"}, {'m', "X-Broker-Api-Version: 2.99"},
		{'o', "X-Broker-Api-Originating-Identity: kubernetes eyJ1aWQiOiJ1In0="}, {'O', "X-Broker-Api-Originating-Identity: who knows"},
		{'n', "X-Broker-Api-Request-Identity: "}, {'t', "Content-Type: text/plain"}, {'a', "X-Api-Info-Location: api.example/v2/info"},
		{'e', `If-None-Match: *`}, {'d', "If-Modified-Since: Wed, 21 Oct 2099 07:28:00 GMT"}, {'c', "Transfer-Encoding: chunked"},
	}
}

// bodies serve all three verbs: fields that one does not know change nothing.
func bodies() []option {
	body := func(service, plan, more string) string {
		return fmt.Sprintf(`{"service_id":%q,"plan_id":%q,"organization_guid":"o","space_guid":"s"%s}`, service, brokertest.PlanID(plan), more)
	}
	db := func(plan, more string) string { return body(brokertest.ServiceDB, plan, more) }
	return []option{
		{'0', db(brokertest.PlanSmall, "")}, {'1', db(brokertest.PlanSmall, `,"parameters":{"size":1,"word":"s3cret"}`)},
		{'2', db(brokertest.PlanSmall, `,"parameters":{"word":"s3cret","size":1.0e0}`)}, {'3', db(brokertest.PlanLarge, "")},
		{'4', db(brokertest.PlanSlow, `,"parameters":null`)}, {'5', db(brokertest.PlanAppOnly, `,"parameters":{}`)},
		{'6', body(brokertest.ServicePlain, brokertest.PlanPlain, "")}, {'7', body(brokertest.ServicePlain, brokertest.PlanOther, "")},
		{'8', body(brokertest.ServiceBroken, brokertest.PlanRejecting, "")}, {'9', body(brokertest.ServiceBroken, brokertest.PlanUnbindable, "")},
		{'N', db(brokertest.PlanSmall, `,"parameters":{"size":9007199254740992}`)}, {'M', db(brokertest.PlanSmall, `,"parameters":{"size":9007199254740993}`)},
		{'k', db(brokertest.PlanSmall, `,"context":{"platform":"kubernetes","namespace":"n","clusterid":"1"}`)},
		{'K', db(brokertest.PlanSmall, `,"context":{"platform":"kubernetes","namespace":"n","clusterid":"2"}`)},
		{'v', db(brokertest.PlanSmall, `,"maintenance_info":{"version":"1.2.3"}`)}, {'V', db(brokertest.PlanLarge, `,"maintenance_info":{"version":"9.9.9"}`)},
		{'a', db(brokertest.PlanSmall, `,"app_guid":"app","bind_resource":{"app_guid":null}`)}, {'A', db(brokertest.PlanSmall, `,"bind_resource":{"app_guid":"app"}`)},
		{'R', db(brokertest.PlanSmall, `,"bind_resource":{"route":"r.example"}`)}, {'r', `{"predecessor_binding_id":"b-0"}`},
		{'p', `{"service_id":"service-db","parameters":{"size":2}}`}, {'q', `{"service_id":"service-db","context":{"x":1},"previous_values":7}`},
		{'u', body("nobody's", "unknown", "")}, {'o', strings.Replace(db(brokertest.PlanSmall, ""), `"o"`, `"another"`, 1)},
		{'m', `{}`}, {'d', db(brokertest.PlanSmall, `,"parameters":{"a":{"b":1,"b":1}}`)}, {'t', `{"service_id":1,"plan_id":[],"context":"c","parameters":3}`},
		{'e', ""}, {'x', `{"service_id":`}, {'y', `[]`}, {'s', `"s3cret"`}, {'U', `{"service_id":"` + "\xff" + `"}`},
		{'D', strings.Repeat(`{"a":`, 600) + "1" + strings.Repeat("}", 600)}, {'l', db(brokertest.PlanSmall, `,"parameters":{"w":"`+strings.Repeat("s3cret", 100)+`"}`)},
		{'L', `{"w":"` + strings.Repeat("s3cret", 800) + `"}`}, {'b', db(brokertest.PlanSmall, `,"parameters":{"size":"s3cret"}`)},
	}
}

// chanced is a script that follows from its number. Mutation of bytes alone seldom writes two lines about the same id.
func chanced(number uint64) string {
	dice := rand.New(rand.NewPCG(number, 0))
	letter := func(table []option, often int) byte {
		if dice.IntN(10) > 0 { // the first few, nine times in ten
			table = table[:often]
		}
		return table[dice.IntN(len(table))].letter
	}
	var script strings.Builder
	for range maxSteps {
		line := []byte{
			letter(verbs(), len(verbs())), letter(instanceIDs(), 2), letter(bindingIDs(), 2),
			letter(queries(), 2), letter(headers(), 1), letter(bodies(), 6),
		}
		if line[0] == 't' || line[0] == 'w' || line[0] == 'r' {
			line[1] = byte('0' + dice.IntN(8))
		}
		script.Write(append(line, '\n'))
	}
	return script.String()
}

// wanted is a request that a line asks for.
type wanted struct {
	method, target, body string
	header               http.Header
	chunked              bool
}

// identity is what must come back.
func (q *wanted) identity() string { return q.header.Get("X-Broker-Api-Request-Identity") }

// incomplete reports whether the first accepts_incomplete is the word true.
func (q *wanted) incomplete() bool {
	_, query, _ := strings.Cut(q.target, "?")
	values, _ := url.ParseQuery(query) // what can be read of it counts
	return values.Get("accepts_incomplete") == "true"
}

// step does what a line says.
func (s *sandbox) step(c cursor) {
	s.t.Helper()
	n := int(c.letters[instanceID]) // chooses one of many
	switch verb := c.pick(doing, verbs()); verb {
	case "tick":
		if len(s.drivers) > 0 {
			s.tick(s.drivers[n%len(s.drivers)])
		}
	case "wait":
		s.pass(time.Duration(n%8) * time.Second)
	case "repeat":
		if len(s.sent) > 0 {
			s.ask(s.sent[n%len(s.sent)])
		}
	case "crash":
		s.drivers = nil
		if _, err := s.broker.Resume(s.t.Context()); err != nil {
			s.t.Fatal(err)
		}
	case "janitor":
		if _, err := s.broker.Restart(s.t.Context(), 1); err != nil {
			s.t.Fatal(err)
		}
	case "age":
		s.rest()
		s.polled()
		s.accepted, s.now = nil, s.now.Add(keep)
	default:
		q := s.request(verb, c)
		s.sent = append(s.sent, q)
		s.ask(q)
	}
}

func (s *sandbox) request(verb string, c cursor) *wanted {
	method, path, _ := strings.Cut(verb, " ")
	q := &wanted{method: method, body: c.pick(carrying, bodies()), header: http.Header{}}
	instance := "/v2/service_instances/" + url.PathEscape(c.pick(instanceID, instanceIDs()))
	binding := instance + "/service_bindings/" + url.PathEscape(c.pick(bindingID, bindingIDs()))
	switch {
	case path == "catalog":
		q.target = "/v2/catalog"
	case path == "": // raw: the first word is the method, the rest the path
		q.method, q.target, _ = strings.Cut(c.raw, " ")
	default:
		q.target = strings.NewReplacer("instance", instance, "binding", binding).Replace(path)
	}
	if method == http.MethodGet || method == http.MethodHead {
		q.body = ""
	}
	q.target += s.query(c)
	s.dress(q, c)
	return q
}

// query fills in the ids, whose values nobody compares, and the newest operation.
func (s *sandbox) query(c cursor) string {
	operation := ""
	if n := len(s.drivers); n > 0 {
		operation = s.drivers[n-1].Operation
	}
	return strings.NewReplacer("HINTS", "service_id=s&plan_id=p", "OPERATION", operation).Replace(c.pick(querying, queries()))
}

// dress sets the headers of a platform, and then those that the line names.
func (s *sandbox) dress(q *wanted, c cursor) {
	client, password := plainClient, secretWord
	q.header.Set("X-Broker-Api-Version", "2.17")
	q.header.Set("X-Broker-Api-Request-Identity", fmt.Sprintf("request-%d", len(s.sent)))
	q.header.Set("Content-Type", "application/json")
	for line := range strings.SplitSeq(c.pick(heading, headers()), "\n") {
		name, value, _ := strings.Cut(line, ": ")
		switch name {
		case "":
		case "client":
			client = value
		case "password":
			password = value
		case "Transfer-Encoding":
			q.chunked = true
		default:
			q.header[http.CanonicalHeaderKey(name)] = []string{value}
		}
	}
	if client != "" {
		r := http.Request{Header: q.header}
		r.SetBasicAuth(client, password)
	}
}
