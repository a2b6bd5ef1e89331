package cfsim

import (
	"cmp"
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

func (s *Simulator) listKeys(c *call) (*answer, error) {
	params := []string{"names", "guids", "type", "service_instance_guids", "service_instance_names", "service_plan_guids", "service_plan_names",
		"service_offering_guids", "service_offering_names", "app_guids", "app_names", "label_selector", "include", "page", "per_page", "order_by"}
	if err := c.allow(slices.Concat(params, timeParams())...); err != nil {
		return nil, err
	}
	extra, err := c.includedInstances()
	if err != nil {
		return nil, err
	}
	wanted, err := c.keyFilter()
	if err != nil {
		return nil, err
	}
	return listed(s, func() (*listPage[keyView], error) {
		found := passing(s.world.keyCandidates(c.wanted("guids"), c.wanted("service_instance_guids"), c.wanted("service_instance_names")), func(k *key) bool { return s.readable(c) && wanted(k) })
		return takePage(c, found, (*key).sortKeys, c.keyView, extra)
	})
}

// keyCandidates narrows a search down without a scan where it can; the result
// is in order of creation.
func (w *world) keyCandidates(guids, instances, instanceNames []string) []*key {
	var found []*key
	switch {
	case guids != nil:
		for _, guid := range guids {
			if k := w.keys[guid]; k != nil {
				found = append(found, k)
			}
		}
	default:
		for _, i := range w.instances.candidates(instanceNames, instances) {
			found = append(found, i.keys...)
		}
	}
	slices.SortFunc(found, func(a, b *key) int { return cmp.Compare(a.sequence, b.sequence) })
	return slices.Compact(found)
}

func (c *call) keyFilter() (func(*key) bool, error) {
	labels, err := c.selector()
	if err != nil {
		return nil, err
	}
	inTime, err := c.timeFilter()
	if err != nil {
		return nil, err
	}
	names, guids, kinds := c.wanted("names"), c.wanted("guids"), c.wanted("type")
	instances, instanceNames := c.wanted("service_instance_guids"), c.wanted("service_instance_names")
	plans, planNames := c.wanted("service_plan_guids"), c.wanted("service_plan_names")
	offerings, offeringNames := c.wanted("service_offering_guids"), c.wanted("service_offering_names")
	apps := c.query.Has("app_guids") || c.query.Has("app_names")
	for _, kind := range kinds {
		if kind != "key" && kind != "app" {
			return nil, badQuery("Type must be one of 'app', 'key'")
		}
	}
	return func(k *key) bool {
		p := k.instance.plan
		return !apps && c.names.rows.passes(names, k.name) && passes(guids, k.guid) && passes(kinds, "key") &&
			passes(instances, k.instance.guid) && c.names.rows.passes(instanceNames, k.instance.name) &&
			passes(plans, p.guid) && c.names.places.passes(planNames, p.spec.name) &&
			passes(offerings, p.offering.guid) && c.names.places.passes(offeringNames, p.offering.spec.name) &&
			inTime(k.created, k.updated) && labels.matches(k.metadata.Labels)
	}, nil
}

// includedInstances reads the include parameter of keys; the result is nil
// when it is not set.
func (c *call) includedInstances() (func([]*key) map[string]included, error) {
	if c.korifi {
		return nil, nil
	}
	instances, apps := false, false
	for _, name := range c.wanted("include") {
		switch name {
		case "service_instance":
			instances = true
		case "app":
			apps = true
		default:
			return nil, badQuery("Invalid included resource: '" + name + "'. Valid included resources are: 'app', 'service_instance'")
		}
	}
	if !instances && !apps {
		return nil, nil
	}
	return func(keys []*key) map[string]included {
		result := map[string]included{}
		if instances {
			result["service_instances"] = distinct(keys, func(k *key) *instance { return k.instance }, c.instanceView)
		}
		if apps {
			result["apps"] = []struct{}{} // keys have none
		}
		return result
	}, nil
}

// bigNumber is beyond what a floating-point number holds exactly.
const bigNumber = json.Number("9007199254740993")

type credentials struct {
	URI      string      `json:"uri"`
	Username string      `json:"username"`
	Password string      `json:"password"`
	Port     int         `json:"port"`
	Big      json.Number `json:"big"`
}

type keyDetails struct {
	Credentials    credentials   `json:"credentials"`
	SyslogDrainURL string        `json:"syslog_drain_url,omitempty"`
	VolumeMounts   []volumeMount `json:"volume_mounts,omitempty"`
}

type volumeMount struct {
	Driver       string       `json:"driver"`
	ContainerDir string       `json:"container_dir"`
	Mode         string       `json:"mode"`
	DeviceType   string       `json:"device_type"`
	Device       volumeDevice `json:"device"`
}

type volumeDevice struct {
	VolumeID    string            `json:"volume_id"`
	MountConfig map[string]string `json:"mount_config"`
}

func (s *Simulator) getKeyDetails(c *call) (*answer, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	k, err := s.finishedKey(c)
	if err != nil {
		return nil, err
	}
	if !s.developer(c, k.instance.space) {
		return nil, notFound("Service credential binding") // those who may only read do not learn that it is there
	}
	if !none(k.answered) {
		return jsonAnswer(http.StatusOK, k.answered)
	}
	return jsonAnswer(http.StatusOK, k.details())
}

// none tells that there is no JSON, or null.
func none(raw json.RawMessage) bool { return len(raw) == 0 || string(raw) == "null" }

// checkDetails refuses what no answer to GET …/details can be.
func checkDetails(raw json.RawMessage) error {
	if !none(raw) && raw[0] != '{' {
		return refusedControl(http.StatusBadRequest, "The details of a key are an object or null.")
	}
	return nil
}

// finishedKey returns the row of a call when it has credentials.
func (s *Simulator) finishedKey(c *call) (*key, error) {
	k, err := s.key(c)
	if err != nil {
		return nil, err
	}
	if c.korifi && !k.last.is(kindCreate, stateSucceeded) {
		return nil, errUnfinished
	}
	if !k.last.is(kindCreate, stateSucceeded) {
		what := map[string]string{kindCreate: "Creation", kindUpdate: "Update", kindDelete: "Deletion"}[k.last.kind]
		return nil, failure(http.StatusNotFound, codeNotFound, titleResourceMissing, what+" of service key "+k.last.state)
	}
	return k, nil
}

func (k *key) details() keyDetails {
	d := keyDetails{Credentials: credentials{
		URI:      "postgres://" + k.guid + ":" + k.password + "@db.example.org:5432/" + k.instance.guid,
		Username: k.guid, Password: k.password, Port: 5432, Big: bigNumber,
	}}
	requires := k.instance.plan.offering.spec.requires
	if slices.Contains(requires, "syslog_drain") {
		d.SyslogDrainURL = "syslog-tls://drain.example.org:6514/" + k.instance.guid
	}
	if slices.Contains(requires, "volume_mount") {
		d.VolumeMounts = []volumeMount{{
			Driver: "nfsv3driver", ContainerDir: "/var/vcap/data/" + k.instance.guid, Mode: "rw", DeviceType: "shared",
			Device: volumeDevice{VolumeID: k.instance.guid, MountConfig: map[string]string{"source": "nfs://volume.example.org/export"}},
		}}
	}
	return d
}

// getKeyParameters asks the backing broker while the caller waits.
func (s *Simulator) getKeyParameters(c *call) (*answer, error) {
	f, err := s.keyFetch(c)
	if err != nil {
		return nil, err
	}
	return s.fetched(f)
}

func (s *Simulator) keyFetch(c *call) (*fetch, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	k, err := s.finishedKey(c)
	if err != nil {
		return nil, err
	}
	if !k.instance.plan.offering.spec.retrievable {
		return nil, failure(http.StatusBadRequest, 90007, "CF-ServiceFetchBindingParametersNotSupported", "This service does not support fetching service binding parameters.")
	}
	return s.newFetch(k.call(fetchBinding), k.parameters), nil
}
