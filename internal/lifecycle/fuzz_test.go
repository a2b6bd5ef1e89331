package lifecycle_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	lc "github.com/ferry-broker/ferry/internal/lifecycle"
)

// FuzzLifecycle plays the schedule that the bytes write, and checks the laws. The first byte says whether there is a
// binding; when the bytes are used up, a fair schedule brings everything to rest.
func FuzzLifecycle(f *testing.F) {
	f.Fuzz(func(t *testing.T, schedule []byte) {
		if len(schedule) > 2000 {
			return
		}
		if w := playBytes(lc.Next, schedule, false); w.broken != nil {
			t.Fatalf("breaks %s\n%s", w.broken.law, story(playBytes(lc.Next, schedule, true)))
		}
	})
}

func playBytes(n next, schedule []byte, tracing bool) *world {
	bindings := len(schedule) > 0 && schedule[0]%2 == 1
	w := newWorld(&scripted{bytes: schedule[min(1, len(schedule)):]}, n, bindings, tracing)
	w.play()
	return w
}

const corpus = "testdata/fuzz/FuzzLifecycle"

// TestCorpus: the fuzzer begins with schedules that matter. Each is named after a safeguard of sabotage_test.go, and
// breaks its law when that is turned off; with -update they are written anew.
func TestCorpus(t *testing.T) {
	t.Parallel()
	for name, s := range safeguards() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(corpus, strings.ReplaceAll(name, " ", "_"))
			if *update {
				text := fmt.Sprintf("go test fuzz v1\n[]byte(%s)\n", strconv.Quote(string(shortest(s))))
				if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			w := playBytes(s.next, readSchedule(t, path), false)
			if w.broken == nil || !slices.Contains(s.laws, w.broken.law) {
				t.Errorf("%s: broke %v, want one of %q; write it anew with -update", path, w.broken, s.laws)
			}
		})
	}
}

func readSchedule(t *testing.T, path string) []byte {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	quoted := strings.TrimSuffix(strings.TrimPrefix(string(text), "go test fuzz v1\n[]byte("), ")\n")
	schedule, err := strconv.Unquote(quoted)
	if err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	return []byte(schedule)
}

// shortest returns the shortest of the first schedules that chance finds against the sabotage.
func shortest(s sabotage) []byte {
	var best []byte
	found := 0
	for seed := uint64(1); seed <= *schedules && found < 20; seed++ {
		r := &recorder{chance: newSeeded(seed)}
		w := newWorld(r, s.next, s.bindings, false)
		w.play()
		if w.broken == nil || !slices.Contains(s.laws, w.broken.law) {
			continue
		}
		found++
		if best != nil && len(r.bytes) >= len(best)-1 {
			continue
		}
		best = append([]byte{0}, r.bytes...)
		if s.bindings {
			best[0] = 1
		}
	}
	return best
}
