package lambda

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ferry-broker/ferry/internal/broker"
	"github.com/ferry-broker/ferry/internal/lifecycle"
)

// TestManyOverdueOperationsAreRestartedInTwoRounds on a table of the stand-in, those of a
// client with few among the first. FERRY_OVERDUE says how many: 10,000 take two rounds of
// 50 seconds there, so that fewer have to do where nobody waits for it.
func TestManyOverdueOperationsAreRestartedInTwoRounds(t *testing.T) {
	t.Parallel()
	many := 500
	if text, ok := os.LookupEnv("FERRY_OVERDUE"); ok {
		var err error
		if many, err = strconv.Atoi(text); err != nil {
			t.Fatal(err)
		}
	}
	r := newUpgradeRig(t)
	overdue(t, r, "busy", many, time.Hour)
	overdue(t, r, "calm", 1, 5*time.Minute)
	var starts []broker.Start
	for round := range 2 {
		began := time.Now()
		if err := r.janitor.Handle(t.Context(), Schedule{Task: TaskRound}); err != nil {
			t.Fatalf("%v; the log: %.4000s", err, r.log)
		}
		some := r.machine.take()
		t.Logf("round %d: %d restarted in %v", round+1, len(some), time.Since(began))
		starts = append(starts, some...)
	}
	names := map[broker.Key]bool{}
	for _, s := range starts {
		names[s.Key] = true
	}
	if len(names) != many+1 || len(starts) != len(names) {
		t.Errorf("%d starts of %d operations, want %d of as many", len(starts), len(names), many+1)
	}
	early := starts[:min(len(starts), 2*restartWorkers)]
	if !strings.Contains(fmt.Sprint(early), "calm") {
		t.Errorf("the client with one operation was not among the first: %v", early)
	}
}

// overdue stores creates of a client whose drivers got lost.
func overdue(t *testing.T, r *upgradeRig, client string, n int, age time.Duration) {
	t.Helper()
	due := r.now().Add(-age)
	next := make(chan int, n)
	for i := range n {
		next <- i
	}
	close(next)
	var writers sync.WaitGroup
	for range 8 {
		writers.Go(func() {
			for i := range next {
				key := broker.Key{Client: client, InstanceID: fmt.Sprintf("i-%05d", i)}
				_, err := r.broker.Put(t.Context(), broker.Record{Key: key, Lifecycle: lifecycle.Record{
					Kind: key.Kind(), State: lifecycle.Creating, Seq: 1,
					Operation: lifecycle.Operation{ID: "create-" + key.InstanceID, Verb: lifecycle.Create, Due: due.Add(time.Duration(i) * time.Millisecond)},
				}}, 0)
				if err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	writers.Wait()
}
