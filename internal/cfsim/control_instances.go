package cfsim

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
)

// plantedOperation is a last operation as the control takes it.
type plantedOperation struct {
	Type        string `json:"type"`
	State       string `json:"state"`
	Description string `json:"description"`
}

// check lets an empty operation pass: old rows have none.
func (p plantedOperation) check() error {
	if p == (plantedOperation{}) {
		return nil
	}
	kinds := []string{kindCreate, kindUpdate, kindDelete}
	states := []string{stateInitial, stateInProgress, stateSucceeded, stateFailed}
	if !slices.Contains(kinds, p.Type) {
		return refusedControl(http.StatusBadRequest, "The type of a last operation is one of %s, not %q.", strings.Join(kinds, ", "), p.Type)
	}
	if !slices.Contains(states, p.State) {
		return refusedControl(http.StatusBadRequest, "The state of a last operation is one of %s, not %q.", strings.Join(states, ", "), p.State)
	}
	return nil
}

type plantedKey struct {
	Name        string             `json:"name"`
	Labels      map[string]*string `json:"labels"`
	Annotations map[string]*string `json:"annotations"`
	Parameters  json.RawMessage    `json:"parameters"`
}

type plantedInstance struct {
	Org                string             `json:"org"`
	Space              string             `json:"space"`
	Name               string             `json:"name"`
	Offering           string             `json:"offering"`
	Plan               string             `json:"plan"`
	Labels             map[string]*string `json:"labels"`
	Annotations        map[string]*string `json:"annotations"`
	MaintenanceVersion *string            `json:"maintenance_version"`
	Parameters         json.RawMessage    `json:"parameters"`
	LastOperation      *plantedOperation  `json:"last_operation"`
	Keys               []plantedKey       `json:"keys"`
}

// plantInstance writes a row as if somebody else had made it; nothing is asked
// of the backing broker.
func (s *Simulator) plantInstance(r *http.Request) (any, error) {
	planted := plantedInstance{LastOperation: &plantedOperation{Type: kindCreate, State: stateSucceeded}}
	if err := readControl(r, &planted); err != nil {
		return nil, err
	}
	if planted.LastOperation == nil {
		planted.LastOperation = &plantedOperation{Type: kindCreate, State: stateSucceeded}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	o := s.world.organizationNamed(planted.Org)
	p := s.world.market.plan(planted.Offering + "/" + planted.Plan)
	if err := s.checkPlanted(planted, o, p); err != nil {
		return nil, err
	}
	sp, err := s.spaceAt(planted.Org + "/" + planted.Space)
	if err != nil {
		return nil, err
	}
	return map[string]string{"guid": s.plant(planted, sp, p).guid}, nil
}

// spaceAt returns a space by "ORG/SPACE", which is made when it is missing.
func (s *Simulator) spaceAt(place string) (*space, error) {
	org, name, _ := strings.Cut(place, "/")
	o := s.world.organizationNamed(org)
	if o == nil || name == "" {
		return nil, refusedControl(http.StatusBadRequest, "There is no place %q; places are ORG/SPACE.", place)
	}
	if sp := s.world.spaceNamed(o, name); sp != nil {
		return sp, nil
	}
	return s.world.addSpace(o, name, s.options.Now()), nil
}

func (s *Simulator) checkPlanted(planted plantedInstance, o *organization, p *plan) error {
	bad := func(format string, args ...any) error { return refusedControl(http.StatusBadRequest, format, args...) }
	switch {
	case o == nil:
		return bad("There is no organization %q.", planted.Org)
	case planted.Space == "" || planted.Name == "":
		return bad("A planted instance needs a space and a name.")
	case p == nil:
		return bad("There is no plan %q.", planted.Offering+"/"+planted.Plan)
	}
	if sp := s.world.spaceNamed(o, planted.Space); sp != nil && s.world.instances.named(sp, planted.Name) != nil {
		return refusedControl(http.StatusConflict, "The space %q has an instance %q already.", planted.Space, planted.Name)
	}
	names := map[string]bool{}
	for _, k := range planted.Keys {
		if k.Name == "" || names[k.Name] {
			return bad("The keys of a planted instance need names that differ.")
		}
		names[k.Name] = true
	}
	return planted.LastOperation.check()
}

func (s *Simulator) plant(planted plantedInstance, sp *space, p *plan) *instance {
	now := s.options.Now()
	last := lastOperation{planted.LastOperation.Type, planted.LastOperation.State, planted.LastOperation.Description, now}
	row := s.addInstance(planted.Name, sp, p, last)
	row.metadata = metadata{pairs(nil).merged(planted.Labels), pairs(nil).merged(planted.Annotations)}
	row.received, row.applied = planted.Parameters, planted.Parameters
	if planted.MaintenanceVersion != nil {
		row.maintenance = *planted.MaintenanceVersion
	}
	for _, k := range planted.Keys {
		created := s.addKey(row, k.Name, lastOperation{kind: kindCreate, state: stateSucceeded, written: now})
		created.metadata = metadata{pairs(nil).merged(k.Labels), pairs(nil).merged(k.Annotations)}
		created.parameters, created.password = k.Parameters, s.random.secret()
	}
	return row
}
