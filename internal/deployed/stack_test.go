package deployed

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/aws-sdk-go-v2/service/secretsmanager"
	"github.com/aws/aws-sdk-go-v2/service/sfn"
	sfntypes "github.com/aws/aws-sdk-go-v2/service/sfn/types"

	"github.com/ferry-broker/ferry/internal/osbtest"
	"github.com/ferry-broker/ferry/internal/standin"
)

const (
	// patience is how long a condition may take to come true on a loaded machine.
	patience = 60 * time.Second
	// brokerDelay is how long the simulator's asynchronous plans work.
	brokerDelay = time.Second
	// requestBudget is how long a synchronous bind is held.
	requestBudget = 10 * time.Second
	// looksEvery is how often rounds look that go on: as often as the configuration's pace allows at most.
	looksEvery = 2 * time.Second
)

// configuration is what an operator puts into the secret: three platforms, so that what one case disturbs is no other
// one's business.
const configuration = `
clients:
  - name: demo
    credentials: [{username: demo, password: demo-password-7f31}]
    cloud_foundry: {api: %[1]q, org: demo, client_id: ferry, client_secret: ferry}
    catalog: {rotatable: [postgres/small, postgres/async-bindings]}
  - name: calm
    credentials: [{username: calm, password: calm-password-90c2}]
    cloud_foundry: {api: %[1]q, org: ferry, client_id: ferry, client_secret: ferry}
  - name: stormy
    credentials: [{username: stormy, password: stormy-password-b5d8}]
    cloud_foundry: {api: %[1]q, org: ferry-b, client_id: ferry, client_secret: ferry}
polling: {first: 1s, max: %[3]s}
operations: {settle_after: 3s, request_budget: %[2]s}
`

// stack is the deployed broker and what it stands on.
type stack struct {
	shop *workshop
	name string
	// outputs are those of the template; resources maps logical names to physical ones.
	outputs, resources map[string]string
	cloud              *cloud
	standIn            *standin.Server
	simServer          *server
	gate               *gate
	http               *http.Client
	ledger             *ledger
	plans              map[string]osbtest.Plan
	newID              func() string
	deleted            bool
}

// deploy brings the stack up, stage by stage, as an operator does. Neither the linter nor the build needs anything that
// is deployed.
func deploy(t *testing.T) *stack {
	t.Helper()
	s := &stack{shop: newWorkshop(t), name: fmt.Sprintf("ferry-e2e-%d", os.Getpid()), http: newHTTP(), ledger: newLedger(), newID: osbtest.Numbered("id")}
	t.Cleanup(s.http.CloseIdleConnections)
	valid := beside(t, "sam validate --lint", func(t *testing.T) { s.shop.sam(t, "validate", "--lint") })
	built := beside(t, "sam build", func(t *testing.T) {
		s.shop.sam(t, "build", "--build-dir", s.shop.path("build"), "--parameter-overrides", "Architecture="+architectures[runtime.GOARCH])
	})
	stage(t, "start the stand-in for AWS", func() {
		s.standIn = s.shop.standIn(t)
		s.cloud = newCloud(s.standIn.URL())
		s.gate = newGate(t, s.standIn.URL())
		s.gate.guard(s.standIn.PID())
	})
	stage(t, "build and start the simulator", func() { s.simServer = s.shop.simulator(t) })
	valid(t)
	built(t)
	s.shop.env = append(s.shop.env, "AWS_ENDPOINT_URL="+s.standIn.URL())
	secret := s.putConfiguration(t)
	stage(t, "sam deploy", func() { s.samDeploy(t, secret, everythingSaid) })
	s.outputs, s.resources = s.look(t)
	t.Cleanup(func() { s.explain(t) })
	s.switchOnTTL(t)
	stage(t, "first catalogs", func() {
		for _, name := range []string{"demo", "calm", "stormy"} {
			s.plans = s.tenant(t, name).Catalog()
		}
	})
	return s
}

