package deployed

import (
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/aws-sdk-go-v2/service/secretsmanager"

	"github.com/ferry-broker/ferry/internal/standin"
)

const (
	// patience is how long a condition may take to come true on a loaded machine.
	patience = 60 * time.Second
	// brokerDelay is how long the simulator's asynchronous plans work.
	brokerDelay = time.Second
	// requestBudget is how long a synchronous bind is held.
	requestBudget = 10 * time.Second
)

// configuration is what an operator puts into the secret: three platforms, so that
// what one case disturbs is no other one's business.
const configuration = `
clients:
  - name: demo
    credentials: [{username: demo, password: demo-password-7f31}]
    cloud_foundry: {api: %[1]q, org: demo, client_id: ferry, client_secret: ferry}
  - name: calm
    credentials: [{username: calm, password: calm-password-90c2}]
    cloud_foundry: {api: %[1]q, org: ferry, client_id: ferry, client_secret: ferry}
  - name: stormy
    credentials: [{username: stormy, password: stormy-password-b5d8}]
    cloud_foundry: {api: %[1]q, org: ferry-b, client_id: ferry, client_secret: ferry}
polling: {first: 1s, max: 2s}
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
	sim                *simulator
	gate               *gate
	http               *http.Client
	ledger             *ledger
	plans              map[string]plan
	ids                atomic.Int64
	deleted            bool
}

// deploy brings the stack up, stage by stage, as an operator does.
func deploy(t *testing.T) *stack {
	t.Helper()
	s := &stack{shop: newWorkshop(t), name: fmt.Sprintf("ferry-e2e-%d", os.Getpid()), http: newHTTP(), ledger: newLedger()}
	t.Cleanup(s.http.CloseIdleConnections)
	build := s.shop.path("build")
	stage(t, "sam validate --lint", func() { s.shop.sam(t, "validate", "--lint") })
	stage(t, "sam build", func() {
		s.shop.sam(t, "build", "--build-dir", build, "--parameter-overrides", "Architecture="+architectures[runtime.GOARCH])
	})
	stage(t, "start the stand-in for AWS", func() {
		s.standIn = s.shop.standIn(t)
		s.shop.env = append(s.shop.env, "AWS_ENDPOINT_URL="+s.standIn.URL())
		s.cloud = newCloud(s.standIn.URL())
		s.gate = newGate(t, s.standIn.URL())
		s.gate.guard(s.standIn.PID())
	})
	stage(t, "build and start the simulator", func() {
		s.simServer = s.shop.simulator(t)
		s.sim = &simulator{url: s.simServer.url}
	})
	secret := s.putConfiguration(t)
	stage(t, "sam deploy", func() { s.samDeploy(t, secret) })
	s.look(t)
	t.Cleanup(func() { s.explain(t) })
	s.switchOnTTL(t)
	stage(t, "sam deploy again, which changes nothing", func() { s.deployAgain(t, secret) })
	stage(t, "sam deploy with another parameter", func() { s.deployParameter(t, secret) })
	stage(t, "first catalogs", func() { s.plans = s.firstCatalogs(t) })
	return s
}

// putConfiguration is the one call that an operator makes before the first deployment.
func (s *stack) putConfiguration(t *testing.T) (arn string) {
	t.Helper()
	text := fmt.Sprintf(configuration, s.sim.url, requestBudget)
	made, err := s.cloud.secrets.CreateSecret(t.Context(), &secretsmanager.CreateSecretInput{Name: new("ferry"), SecretString: &text})
	if err != nil {
		t.Fatal(err)
	}
	return *made.ARN
}

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
func (s *stack) look(t *testing.T) {
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
	s.outputs, s.resources = map[string]string{}, map[string]string{}
	for _, o := range about.Outputs {
		s.outputs[o.Key] = o.Value
	}
	for _, r := range has.Resources {
		s.resources[r.Logical] = r.Physical
	}
	for _, name := range []string{"BrokerUrl", "TableName", "StateMachineArn", "ApiFunctionName", "PollerFunctionName", "JanitorFunctionName"} {
		if s.outputs[name] == "" {
			t.Fatalf("the stack has no output %s: %v", name, s.outputs)
		}
	}
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

// deployAgain checks that a deployment without a change succeeds and leaves all as it is.
func (s *stack) deployAgain(t *testing.T, secret string) {
	t.Helper()
	outputs, resources := s.outputs, s.resources
	if said := s.samDeploy(t, secret); !strings.Contains(said, "No changes to deploy") {
		t.Errorf("a deployment without a change says\n%s", said)
	}
	s.look(t)
	same(t, "outputs after a deployment without a change", s.outputs, outputs)
	same(t, "resources after a deployment without a change", s.resources, resources)
}

// BrokerURL is what a platform registers.
func (s *stack) BrokerURL() string { return s.outputs["BrokerUrl"] }

// id returns an id that nobody has used.
func (s *stack) id() string { return fmt.Sprintf("id-%d", s.ids.Add(1)) }

// programs returns the programs of this test's folder that run, by process id. It
// needs /proc; elsewhere nothing is known.
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
