package lambda

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-lambda-go/events"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/ferry-broker/ferry/internal/broker"
	"github.com/ferry-broker/ferry/internal/dynamo"
	"github.com/ferry-broker/ferry/internal/sfn"
)

// upgradeRig is a rig over a table of the stand-in, for items that another wrote.
type upgradeRig struct {
	*rig
	client *dynamodb.Client
	name   string
	broker broker.Store
}

var upgradeTables atomic.Int64

func newUpgradeRig(t *testing.T) *upgradeRig {
	t.Helper()
	config := aws.Config{
		Region: "us-east-1", BaseEndpoint: aws.String(cloud.URL(t)),
		Credentials: aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
			return aws.Credentials{AccessKeyID: "test", SecretAccessKey: "test"}, nil
		}),
	}
	r := &upgradeRig{rig: newRig(t), client: dynamodb.NewFromConfig(config), name: fmt.Sprintf("ferry-upgrade-%d", upgradeTables.Add(1))}
	_, err := r.client.CreateTable(t.Context(), dynamo.Table(r.name))
	if _, made := errors.AsType[*types.ResourceInUseException](err); err != nil && !made {
		t.Fatal(err)
	}
	s, err := dynamo.New(dynamo.Options{Config: config, Table: r.name, Now: r.now})
	if err != nil {
		t.Fatal(err)
	}
	r.broker = s
	for _, c := range []*core{r.api.core, r.poller.core, r.janitor.core} {
		c.parts.Store, c.audits = s, s
	}
	r.poller.sleep = atOnce
	return r
}

// atOnce has the poller do one tick a turn.
func atOnce(context.Context, time.Duration) error { return context.DeadlineExceeded }

// load puts a version's items into the table and moves the clock to shortly after the
// operation began. Cloud Foundry has what it had then, but for what comes late.
func (r *upgradeRig) load(t *testing.T, version string, p past) broker.Record {
	t.Helper()
	items := r.items(t, version)
	r.put(t, items...)
	r.goTo(t, items)
	rec := r.get(t, p.key)
	if p.instance && !p.late {
		r.found(t, items, p, rec)
	}
	return rec
}

// found plants what an older version made in Cloud Foundry. The GUID is the
// simulator's, so the items are told of it.
func (r *upgradeRig) found(t *testing.T, items []map[string]types.AttributeValue, p past, rec broker.Record) {
	t.Helper()
	instance := r.get(t, instanceKey)
	row := map[string]any{
		"org": "demo", "space": "postgres", "offering": "postgres", "plan": "small", "name": instanceKey.InstanceID,
		"labels": map[string]string{"ferry-client": "demo"}, "annotations": marks(instance),
	}
	if p.updated { // Cloud Foundry writes the mark and the plan together
		row["plan"] = "large"
		row["annotations"].(map[string]string)["ferry-update"] = instance.Lifecycle.Operation.ID
		row["last_operation"] = map[string]string{"type": "update", "state": "succeeded"}
	}
	if p.keyed {
		row["keys"] = []any{map[string]any{
			"name": bindingKey.BindingID, "labels": map[string]string{"ferry-client": "demo"}, "annotations": marks(rec),
		}}
	}
	body, err := json.Marshal(row)
	if err != nil {
		t.Fatal(err)
	}
	var planted struct{ GUID string }
	if err := json.Unmarshal(r.control(t, "instances", string(body)), &planted); err != nil {
		t.Fatal(err)
	}
	old := instance.Lifecycle.CFGUID
	if old == "" {
		return
	}
	for _, it := range items {
		if body, ok := it["body"].(*types.AttributeValueMemberS); ok {
			it["body"] = &types.AttributeValueMemberS{Value: strings.ReplaceAll(body.Value, old, planted.GUID)}
		}
	}
	r.put(t, items...)
}

// marks are the annotations of what a record's create made.
func marks(r broker.Record) map[string]string {
	return map[string]string{"ferry-operation": r.Lifecycle.CreateOp.ID, "ferry-seq": fmt.Sprint(r.Lifecycle.CreateOp.Seq)}
}

func (r *upgradeRig) get(t *testing.T, key broker.Key) broker.Record {
	t.Helper()
	rec, err := r.broker.Get(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	return rec
}

// goTo moves the clock to one second after the latest operation of the items began.
func (r *upgradeRig) goTo(t *testing.T, items []map[string]types.AttributeValue) {
	t.Helper()
	var latest time.Time
	for _, it := range items {
		var body struct {
			Lifecycle struct {
				Operation struct{ Started time.Time }
			}
		}
		if text, ok := it["body"].(*types.AttributeValueMemberS); ok {
			if err := json.Unmarshal([]byte(text.Value), &body); err != nil {
				t.Fatal(err)
			}
		}
		if began := body.Lifecycle.Operation.Started; began.After(latest) {
			latest = began
		}
	}
	if latest.IsZero() {
		t.Fatal("no item tells when it was written")
	}
	r.pass(latest.Add(time.Second).Sub(r.now()))
}

// run does what the state machine does with an execution, without its waits.
func (r *upgradeRig) run(t *testing.T, tick sfn.Tick) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); !tick.Done; {
		if time.Now().After(deadline) {
			t.Fatalf("it goes on: %+v; the log: %s", tick, r.log)
		}
		tick = r.turn(t, tick)
	}
	r.drive(t) // what it started itself
}