// beside runs a stage in a subtest beside the test. What it returns waits for the end, and ends the test when the stage
// has failed.
func beside(t *testing.T, name string, do func(*testing.T)) (wait func(*testing.T)) {
	t.Helper()
	done := make(chan bool, 1)
	go func() { done <- t.Run(name, func(t *testing.T) { stage(t, name, func() { do(t) }) }) }()
	return func(t *testing.T) {
		t.Helper()
		if !<-done {
			t.FailNow()
		}
	}
}

// putConfiguration is the one call that an operator makes before the first deployment.
func (s *stack) putConfiguration(t *testing.T) (arn string) {
	t.Helper()
	text := fmt.Sprintf(configuration, s.simServer.url, requestBudget, looksEvery)
	made, err := s.cloud.secrets.CreateSecret(t.Context(), &secretsmanager.CreateSecretInput{Name: new("ferry"), SecretString: &text})
	if err != nil {
		t.Fatal(err)
	}
	return *made.ARN
}

// anotherParameter checks that a parameter reaches the API function, which is called by an alias: SAM makes no new
// version for it.
func anotherParameter(t *testing.T, s *stack) {
	s.samDeploy(t, s.outputs["ConfigSecretArn"], "LogLevel=warn")
	for _, qualifier := range []string{"live", "$LATEST"} {
		if level := s.cloud.environment(t, s.outputs["ApiFunctionName"], qualifier)["FERRY_LOG_LEVEL"]; level != "warn" {
			t.Errorf("%s of the API function has the log level %q", qualifier, level)
		}
	}
}

// everythingSaid lets every function say all that it can say, for the search for secrets.
const everythingSaid = "LogLevel=debug"

func (s *stack) samDeploy(t *testing.T, secret string, more ...string) string {
	t.Helper()
	overrides := fmt.Sprintf("Architecture=%s Stage=local LocalEndpoint=%s ConfigSecretArn=%s %s",
		architectures[runtime.GOARCH], s.gate.URL(), secret, strings.Join(more, " "))
	return s.shop.sam(t, "deploy", "--template-file", s.shop.path("build", "template.yaml"),
		"--stack-name", s.name, "--parameter-overrides", overrides)
}

// described is a stack as CloudFormation describes it.
type described struct {
	Status  string `xml:"DescribeStacksResult>Stacks>member>StackStatus"`
	Outputs []struct {
		Key   string `xml:"OutputKey"`
		Value string `xml:"OutputValue"`
	} `xml:"DescribeStacksResult>Stacks>member>Outputs>member"`
}

// cloudFormation asks about the stack.
func (s *stack) cloudFormation(t *testing.T, action string, into any) error {
	t.Helper()
	return s.cloud.query(t, "cloudformation", "2010-05-15", action, url.Values{"StackName": {s.name}}, into)
}

// look reads outputs and resources.
func (s *stack) look(t *testing.T) (outputs, resources map[string]string) {
	t.Helper()
	var about described
	if err := s.cloudFormation(t, "DescribeStacks", &about); err != nil {
		t.Fatal(err)
	}
	var has struct {
		Resources []struct {
			Logical  string `xml:"LogicalResourceId"`
			Physical string `xml:"PhysicalResourceId"`
		} `xml:"DescribeStackResourcesResult>StackResources>member"`
	}
	if err := s.cloudFormation(t, "DescribeStackResources", &has); err != nil {
		t.Fatal(err)
	}
	outputs, resources = map[string]string{}, map[string]string{}
	for _, o := range about.Outputs {
		outputs[o.Key] = o.Value
	}
	for _, r := range has.Resources {
		resources[r.Logical] = r.Physical
	}
	for _, name := range []string{"BrokerUrl", "TableName", "StateMachineArn", "ApiFunctionName", "PollerFunctionName", "JanitorFunctionName"} {
		if outputs[name] == "" {
			t.Fatalf("the stack has no output %s: %v", name, outputs)
		}
	}
	return outputs, resources
}

