package deployed

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/aws-sdk-go-v2/service/sfn"
	sfntypes "github.com/aws/aws-sdk-go-v2/service/sfn/types"

	"github.com/ferry-broker/ferry/internal/osbtest"
)

// secretWords are what must be found nowhere: what platforms sent, what they got, and what the configuration holds.
func (s *stack) secretWords(t *testing.T) []string {
	t.Helper()
	handedOut := s.ledger.secretWords()
	if len(handedOut) < 3 {
		t.Errorf("only %d secrets were handed out: is there anything to search for?", len(handedOut))
	}
	return append(handedOut, osbtest.Secret, "demo-password-7f31", "calm-password-90c2", "stormy-password-b5d8")
}

// found returns the first of the words in the text, "" for none.
func found(text string, words []string) string {
	for _, word := range words {
		if strings.Contains(text, word) {
			return word
		}
	}
	return ""
}

func quietLogs(t *testing.T, s *stack) {
	ours := 0
	for _, l := range s.functionLogs(t) {
		level, ok := l.level()
		if ok {
			ours++
		}
		if ok && level > slog.LevelInfo || strings.Contains(l.Message, "panic") || strings.Contains(l.Message, "Runtime.ExitError") {
			t.Errorf("%s: %s", l.Group, l.Message)
		}
	}
	if ours < 100 {
		t.Errorf("the functions wrote %d lines: where do their logs go?", ours)
	}
	t.Logf("%d lines of the functions, none above INFO", ours)
}

func secretsInLogs(t *testing.T, s *stack) {
	words := append(s.secretWords(t), identityMark)
	lines := s.logs(t, "ApiLogs", "PollerLogs", "JanitorLogs", "AccessLogs", "OperationLogs")
	for _, l := range lines {
		if word := found(l.Message, words); word != "" {
			t.Errorf("%s holds %q: %s", l.Group, word, l.Message)
		}
	}
	t.Logf("searched %d lines for %d secrets", len(lines), len(words))
}