// turn is one turn of an execution: the task, and the wait behind it.
func (r *upgradeRig) turn(t *testing.T, tick sfn.Tick) sfn.Tick {
	t.Helper()
	next, err := r.poller.Handle(t.Context(), tick)
	if err != nil || next.Turn != tick.Turn+1 || !next.Done && next.WaitSeconds < 1 {
		t.Fatalf("after %+v comes %+v, %v; the log: %s", tick, next, err, r.log)
	}
	r.pass(time.Duration(next.WaitSeconds) * time.Second)
	return next
}

// tick lets the poller do one tick of what was started last, for fixtures.
func (r *upgradeRig) tick(t *testing.T) {
	t.Helper()
	starts := r.machine.take()
	if _, err := r.poller.Handle(t.Context(), sfn.NewTick(starts[len(starts)-1])); err != nil {
		t.Fatal(err)
	}
	r.machine.starts = starts
}

func (r *upgradeRig) sendAsync(t *testing.T, event string) { r.sendQuery(t, event, true) }

// sendQuery sends an event, with accepts_incomplete where it is asked for.
func (r *upgradeRig) sendQuery(t *testing.T, event string, async bool) events.APIGatewayProxyResponse {
	t.Helper()
	request := read[events.APIGatewayProxyRequest](t, event)
	if async {
		if request.QueryStringParameters == nil {
			request.QueryStringParameters, request.MultiValueQueryStringParameters = map[string]string{}, map[string][]string{}
		}
		request.QueryStringParameters["accepts_incomplete"] = "true"
		request.MultiValueQueryStringParameters["accepts_incomplete"] = []string{"true"}
	}
	answer, err := r.api.Handle(t.Context(), request)
	if err != nil {
		t.Fatal(err)
	}
	return answer
}

// control calls the simulator's control.
func (r *upgradeRig) control(t *testing.T, what, body string) []byte {
	t.Helper()
	answer, err := fresh().Post(r.sim+"/__sim/"+what, "application/json", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = answer.Body.Close() }()
	text, err := io.ReadAll(answer.Body)
	if err != nil || answer.StatusCode >= 300 {
		t.Fatalf("%s: %d %s, %v", what, answer.StatusCode, text, err)
	}
	return text
}

// asked counts what the backing broker was asked to do.
func (r *upgradeRig) asked(t *testing.T) map[string]int {
	t.Helper()
	answer, err := fresh().Get(r.sim + "/__sim/state")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = answer.Body.Close() }()
	var state struct {
		BrokerCalls []struct {
			Operation string
			Count     int
		} `json:"broker_calls"`
	}
	if err := json.NewDecoder(answer.Body).Decode(&state); err != nil {
		t.Fatal(err)
	}
	var asked map[string]int
	for _, c := range state.BrokerCalls {
		if asked == nil {
			asked = map[string]int{}
		}
		asked[c.Operation] += c.Count
	}
	return asked
}

func (r *upgradeRig) put(t *testing.T, items ...map[string]types.AttributeValue) {
	t.Helper()
	for _, it := range items {
		if _, err := r.client.PutItem(t.Context(), &dynamodb.PutItemInput{TableName: &r.name, Item: it}); err != nil {
			t.Fatal(err)
		}
	}
}

// stored returns the item of a record as it is in the table.
func (r *upgradeRig) stored(t *testing.T, key broker.Key) map[string]types.AttributeValue {
	t.Helper()
	for _, it := range r.scan(t) {
		pk, sk := it["pk"].(*types.AttributeValueMemberB), it["sk"].(*types.AttributeValueMemberB)
		if string(pk.Value) == key.Client+"#"+key.InstanceID && string(sk.Value) == "instance" {
			return it
		}
	}
	t.Fatalf("no item of %v", key)
	return nil
}

func (r *upgradeRig) scan(t *testing.T) []map[string]types.AttributeValue {
	t.Helper()
	out, err := r.client.Scan(t.Context(), &dynamodb.ScanInput{TableName: &r.name, ConsistentRead: aws.Bool(true)})
	if err != nil {
		t.Fatal(err)
	}
	return out.Items
}

// fresh is a client whose connections nobody else closes: a test server that stops closes
// the idle ones of http.DefaultTransport, whoever is about to use them.
func fresh() *http.Client {
	return &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
}
