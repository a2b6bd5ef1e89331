package deployed

import (
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/ferry-broker/ferry/internal/broker"
	"github.com/ferry-broker/ferry/internal/dynamo"
)

// roles maps the logical names of the functions' roles to those of the functions.
var roles = map[string]string{"ApiRole": "ApiFunction", "PollerRole": "PollerFunction", "JanitorRole": "JanitorFunction"}

// asIn is what a policy calls an action and the gate calls it.
var asIn = map[string]string{
	"dynamodb:": "DynamoDB.", "states:": "StepFunctions.", "secretsmanager:": "SecretsManager.",
}

// forLambda are actions that Lambda itself uses for a function, not the function; the stand-in writes its logs without
// asking.
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

// rolesTooNarrow takes each permission of each function away, does what needs it, sees that it is missed, gives it
// back, and sees that all goes on. Everything needs the api; the other two roles are narrowed beside each other, but
// where a probe changes what all read.
func rolesTooNarrow(t *testing.T, s *stack) {
	all := newPlatform(t, s).knows()
	defer all.finish()
	probes := roleProbes()
	var api, poller, janitor, shared []func()
	for role, function := range roles {
		whole := s.permissions(t, role)
		for _, g := range grantsOf(role, whole) {
			if forLambda(g.action) {
				continue
			}
			probe, known := probes[g.String()]
			if !known {
				t.Errorf("nothing is known that needs %s", g)
				continue
			}
			delete(probes, g.String())
			narrow := func() {
				t.Run(g.String(), func(t *testing.T) { all.in(t).narrowed(g, function, whole, whole.without(g), probe.do) })
			}
			of := map[string]*[]func(){"ApiRole": &api, "PollerRole": &poller, "JanitorRole": &janitor}[role]
			if probe.shared {
				of = &shared
			}
			*of = append(*of, narrow)
		}
	}
	for left := range probes {
		t.Errorf("no role has %s", left)
	}
	for _, together := range [][][]func(){{api}, {poller, janitor}, {shared}} {
		var both sync.WaitGroup
		for _, sequence := range together {
			both.Go(func() {
				for _, narrow := range sequence {
					narrow()
				}
			})
		}
		both.Wait()
	}
}

// narrowed gives a role less than it has while a probe needs it.
func (p platform) narrowed(g grant, function string, whole, narrow policy, probe probe) {
	p.t.Helper()
	missed := p.denials(g, function)
	p.s.permit(p.t, g.role, narrow)
	defer p.s.permit(p.t, g.role, whole)
	goOn := probe(p, missed)
	p.s.permit(p.t, g.role, whole)
	goOn()
}

// denials returns a function that reports whether the stand-in has refused the action to the function since now.
func (p platform) denials(g grant, function string) func() bool {
	service, action, _ := strings.Cut(g.action, ":")
	wanted, since := asIn[service+":"]+action, len(p.s.gate.calls(""))
	return func() bool {
		return slices.ContainsFunc(p.s.gate.calls("")[since:], func(c call) bool {
			return c.Action == wanted && strings.Contains(c.From, function) && strings.Contains(c.Refusal, "AccessDenied")
		})
	}
}

// otherResource: a permission for another table, secret or state machine is none.
func otherResource(t *testing.T, s *stack) {
	all := newPlatform(t, s).knows()
	defer all.finish()
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
			all.in(t).narrowed(g, roles["ApiRole"], whole, other, roleProbes()[g.String()].do)
		})
	}
}

// probe does what needs a permission until that is missed, and returns how it goes on once the permission is back.
type probe func(p platform, missed func() bool) (goOn func())

// needs is a probe; shared says that it changes what everybody reads.
type needs struct {
	do     probe
	shared bool
}

func roleProbes() map[string]needs {
	return map[string]needs{
		"ApiRole dynamodb:GetItem":              {do: probePoll},
		"ApiRole dynamodb:PutItem":              {do: probeClaim},
		"ApiRole dynamodb:Query":                {do: probeCatalogOfAPI},
		"ApiRole dynamodb:DeleteItem":           {do: probeCatalogOfAPI},
		"ApiRole states:StartExecution":         {do: probeStart},
		"ApiRole secretsmanager:GetSecretValue": {do: probeSecretOfAPI},

		"PollerRole dynamodb:GetItem":              {do: probeTick},
		"PollerRole dynamodb:PutItem":              {do: probeTick},
		"PollerRole dynamodb:Query":                {do: probeDelete},
		"PollerRole dynamodb:DeleteItem":           {probeCatalogOfPoller, true},
		"PollerRole states:StartExecution":         {do: probeUnbindAll},
		"PollerRole secretsmanager:GetSecretValue": {do: probeTick},

		"JanitorRole dynamodb:GetItem":              {do: probeAudit},
		"JanitorRole dynamodb:PutItem":              {do: probeDue},
		"JanitorRole dynamodb:Query":                {probeCatalogOfJanitor, true},
		"JanitorRole dynamodb:BatchGetItem":         {do: probeDue},
		"JanitorRole dynamodb:DeleteItem":           {probeCatalogOfJanitor, true},
		"JanitorRole dynamodb:Query on the index":   {do: probeRound},
		"JanitorRole states:StartExecution":         {do: probeUnbindAllOfRound},
		"JanitorRole secretsmanager:GetSecretValue": {do: probeRound},
	}
}

