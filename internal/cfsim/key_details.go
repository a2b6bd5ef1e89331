package cfsim

import (
	"encoding/json"
	"net/http"
	"slices"
)

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
