package deployed

import (
	"encoding/json"
	"net/url"
	"slices"
	"strings"
	"testing"
)

// roles maps the logical names of the functions' roles to those of the functions.
var roles = map[string]string{"ApiRole": "ApiFunction", "PollerRole": "PollerFunction", "JanitorRole": "JanitorFunction"}

// asIn is what a policy calls an action and the gate calls it.
var asIn = map[string]string{
	"dynamodb:": "DynamoDB.", "states:": "StepFunctions.", "secretsmanager:": "SecretsManager.",
}

// forLambda are actions that Lambda itself uses for a function, not the function; the
// stand-in writes its logs without asking.
func forLambda(action string) bool {
	return strings.HasPrefix(action, "logs:") || strings.HasPrefix(action, "xray:")
}

// policy is a role's permissions, each statement with the members that IAM has.
type policy struct {
	Version   string
	Statement []statement
}

type statement struct {
	Effect           string
	Action, Resource manyOrOne
}

// manyOrOne is a list in which IAM lets a single one stand alone.
type manyOrOne []string

func (m *manyOrOne) UnmarshalJSON(text []byte) error {
	var one string
	if json.Unmarshal(text, &one) == nil {
		*m = manyOrOne{one}
		return nil
	}
	return json.Unmarshal(text, (*[]string)(m))
}

// grant is one action of one statement.
type grant struct {
	role, action string
	statement    int
	index        bool // on the index of the table
}

func (g grant) String() string {
	if g.index {
		return g.role + " " + g.action + " on the index"
	}
	return g.role + " " + g.action
}

func grantsOf(role string, p policy) (all []grant) {
	for n, s := range p.Statement {
		for _, action := range s.Action {
			all = append(all, grant{role, action, n, strings.Contains(s.Resource[0], "/index/")})
		}
	}
	return all
}

// without is the policy less one grant.
func (p policy) without(g grant) policy {
	narrow := policy{Version: p.Version}
	for n, s := range p.Statement {
		if n == g.statement {
			s.Action = slices.DeleteFunc(slices.Clone(s.Action), func(a string) bool { return a == g.action })
		}
		if len(s.Action) > 0 {
			narrow.Statement = append(narrow.Statement, s)
		}
	}
	return narrow
}

const (
	iamVersion = "2010-05-08"
	policyName = "ferry"
)

// permissions reads the policy of a role as it was deployed.
func (s *stack) permissions(t *testing.T, role string) policy {
	t.Helper()
	var answer struct {
		Document string `xml:"GetRolePolicyResult>PolicyDocument"`
	}
	fields := url.Values{"RoleName": {s.resources[role]}, "PolicyName": {policyName}}
	if err := s.cloud.query(t, "iam", iamVersion, "GetRolePolicy", fields, &answer); err != nil {
		t.Fatal(err)
	}
	text, err := url.QueryUnescape(answer.Document)
	if err != nil {
		t.Fatal(err)
	}
	var p policy
	if err := json.Unmarshal([]byte(text), &p); err != nil || len(p.Statement) == 0 {
		t.Fatalf("the policy of %s: %v in %s", role, err, text)
	}
	return p
}

// permit puts a policy in the place of a role's.
func (s *stack) permit(t *testing.T, role string, p policy) {
	t.Helper()
	text, err := json.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	fields := url.Values{"RoleName": {s.resources[role]}, "PolicyName": {policyName}, "PolicyDocument": {string(text)}}
	if err := s.cloud.query(t, "iam", iamVersion, "PutRolePolicy", fields, nil); err != nil {
		t.Fatal(err)
	}
}

// caseRolesTooNarrow takes each permission of each function away, does what needs it,
// sees that it is missed, gives it back, and sees that all goes on.
func caseRolesTooNarrow(t *testing.T, s *stack) {
	all := newStorm(t, s).knows()
	defer all.clear()
	probes := roleProbes()
	for role, function := range roles {
		whole := s.permissions(t, role)
		for _, g := range grantsOf(role, whole) {
			if forLambda(g.action) {
				continue
			}
			t.Run(g.String(), func(t *testing.T) {
				probe, ok := probes[g.String()]
				if !ok {
					t.Fatal("nothing is known that needs it")
				}
				p := all.in(t)
				s.permit(t, role, whole.without(g))
				defer s.permit(t, role, whole)
				goOn := probe(p, p.denials(g, function))
				s.permit(t, role, whole)
				goOn()
			})
			delete(probes, g.String())
		}
	}
	for left := range probes {
		t.Errorf("no role has %s", left)
	}
}

// denials returns a function that reports whether the stand-in has refused the action
// to the function since now.
func (p storm) denials(g grant, function string) func() bool {
	service, action, _ := strings.Cut(g.action, ":")
	wanted, since := asIn[service+":"]+action, len(p.s.gate.calls(""))
	return func() bool {
		return slices.ContainsFunc(p.s.gate.calls("")[since:], func(c call) bool {
			return c.Action == wanted && strings.Contains(c.From, function) && strings.Contains(c.Refusal, "AccessDenied")
		})
	}
}

// caseOtherResource: a permission for another table, secret or state machine is none.
func caseOtherResource(t *testing.T, s *stack) {
	all := newStorm(t, s).knows()
	defer all.clear()
	whole := s.permissions(t, "ApiRole")
	for _, action := range []string{"dynamodb:PutItem", "states:StartExecution", "secretsmanager:GetSecretValue"} {
		t.Run(action, func(t *testing.T) {
			other := policy{Version: whole.Version}
			g := grant{role: "ApiRole", action: action}
			for n, st := range whole.Statement {
				if slices.Contains(st.Action, action) {
					g.statement, st.Resource = n, manyOrOne{st.Resource[0] + "-of-somebody-else"}
				}
				other.Statement = append(other.Statement, st)
			}
			p := all.in(t)
			s.permit(t, "ApiRole", other)
			defer s.permit(t, "ApiRole", whole)
			goOn := roleProbes()[g.String()](p, p.denials(g, roles["ApiRole"]))
			s.permit(t, "ApiRole", whole)
			goOn()
		})
	}
}
