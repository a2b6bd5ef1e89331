package deployed

import (
	"errors"
	"net/http"
	"net/url"
	"runtime"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/aws-sdk-go-v2/service/sfn"
	sfntypes "github.com/aws/aws-sdk-go-v2/service/sfn/types"
)

// delete takes the stack down as an operator does, and looks at what is left: the
// table and the operator's secret, and nothing else.
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
