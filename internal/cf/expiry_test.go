package cf_test

import (
	"fmt"
	"net/http"
	"sync"
	"testing"

	"github.com/ferry-broker/ferry/internal/broker"
	"github.com/ferry-broker/ferry/internal/lifecycle"
)

// TestTokensExpireUnderLoad withdraws all tokens after each success while several callers work. A call may be told
// "busy" when its second token was withdrawn too; it never becomes unknown, and none makes two instances.
func TestTokensExpireUnderLoad(t *testing.T) {
	t.Parallel()
	const callers, each = 8, 12
	api := simulated(t, 0)
	b := open(t, ferryConfig(api))
	plan := plans(t, b)["postgres/small"]
	name := func(caller, i int) string { return fmt.Sprintf("i-%d-%d", caller, i) }
	var group sync.WaitGroup
	for caller := range callers {
		group.Go(func() {
			for i := range each {
				createUnderFire(t, b, plan, name(caller, i), callers*each)
				expireTokens(t, api)
			}
		})
	}
	group.Wait()
	for n := range callers * each {
		id := name(n/each, n%each)
		if look, err := b.FindInstances(t.Context(), id); err != nil || len(look.Rows) != 1 {
			t.Errorf("%s: %d rows, %v", id, len(look.Rows), err)
		}
	}
}

func expireTokens(t *testing.T, api string) {
	answer, err := fresh().Post(api+"/__sim/tokens/expire", "application/json", http.NoBody)
	if err != nil {
		t.Error(err)
		return
	}
	_ = answer.Body.Close()
}

// createUnderFire creates until the create is accepted. Each withdrawal can make one of its calls busy at most.
func createUnderFire(t *testing.T, b broker.Backend, plan, name string, withdrawals int) {
	for range withdrawals + 1 {
		answer, err := b.CreateInstance(t.Context(), broker.InstanceCall{
			Name: name, Offering: "postgres", PlanGUID: plan,
			Marks: broker.Marks{Client: "suite", Operation: "create-" + name, Seq: 1},
		})
		switch answer.Reply {
		case lifecycle.ReplyAccepted:
			return
		case lifecycle.ReplyBusy:
		default:
			t.Errorf("%s: %+v, %v", name, answer, err)
			return
		}
	}
	t.Errorf("%s was never accepted", name)
}
