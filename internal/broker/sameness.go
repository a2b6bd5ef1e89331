package broker

import (
	"encoding/json"
	"errors"
	"strings"

	"github.com/ferry-broker/ferry/internal/canon"
	"github.com/ferry-broker/ferry/internal/osb"
)

// sketch is what a request says of itself before any salt is known: the parts that
// "same" compares, in canonical form.
type sketch struct {
	serviceID, planID string
	// parameters in canonical form; nil for absent, null and {}.
	parameters []byte
	// owner in canonical form: who the thing is for.
	owner         []byte
	predecessorID string
}

// attributes turns the sketch into what a record with this salt keeps of it.
func (s sketch) attributes(salt []byte) Attributes {
	a := Attributes{ServiceID: s.serviceID, PlanID: s.planID, PredecessorID: s.predecessorID}
	a.Parameters = digest(salt, s.parameters)
	a.Owner = digest(salt, s.owner)
	return a
}

// same compares with the attributes in force. Names, annotations, identities and
// maintenance_info never count.
func (s sketch) same(r Record) bool {
	a, b := s.attributes(r.Salt), r.Attributes
	if s.predecessorID != "" && r.Key.BindingID != "" { // a rotation may leave them out
		a.ServiceID, a.PlanID = or(a.ServiceID, b.ServiceID), or(a.PlanID, b.PlanID)
	}
	return a.ServiceID == b.ServiceID && a.PlanID == b.PlanID && a.Parameters == b.Parameters &&
		a.Owner == b.Owner && a.PredecessorID == b.PredecessorID
}

func digest(salt, canonical []byte) string {
	if len(canonical) == 0 {
		return ""
	}
	return canon.Digest(salt, canonical)
}

// canonicalParameters returns the canonical form, or a refusal that names what is
// wrong without showing any value.
func canonicalParameters(raw json.RawMessage) ([]byte, error) {
	canonical, err := canon.Parameters(raw)
	if errors.Is(err, canon.ErrNotObject) {
		return nil, refuse(CodeBadRequest, "parameters must be a JSON object.")
	}
	if err != nil {
		return nil, refuse(CodeBadRequest, "parameters: %v. Correct the JSON and send the request again.", err)
	}
	return canonical, nil
}

// owner is the canonical form of whom an instance is made for. A Kubernetes
// cluster id may change over time, so its namespace stands for it.
func owner(q osb.ProvisionRequest) []byte {
	var c struct{ Platform, Namespace string }
	if json.Unmarshal(q.Context, &c) == nil && strings.EqualFold(c.Platform, "kubernetes") {
		return words("kubernetes", c.Namespace, q.SpaceGUID)
	}
	return words(q.OrganizationGUID, q.SpaceGUID)
}

// purpose is the canonical form of what a binding is made for; nil for nothing.
func purpose(q osb.BindRequest) []byte {
	app, route := q.AppGUID, ""
	if q.BindResource != nil {
		route = q.BindResource.Route
		if q.BindResource.AppGUID != "" {
			app = q.BindResource.AppGUID
		}
	}
	if app == "" && route == "" {
		return nil
	}
	return words(app, route)
}

// words joins strings so that different lists never look alike.
func words(list ...string) []byte {
	out, _ := json.Marshal(list) // strings always encode
	return out
}