// misses repeats something until the permission is missed.
func (p platform) misses(missed func() bool, repeat func()) {
	p.t.Helper()
	p.Eventually("the permission is missed", func() bool {
		repeat()
		return missed()
	})
}

// made leaves it to the end to see that a create has ended well, and to keep the promise.
func (p platform) made(id, operation string) {
	p.afterwards(func(p platform) {
		p.Succeeds(at(id), operation)
		p.kept(id, small)
	})
}

func (p platform) catalogIs200() { p.Fetch("/v2/catalog").Want(http.StatusOK) }

func probePoll(p platform, missed func() bool) func() {
	id := "nobody"
	p.misses(missed, func() {
		if a := p.Poll(at(id), ""); a.Status < 500 {
			p.t.Errorf("%s: %d without a read", a.Request, a.Status)
		}
	})
	return func() { p.Poll(at(id), "").Want(http.StatusNotFound) }
}

func probeClaim(p platform, missed func() bool) func() {
	id := p.NewID()
	p.misses(missed, func() {
		if a := p.Provision(id, small, ""); a.Status < 500 {
			p.t.Errorf("%s: %d without a write", a.Request, a.Status)
		}
	})
	return func() { p.made(id, p.Provision(id, small, "").Want(http.StatusAccepted).Operation()) }
}

func probeStart(p platform, missed func() bool) func() {
	id, operation := p.NewID(), ""
	p.misses(missed, func() { operation = p.Provision(id, small, "").Want(http.StatusAccepted).Operation() })
	return func() {
		p.picksUp(broker.Key{Client: p.Name, InstanceID: id})
		p.made(id, operation)
	}
}

func probeSecretOfAPI(p platform, missed func() bool) func() {
	p.misses(missed, p.catalogIs200)
	return p.catalogIs200
}

func probeTick(p platform, missed func() bool) func() {
	id := p.NewID()
	operation := p.Provision(id, small, "").Want(http.StatusAccepted).Operation()
	p.misses(missed, func() {})
	return func() { p.made(id, operation) }
}

func probeDelete(p platform, missed func() bool) func() {
	id := p.Ready(small, "")
	operation := p.Deprovision(id, small).Want(http.StatusAccepted).Operation()
	p.misses(missed, func() {})
	return func() {
		p.afterwards(func(p platform) {
			p.Succeeds(at(id), operation)
			p.gone(id, small)
		})
	}
}

// probeUnbindAll deletes an instance that still has a binding.
func probeUnbindAll(p platform, missed func() bool) func() {
	id, binding := p.Bound(small)
	operation := p.Deprovision(id, small).Want(http.StatusAccepted).Operation()
	p.misses(missed, func() {})
	return p.unboundAndGone(id, binding, operation)
}

// probeUnbindAllOfRound leaves the delete to a round, which begins the unbind.
func probeUnbindAllOfRound(p platform, missed func() bool) func() {
	id, binding := p.Bound(small)
	o := p.order(startAction, id, fromAPI, 0, 0, refuse)
	operation := p.Deprovision(id, small).Want(http.StatusAccepted).Operation()
	p.s.gate.lift(o)
	p.picksUp(broker.Key{Client: p.Name, InstanceID: id})
	p.misses(missed, func() {})
	return p.unboundAndGone(id, binding, operation)
}

// unboundAndGone leaves it to the end to see that the unbind whose execution was not started, and then the delete, have
// ended well.
func (p platform) unboundAndGone(id, binding, operation string) func() {
	return func() {
		p.afterwards(func(p platform) {
			p.picksUp(broker.Key{Client: p.Name, InstanceID: id, BindingID: binding})
			p.Succeeds(at(id), operation)
			p.gone(id, small)
		})
	}
}

// missesInTime is misses for what takes its time to begin, and is not to begin again meanwhile.
func (p platform) missesInTime(missed func() bool, repeat func()) {
	p.t.Helper()
	p.misses(missed, func() {
		repeat()
		for n := 0; n < 20 && !missed(); n++ {
			p.Client.Clock.Pause(0)
		}
	})
}

func probeRound(p platform, missed func() bool) func() {
	p.missesInTime(missed, p.beginRound)
	return p.beginRound
}

