package lifecycle_test

import (
	"flag"
	"strings"
	"testing"

	lc "github.com/ferry-broker/ferry/internal/lifecycle"
)

var seedFlag = flag.Uint64("lifecycle.seed", 0, "play only the schedule of this seed, and print it")

// schedules is how many each property test plays.
const schedules = 3000

// play plays the schedule of a seed in a fresh world.
func play(n next, seed uint64, bindings, tracing bool) *world {
	w := newWorld(newSeeded(seed), n, bindings, tracing)
	w.play()
	return w
}

// TestLaws plays schedules that chance wrote. A seed that breaks a law is printed with
// its story, and can be played again with -lifecycle.seed.
func TestLaws(t *testing.T) {
	t.Parallel()
	for name, bindings := range map[string]bool{"instances": false, "bindings": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if *seedFlag != 0 {
				w := play(lc.Next, *seedFlag, bindings, true)
				t.Log(story(w))
				if w.broken != nil {
					t.Fail()
				}
				return
			}
			seen := map[string]int{}
			for seed := uint64(1); seed <= schedules; seed++ {
				w := play(lc.Next, seed, bindings, false)
				w.count(seen)
				if w.broken != nil {
					t.Fatalf("seed %d breaks %s\n%s", seed, w.broken.law, story(play(lc.Next, seed, bindings, true)))
				}
			}
			t.Log(seen)
			for _, what := range endings() {
				if seen[what] < schedules/100 {
					t.Errorf("%d schedules ended an operation as %q only %d times: the model has become too tame", schedules, what, seen[what])
				}
			}
		})
	}
}

func story(w *world) string { return strings.Join(w.trace, "\n") }

// endings are the ways in which operations end that schedules must reach often.
func endings() []string {
	return []string{
		"create succeeded", "create failed", "create superseded", "create overdue",
		"update succeeded", "update failed", "update superseded", "delete succeeded", "delete failed",
	}
}

// count adds up how the operations of a world ended.
func (w *world) count(seen map[string]int) {
	for _, e := range w.results {
		seen[string(e.Verb)+" "+e.how()]++
	}
}

func (e ending) how() string {
	switch {
	case e.Succeeded:
		return "succeeded"
	case e.superseded:
		return "superseded"
	case e.overdue:
		return "overdue"
	default:
		return "failed"
	}
}
