package cfsim

import (
	"encoding/json"
	"net/http"
	"slices"
	"time"
)

// keyBusy refuses a second delete of a key.
const keyBusy = "There is an operation in progress for the service binding."

// key is a row of service_keys.
type key struct {
	sequence   int64
	guid, name string
	instance   *instance
	metadata   metadata
	last       lastOperation
	created    time.Time
	updated    time.Time
	parameters json.RawMessage
	answered   json.RawMessage // all that the backing broker has given out; nil or null for the usual
	password   string          // the part of the credentials that is random; "" before there are any
	job        *job            // the latest, nil when it has none or the job is gone
	forced     int             // how often the control set its state
	deleted    time.Time       // when a delete was asked for (Korifi)
}

func (k *key) sortKeys() sortKeys { return sortKeys{k.name, k.updated} }

func (k *key) call(operation string) brokerCall {
	c := k.instance.call(operation)
	c.binding = k.name
	return c
}

// addKey writes a row; the caller has made sure that the name is free.
func (s *Simulator) addKey(i *instance, name string, last lastOperation) *key {
	k := &key{
		sequence: s.world.nextSequence(), guid: s.random.guid(), name: name, instance: i,
		last: last, created: last.written, updated: last.written,
	}
	i.keys = append(i.keys, k)
	s.world.keys[k.guid] = k
	return k
}

func (w *world) removeKey(k *key) {
	k.instance.keys = slices.DeleteFunc(k.instance.keys, func(other *key) bool { return other == k })
	delete(w.keys, k.guid)
}

func (w *world) keyNamed(i *instance, name string) *key {
	for _, k := range i.keys {
		if w.names.rows.same(k.name, name) {
			return k
		}
	}
	return nil
}

type keyView struct {
	GUID          string           `json:"guid"`
	CreatedAt     string           `json:"created_at"`
	UpdatedAt     string           `json:"updated_at"`
	Name          string           `json:"name"`
	Type          string           `json:"type"`
	LastOperation any              `json:"last_operation"`
	Metadata      metadata         `json:"metadata"`
	Relationships map[string]toOne `json:"relationships"`
	Links         map[string]link  `json:"links"`
}

func (c *call) keyView(k *key) keyView {
	self := c.base + "/v3/service_credential_bindings/" + k.guid
	return keyView{
		GUID: k.guid, CreatedAt: timestamp(k.created), UpdatedAt: timestamp(k.updated), Name: k.name, Type: "key",
		LastOperation: k.last.view(), Metadata: k.metadata,
		Relationships: map[string]toOne{"service_instance": related(k.instance.guid)},
		Links: map[string]link{
			"self":             {Href: self},
			"details":          {Href: self + "/details"},
			"parameters":       {Href: self + "/parameters"},
			"service_instance": {Href: c.base + "/v3/service_instances/" + k.instance.guid},
		},
	}
}

// key returns the row of a call; the caller holds s.mu.
func (s *Simulator) key(c *call) (*key, error) {
	if k := s.world.keys[c.guid]; k != nil && s.readable(c) {
		return k, nil
	}
	return nil, notFound("Service credential binding")
}

func (s *Simulator) getKey(c *call) (*answer, error) {
	if err := c.allow("include"); err != nil {
		return nil, err
	}
	extra, err := c.includedInstances()
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	k, err := s.key(c)
	if err != nil {
		return nil, err
	}
	body := struct {
		keyView
		Included map[string]included `json:"included,omitempty"`
	}{keyView: c.keyView(k)}
	if extra != nil {
		body.Included = extra([]*key{k})
	}
	return jsonAnswer(http.StatusOK, body)
}

func (s *Simulator) updateKey(c *call) (*answer, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	k, err := s.keyToChange(c)
	if err != nil {
		return nil, err
	}
	m, err := c.message("metadata")
	if err != nil {
		return nil, err
	}
	patch := m.metadata()
	if err := m.problem(); err != nil {
		return nil, err
	}
	if k.last.is(kindDelete, stateInProgress) {
		return nil, unprocessable("The service binding is being deleted")
	}
	marks, err := k.metadata.applied(patch)
	if err != nil {
		return nil, err
	}
	k.metadata, k.updated = marks, s.options.Now()
	return jsonAnswer(http.StatusOK, c.keyView(k))
}

// deleteKey queues a job and shows nothing of it.
func (s *Simulator) deleteKey(c *call) (*answer, error) {
	if err := c.allow(); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	k, err := s.keyToChange(c)
	if err != nil {
		return nil, err
	}
	switch {
	case k.last.running() && !k.last.is(kindCreate, stateInProgress):
		return nil, unprocessable(keyBusy)
	case k.instance.last.running():
		return nil, unprocessable("There is an operation in progress for the service instance.")
	}
	k.job = s.newJob(jobDeleteKey, k.guid)
	s.queue(k.job, &unbinding{s.onKey(k)})
	return jobAnswer(c.base, k.job), nil
}