func probeAudit(p platform, missed func() bool) func() {
	audit := func() { p.s.cloud.begin(p.t, p.s.outputs["JanitorFunctionName"], `{"task":"audit","due":true}`) }
	p.missesInTime(missed, audit)
	return audit
}

func probeDue(p platform, missed func() bool) func() {
	w := p.waits(small)
	p.missesInTime(missed, func() { p.picksUp(w.Key) })
	return func() {
		p.picksUp(w.Key)
		p.made(w.InstanceID, w.operation)
	}
}

// table is the stack's own, past the gate.
func (s *stack) table(t *testing.T) *dynamo.Store {
	t.Helper()
	made, err := dynamo.New(dynamo.Options{
		Config: aws.Config{Region: region, BaseEndpoint: new(s.standIn.URL()), Credentials: aws.CredentialsProviderFunc(credentials)},
		Table:  s.outputs["TableName"], Now: time.Now,
	})
	if err != nil {
		t.Fatal(err)
	}
	return made
}

// picksUp lets a round drive what runs on a record.
func (p platform) picksUp(key broker.Key) {
	p.t.Helper()
	p.due(key)
	p.janitor()
}

// due makes what runs on a record due, as if its beginning were over.
func (p platform) due(key broker.Key) {
	p.t.Helper()
	table := p.s.table(p.t)
	for {
		rec, err := table.Get(p.t.Context(), key)
		if err != nil {
			p.t.Fatal(err)
		}
		if rec.Lifecycle.Operation.ID == "" {
			return // it has ended
		}
		rec.Lifecycle.Operation.Due = time.Now().Add(-time.Minute)
		if _, err = table.Put(p.t.Context(), rec, rec.Revision); err == nil {
			break
		}
		if !errors.Is(err, broker.ErrConflict) {
			p.t.Fatal(err)
		}
	}
}

// A catalog too large for one item is stored in parts, which are read by a query and deleted one by one. Cloud
// Foundry's is small here, so that one is planted: what cannot be understood is fetched anew and replaced.

// plant stores it, and gives the functions a configuration that makes them look.
func (p platform) plant(adjust func(string) string) (restore func()) {
	p.t.Helper()
	table, good := p.s.table(p.t), p.s.configText(p.t)
	body := make([]byte, 1<<20)
	_, _ = rand.Read(body) // what does not shrink
	for {
		c, err := table.Catalog(p.t.Context(), p.Name)
		if err == nil {
			c.Body, c.Fetched = []byte(hex.EncodeToString(body)), time.Now()
			_, err = table.PutCatalog(p.t.Context(), c, c.Revision)
		}
		if err == nil {
			break
		}
		if !errors.Is(err, broker.ErrConflict) {
			p.t.Fatal(err)
		}
	}
	p.s.configure(p.t, adjust(good)+fmt.Sprintf("\n# planted for %s\n", p.NewID()))
	return func() { p.s.configure(p.t, good) }
}

func unchanged(text string) string { return text }

func probeCatalogOfAPI(p platform, missed func() bool) func() {
	p.misses(missed, func() {
		restore := p.plant(unchanged)
		defer restore()
		p.Eventually("it is read", func() bool { p.catalogIs200(); return missed() || p.replaced() })
	})
	return p.catalogIs200
}

// replaced reports whether somebody has put a good catalog in the place of the planted.
func (p platform) replaced() bool {
	c, err := p.s.table(p.t).Catalog(p.t.Context(), p.Name)
	return err == nil && len(c.Body) > 0 && c.Body[0] == '{'
}

// probeCatalogOfPoller keeps the api out, which would replace the catalog first: the create has no execution, and its
// poller is called by hand.
func probeCatalogOfPoller(p platform, missed func() bool) func() {
	made := map[string]string{}
	p.misses(missed, func() {
		id := p.NewID()
		o := p.order(startAction, id, fromAPI, 0, 0, refuse)
		made[id] = p.Provision(id, small, "").Want(http.StatusAccepted).Operation()
		p.s.gate.lift(o)
		restore := p.plant(unchanged)
		defer restore()
		reads := p.count(secretAction, "", fromPoller)
		p.Eventually("a poller reads the configuration", func() bool {
			p.poller(p.tick("nobody", "create-0"))
			return p.count(secretAction, "", fromPoller) > reads
		})
		p.poller(p.tick(id, made[id]))
	})
	return func() {
		for id, operation := range made {
			p.made(id, operation)
		}
	}
}

func probeCatalogOfJanitor(p platform, missed func() bool) func() {
	p.misses(missed, func() {
		restore := p.plant(func(text string) string {
			return strings.Replace(text, "- name: stormy", "- name: stormy\n    catalog_refresh: 1s", 1)
		})
		defer restore()
		p.missesInTime(func() bool { return missed() || p.replaced() }, p.beginRound)
	})
	return p.beginRound
}
