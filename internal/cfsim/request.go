package cfsim

import (
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strings"
)

// call is one request on its way through a handler, with the Cloud Controller that it was sent to.
type call struct {
	*controller
	request *http.Request
	query   query
	body    []byte
	guid    string // the :guid of the route
	second  string // another one behind it
	base    string // scheme and host that links begin with
	caller  string // subject of the token, "" without one
}

func newCall(cc *controller, r *http.Request, body []byte, guids []string) *call {
	c := &call{controller: cc, request: r, query: newQuery(r), body: body, base: "http://" + r.Host}
	if r.TLS != nil {
		c.base = "https://" + r.Host
	}
	if len(guids) > 0 {
		c.guid = guids[0]
	}
	if len(guids) > 1 {
		c.second = guids[1]
	}
	return c
}

// message is the body of a request while it is being read. What is wrong with it is collected, because the Cloud
// Controller reports all of it at once.
type message struct {
	fields   map[string]json.RawMessage
	problems []string
}

// message parses the body as an object with no other fields than those named.
func (c *call) message(allowed ...string) (*message, error) {
	m := &message{}
	if err := json.Unmarshal(c.body, &m.fields); err != nil || m.fields == nil {
		return nil, unparseable()
	}
	var unknown []string
	for _, name := range slices.Sorted(maps.Keys(m.fields)) {
		if !slices.Contains(allowed, name) {
			unknown = append(unknown, "'"+name+"'")
		}
	}
	if unknown != nil && c.options.Korifi {
		return nil, unprocessable("invalid request body: json: unknown field " + strings.ReplaceAll(unknown[0], "'", `"`))
	}
	if unknown != nil {
		m.refuse("Unknown field(s): " + strings.Join(unknown, ", "))
	}
	return m, nil
}

func (m *message) refuse(problem string) { m.problems = append(m.problems, problem) }

// problem is the error for all that was refused, nil when nothing was.
func (m *message) problem() error {
	if m.problems == nil {
		return nil
	}
	return unprocessable(strings.Join(m.problems, ", "))
}

func (m *message) has(name string) bool {
	_, there := m.fields[name]
	return there
}

// text returns a field that must be a string if it is there.
func (m *message) text(name string) string {
	raw, there := m.fields[name]
	if !there {
		return ""
	}
	var text *string
	if err := json.Unmarshal(raw, &text); err != nil || text == nil {
		m.refuse(strings.ToUpper(name[:1]) + name[1:] + " must be a string")
		return ""
	}
	return *text
}

// truth returns a field that must be true or false, nil when it is not.
func (m *message) truth(name string) *bool {
	var value *bool
	if err := json.Unmarshal(m.fields[name], &value); err != nil || value == nil {
		m.refuse(strings.ToUpper(name[:1]) + name[1:] + " must be a boolean")
		return nil
	}
	return value
}

// name returns the field of that name; surrounding blanks are only removed where the model behind it does so.
func (m *message) name(strip bool) string {
	before := len(m.problems)
	name := m.text("name")
	if strings.TrimSpace(name) == "" && len(m.problems) == before {
		m.refuse("Name can't be blank")
	}
	if strip {
		return strings.TrimSpace(name)
	}
	return name
}

// relationship returns the GUID of relationships.NAME.data.guid. The title is its name in error texts.
func (m *message) relationship(name, title string, required bool) string {
	var all map[string]struct {
		Data *struct {
			GUID any `json:"guid"`
		} `json:"data"`
	}
	if raw, there := m.fields["relationships"]; there {
		if err := json.Unmarshal(raw, &all); err != nil {
			m.refuseOnce("Relationships is not valid")
			return ""
		}
	}
	one, there := all[name]
	if !there || one.Data == nil {
		if required || there {
			m.refuse("Relationships " + title + " can't be blank")
		}
		return ""
	}
	guid, isText := one.Data.GUID.(string)
	switch {
	case !isText:
		m.refuse("Relationships " + title + " guid must be a string")
	case guid == "" || len(guid) > 200:
		m.refuse("Relationships " + title + " guid must be between 1 and 200 characters")
	}
	return guid
}

func (m *message) refuseOnce(problem string) {
	if !slices.Contains(m.problems, problem) {
		m.refuse(problem)
	}
}

// parameters returns the raw object, nil when there is none.
func (m *message) parameters() json.RawMessage {
	raw, there := m.fields["parameters"]
	if !there || string(raw) == "null" {
		return nil
	}
	if len(raw) == 0 || raw[0] != '{' {
		m.refuse("Parameters must be an object")
		return nil
	}
	return slices.Clone(raw)
}

func (m *message) metadata() metadataPatch {
	raw, there := m.fields["metadata"]
	if !there {
		return metadataPatch{}
	}
	patch, problems := parseMetadata(raw)
	m.problems = append(m.problems, problems...)
	return patch
}

// tags returns the list and whether the request has one; null is an empty one.
func (m *message) tags() ([]string, bool) {
	raw, there := m.fields["tags"]
	if !there {
		return nil, false
	}
	var tags []string
	if err := json.Unmarshal(raw, &tags); err != nil {
		m.refuse("Tags must be a list of strings")
		return nil, true
	}
	if len(strings.Join(tags, "")) > 2048 {
		m.refuse("tags too_long")
	}
	return tags, true
}