// switchOnTTL does what the stand-in's CloudFormation leaves out.
func (s *stack) switchOnTTL(t *testing.T) {
	t.Helper()
	_, err := s.cloud.dynamodb.UpdateTimeToLive(t.Context(), &dynamodb.UpdateTimeToLiveInput{
		TableName:               new(s.outputs["TableName"]),
		TimeToLiveSpecification: &types.TimeToLiveSpecification{AttributeName: new("expires_at"), Enabled: new(true)},
	})
	if err != nil {
		t.Fatal(err)
	}
}

// deployedAgain checks that a deployment without a change succeeds and leaves all as it is.
func deployedAgain(t *testing.T, s *stack) {
	if said := s.samDeploy(t, s.outputs["ConfigSecretArn"], everythingSaid); !strings.Contains(said, "No changes to deploy") {
		t.Errorf("a deployment without a change says\n%s", said)
	}
	outputs, resources := s.look(t)
	same(t, "outputs after a deployment without a change", outputs, s.outputs)
	same(t, "resources after a deployment without a change", resources, s.resources)
}

// BrokerURL is what a platform registers.
func (s *stack) BrokerURL() string { return s.outputs["BrokerUrl"] }

// programs returns the programs of this test's folder that run, by process id. It needs /proc; elsewhere nothing is
// known.
func (w *workshop) programs(t *testing.T) map[string]string {
	t.Helper()
	running := map[string]string{}
	links, _ := filepath.Glob("/proc/[0-9]*/exe")
	for _, link := range links {
		if program, err := os.Readlink(link); err == nil && strings.HasPrefix(program, w.dir) {
			running[filepath.Base(filepath.Dir(link))] = program
		}
	}
	return running
}

// delete takes the stack down as an operator does, and looks at what is left: the table and the operator's secret, and
// nothing else.
func (s *stack) delete(t *testing.T) {
	t.Helper()
	items := len(s.items(t))
	s.deleted = true
	s.shop.run(t, s.shop.venv("bin", "sam"), "delete", "--stack-name", s.name, "--region", region, "--no-prompts")
	var about described
	if err := s.cloudFormation(t, "DescribeStacks", &about); err == nil && about.Status != "DELETE_COMPLETE" {
		t.Errorf("the stack is still there: %s", about.Status)
	}
	for _, name := range []string{"ApiFunctionName", "PollerFunctionName", "JanitorFunctionName"} {
		status, _, _ := s.cloud.call(t, "lambda", s.cloud.request(t, http.MethodGet, "/2015-03-31/functions/"+url.PathEscape(s.outputs[name]), nil), nil)
		if status != http.StatusNotFound {
			t.Errorf("the function %s: %d, want 404", s.outputs[name], status)
		}
	}
	if healthy(s.BrokerURL() + "/v2/catalog") {
		t.Error("the API still answers")
	}
	_, err := s.cloud.sfn.DescribeStateMachine(t.Context(), &sfn.DescribeStateMachineInput{StateMachineArn: new(s.outputs["StateMachineArn"])})
	if _, gone := errors.AsType[*sfntypes.StateMachineDoesNotExist](err); !gone {
		t.Errorf("the state machine: %v, want that it is gone", err)
	}
	s.tableIsKept(t, items)
}

func (s *stack) tableIsKept(t *testing.T, items int) {
	t.Helper()
	if got := len(s.items(t)); got != items || items == 0 {
		t.Errorf("the table has %d items, want the %d from before", got, items)
	}
	table, err := s.cloud.dynamodb.DescribeTable(t.Context(), &dynamodb.DescribeTableInput{TableName: new(s.outputs["TableName"])})
	if err != nil || table.Table.TableStatus != types.TableStatusActive {
		t.Errorf("the table: %v, want that it is active", err)
	}
}

// end stops the processes and checks that nothing of theirs runs on.
func (s *stack) end(t *testing.T) {
	t.Helper()
	if running := s.shop.programs(t); runtime.GOOS == "linux" && len(running) == 0 {
		t.Error("no program of this test is found while they run: can the search find them?")
	}
	for name, stop := range map[string]func() error{"the stand-in": s.standIn.Stop, "the simulator": s.simServer.stop} {
		if err := stop(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	eventually(t, "no process is left", func() bool { return len(s.shop.programs(t)) == 0 })
}