// executions returns all of the state machine's.
func (s *stack) executions(t *testing.T) map[string]sfntypes.ExecutionListItem {
	t.Helper()
	all := map[string]sfntypes.ExecutionListItem{}
	pages := sfn.NewListExecutionsPaginator(s.cloud.sfn, &sfn.ListExecutionsInput{StateMachineArn: new(s.outputs["StateMachineArn"]), MaxResults: 1000})
	for pages.HasMorePages() {
		page, err := pages.NextPage(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range page.Executions {
			all[*e.Name] = e
		}
	}
	return all
}

func drivenByExecutions(t *testing.T, s *stack) {
	operations := s.ledger.allOperations()
	var executions map[string]sfntypes.ExecutionListItem
	eventually(t, "all executions end", func() bool {
		executions = s.executions(t)
		for _, e := range executions {
			if e.Status == sfntypes.ExecutionStatusRunning {
				return false
			}
		}
		return true
	})
	for _, op := range operations {
		if e, ok := executions[op]; !ok || e.Status != sfntypes.ExecutionStatusSucceeded {
			t.Errorf("the execution of %s is %q, want SUCCEEDED", op, e.Status)
		}
	}
	for name, e := range executions {
		if e.Status != sfntypes.ExecutionStatusSucceeded {
			t.Errorf("the execution %s is %q, want SUCCEEDED", name, e.Status)
		}
	}
	t.Logf("%d operations, %d executions", len(operations), len(executions))
}

// tick is all that an execution may carry.
type tick struct {
	Client      string `json:"client"`
	InstanceID  string `json:"instance_id"`
	BindingID   string `json:"binding_id"`
	Operation   string `json:"operation"`
	WaitSeconds int64  `json:"wait_seconds"`
	Turn        int    `json:"turn"`
	Done        bool   `json:"done"`
	Swept       bool   `json:"swept"`
	HandedOver  bool   `json:"handed_over"`
}

func secretsInExecutions(t *testing.T, s *stack) {
	words, events := s.secretWords(t), 0
	executions := s.executions(t)
	for name, e := range executions {
		about, err := s.cloud.sfn.DescribeExecution(t.Context(), &sfn.DescribeExecutionInput{ExecutionArn: e.ExecutionArn})
		if err != nil {
			t.Fatal(err)
		}
		strict := json.NewDecoder(strings.NewReader(*about.Input))
		strict.DisallowUnknownFields()
		var in tick
		if err := strict.Decode(&in); err != nil || !strings.HasPrefix(name, in.Operation) || in.InstanceID == "" {
			t.Errorf("the execution %s has the input %s (%v)", name, *about.Input, err)
		}
		pages := sfn.NewGetExecutionHistoryPaginator(s.cloud.sfn, &sfn.GetExecutionHistoryInput{ExecutionArn: e.ExecutionArn, MaxResults: 1000})
		for pages.HasMorePages() {
			page, err := pages.NextPage(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			text, err := json.Marshal(page.Events)
			if err != nil {
				t.Fatal(err)
			}
			if word := found(string(text), words); word != "" {
				t.Errorf("the history of %s holds %q", name, word)
			}
			events += len(page.Events)
		}
	}
	if len(executions) == 0 || events < len(executions) {
		t.Errorf("%d executions with %d events: is there anything to search?", len(executions), events)
	}
	t.Logf("searched %d executions with %d events", len(executions), events)
}

// items returns the whole table, each item as one text.
func (s *stack) items(t *testing.T) []string {
	t.Helper()
	var all []string
	pages := dynamodb.NewScanPaginator(s.cloud.dynamodb, &dynamodb.ScanInput{TableName: new(s.outputs["TableName"]), ConsistentRead: new(true)})
	for pages.HasMorePages() {
		page, err := pages.NextPage(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, item := range page.Items {
			all = append(all, flat(item))
		}
	}
	return all
}

// flat writes an item's attributes one after the other, binary ones as they are.
func flat(item map[string]types.AttributeValue) string {
	var out bytes.Buffer
	for name, value := range item {
		switch v := value.(type) {
		case *types.AttributeValueMemberB:
			_, _ = fmt.Fprintf(&out, "%s=%s\n", name, v.Value)
		case *types.AttributeValueMemberS:
			_, _ = fmt.Fprintf(&out, "%s=%s\n", name, v.Value)
		default:
			_, _ = fmt.Fprintf(&out, "%s=%v\n", name, value)
		}
	}
	return out.String()
}

func (s *stack) tableHolds(t *testing.T, word string) bool {
	t.Helper()
	for _, item := range s.items(t) {
		if strings.Contains(item, word) {
			return true
		}
	}
	return false
}

func secretsInTable(t *testing.T, s *stack) {
	words := s.secretWords(t)
	items := s.items(t)
	for _, item := range items {
		if word := found(item, words); word != "" {
			t.Errorf("an item holds %q: %.600s", word, item)
		}
	}
	if !s.tableHolds(t, "demo#id-") {
		t.Error("no key of an instance was found: can the search find anything?")
	}
	t.Logf("searched %d items", len(items))
}

// identityMark is the name of the user whom every request names. Records keep it, logs do not.
const identityMark = "marked-originator-77e0"

// ledger keeps what platforms were told, for the searches at the end.
type ledger struct {
	mu         sync.Mutex
	operations map[string]bool
	secrets    map[string]bool
}

func newLedger() *ledger {
	return &ledger{operations: map[string]bool{}, secrets: map[string]bool{}}
}

// note keeps the operation and the secrets of an answer.
func (l *ledger) note(a osbtest.Answer) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if op := a.Operation(); op != "" {
		l.operations[op] = true
	}
	var c struct{ URI, Password string } // the user's name is the key's GUID, which is no secret
	if json.Unmarshal(a.Fields["credentials"], &c) == nil && c.Password != "" {
		l.secrets[c.URI], l.secrets[c.Password] = true, true
	}
}

// secretWords are all secrets that were handed out.
func (l *ledger) secretWords() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Sorted(maps.Keys(l.secrets))
}

// allOperations are those that platforms were told.
func (l *ledger) allOperations() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Sorted(maps.Keys(l.operations))
}
