package cfsim

import (
	"cmp"
	"encoding/json"
	"net/http"
	"slices"
	"time"
)

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
func (cc *controller) addKey(i *instance, name string, last lastOperation) *key {
	k := &key{
		sequence: cc.database.nextSequence(), guid: cc.random.guid(), name: name, instance: i,
		last: last, created: last.written, updated: last.written,
	}
	i.keys = append(i.keys, k)
	cc.database.keys[k.guid] = k
	return k
}

func (db *database) removeKey(k *key) {
	k.instance.keys = slices.DeleteFunc(k.instance.keys, func(other *key) bool { return other == k })
	delete(db.keys, k.guid)
}

func (db *database) keyNamed(i *instance, name string) *key {
	for _, k := range i.keys {
		if db.names.rows.same(k.name, name) {
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

func (k *key) view(c *call) keyView {
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

// key returns the row of a request that its caller may read.
func (c *call) key() (*key, error) {
	if k := c.database.keys[c.guid]; k != nil && c.readable() {
		return k, nil
	}
	return nil, notFound("Service credential binding")
}

// keyToChange returns the row of a request that its caller may change.
func (c *call) keyToChange() (*key, error) {
	k, err := c.key()
	if err != nil {
		return nil, err
	}
	return k, c.writable(k.instance.space)
}

func getKey(c *call) (*answer, error) {
	c.query.allow("include")
	extra := includingInstances(c)
	if err := c.query.problem(); err != nil {
		return nil, err
	}
	k, err := c.key()
	if err != nil {
		return nil, err
	}
	body := struct {
		keyView
		Included map[string]any `json:"included,omitempty"`
	}{keyView: k.view(c)}
	if extra != nil {
		body.Included = extra([]*key{k})
	}
	return jsonAnswer(http.StatusOK, body), nil
}

func updateKey(c *call) (*answer, error) {
	k, err := c.keyToChange()
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
	k.metadata, k.updated = marks, c.now()
	return jsonAnswer(http.StatusOK, k.view(c)), nil
}

func listKeys(c *call) (*answer, error) {
	q := &c.query
	params := []string{"names", "guids", "type", "service_instance_guids", "service_instance_names", "service_plan_guids", "service_plan_names",
		"service_offering_guids", "service_offering_names", "app_guids", "app_names", "label_selector", "include", "page", "per_page", "order_by"}
	q.allow(slices.Concat(params, timeParams)...)
	extra := includingInstances(c)
	wanted := keyFilter(c)
	candidates := c.database.keyCandidates(q.wanted("guids"), q.wanted("service_instance_guids"), q.wanted("service_instance_names"))
	return listed(c, passing(candidates, func(k *key) bool { return c.readable() && wanted(k) }), (*key).view, extra)
}

// keyCandidates narrows a search down without a scan where it can; the result is in order of creation.
func (db *database) keyCandidates(guids, instances, instanceNames []string) []*key {
	var found []*key
	switch {
	case guids != nil:
		for _, guid := range guids {
			if k := db.keys[guid]; k != nil {
				found = append(found, k)
			}
		}
	default:
		for _, i := range db.instances.candidates(instanceNames, instances) {
			found = append(found, i.keys...)
		}
	}
	slices.SortFunc(found, func(a, b *key) int { return cmp.Compare(a.sequence, b.sequence) })
	return slices.Compact(found)
}

func keyFilter(c *call) func(*key) bool {
	q, compared := &c.query, c.database.names
	labels, inTime := q.selector(), q.timeFilter()
	names, guids, kinds := q.wanted("names"), q.wanted("guids"), q.oneOf("type", "'app', 'key'", "app", "key")
	instances, instanceNames := q.wanted("service_instance_guids"), q.wanted("service_instance_names")
	plans, planNames := q.wanted("service_plan_guids"), q.wanted("service_plan_names")
	offerings, offeringNames := q.wanted("service_offering_guids"), q.wanted("service_offering_names")
	apps := q.Has("app_guids") || q.Has("app_names")
	return func(k *key) bool {
		p := k.instance.plan
		return !apps && compared.rows.passes(names, k.name) && passes(guids, k.guid) && passes(kinds, "key") &&
			passes(instances, k.instance.guid) && compared.rows.passes(instanceNames, k.instance.name) &&
			passes(plans, p.guid) && compared.places.passes(planNames, p.spec.name) &&
			passes(offerings, p.offering.guid) && compared.places.passes(offeringNames, p.offering.spec.name) &&
			inTime(k.created, k.updated) && labels.matches(k.metadata.Labels)
	}
}

// includingInstances reads the include parameter of keys.
func includingInstances(c *call) including[*key] {
	if c.options.Korifi {
		return nil
	}
	asked := c.query.includes("'app', 'service_instance'", "app", "service_instance")
	if asked == nil {
		return nil
	}
	return func(keys []*key) map[string]any {
		result := map[string]any{}
		if slices.Contains(asked, "service_instance") {
			result["service_instances"] = distinct(keys, func(k *key) *instance { return k.instance }, func(i *instance) instanceView { return i.view(c) })
		}
		if slices.Contains(asked, "app") {
			result["apps"] = []struct{}{} // keys have none
		}
		return result
	}
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

func getKeyDetails(c *call) (*answer, error) {
	k, err := c.finishedKey()
	if err != nil {
		return nil, err
	}
	if !c.developer(k.instance.space) {
		return nil, notFound("Service credential binding") // those who may only read do not learn that it is there
	}
	if !none(k.answered) {
		return jsonAnswer(http.StatusOK, k.answered), nil
	}
	return jsonAnswer(http.StatusOK, k.details()), nil
}

// none tells that there is no JSON, or null.
func none(raw json.RawMessage) bool { return len(raw) == 0 || string(raw) == "null" }

// checkDetails refuses what no answer to GET …/details can be.
func checkDetails(raw json.RawMessage) error {
	if !none(raw) && raw[0] != '{' {
		return badInput("The details of a key are an object or null.")
	}
	return nil
}

// finishedKey returns the row of a request when it has credentials.
func (c *call) finishedKey() (*key, error) {
	k, err := c.key()
	if err != nil {
		return nil, err
	}
	if c.options.Korifi && !k.last.is(kindCreate, stateSucceeded) {
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
func getKeyParameters(c *call) (*answer, error) {
	k, err := c.finishedKey()
	if err != nil {
		return nil, err
	}
	if !k.instance.plan.offering.spec.retrievable {
		return nil, failure(http.StatusBadRequest, 90007, "CF-ServiceFetchBindingParametersNotSupported", "This service does not support fetching service binding parameters.")
	}
	return c.fetch(k.call(fetchBinding), k.parameters)
}
