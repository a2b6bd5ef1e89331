package lifecycle_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	lc "github.com/ferry-broker/ferry/internal/lifecycle"
)

func defaultPace() lc.Pace { return lc.Pace{First: 2 * time.Second, Max: time.Minute} }

// waitsOf walks a pace: each wait begins when the one before has passed.
func waitsOf(p lc.Pace, until time.Duration) []time.Duration {
	var waits []time.Duration
	for elapsed := time.Duration(0); elapsed < until; {
		w := p.Wait(elapsed)
		waits = append(waits, w)
		elapsed += w
	}
	return waits
}

func TestWaitGrows(t *testing.T) {
	t.Parallel()
	seconds := func(s ...float64) []time.Duration {
		var d []time.Duration
		for _, v := range s {
			d = append(d, time.Duration(v*float64(time.Second)))
		}
		return d
	}
	for name, test := range map[string]struct {
		pace lc.Pace
		want []time.Duration
	}{
		"the defaults":       {defaultPace(), seconds(2, 2, 3.2, 5.12, 8.192, 13.1072, 20.97152, 33.554432, 53.6870912, 60, 60)},
		"first equals max":   {lc.Pace{First: time.Second, Max: time.Second}, seconds(1, 1, 1, 1)},
		"first beyond max":   {lc.Pace{First: time.Hour, Max: time.Second}, seconds(1, 1, 1, 1)},
		"max after one step": {lc.Pace{First: 2 * time.Second, Max: 3 * time.Second}, seconds(2, 2, 3, 3)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var total time.Duration
			for _, w := range test.want {
				total += w
			}
			near := cmp.Comparer(func(a, b time.Duration) bool { return (a - b).Abs() < time.Microsecond })
			got := waitsOf(test.pace, time.Hour)[:len(test.want)]
			if diff := cmp.Diff(test.want, got, near); diff != "" {
				t.Errorf("waits (-want +got):\n%s", diff)
			}
		})
	}
}

func TestWaitAfterAnHour(t *testing.T) {
	t.Parallel()
	p := defaultPace()
	for elapsed, want := range map[time.Duration]time.Duration{
		time.Hour - 1: time.Minute, time.Hour: 5 * time.Minute, week: 5 * time.Minute,
	} {
		if got := p.Wait(elapsed); got != want {
			t.Errorf("after %v: %v, want %v", elapsed, got, want)
		}
	}
}

func TestWaitNeverStandsStill(t *testing.T) {
	t.Parallel()
	p := lc.Pace{First: 0, Max: time.Second}
	if n := len(waitsOf(p, time.Minute)); n > 100 {
		t.Errorf("%d waits in a minute", n)
	}
}

func TestSeconds(t *testing.T) {
	t.Parallel()
	var got []int
	for _, w := range waitsOf(defaultPace(), 5*time.Minute)[:10] {
		got = append(got, lc.Seconds(w))
	}
	if diff := cmp.Diff([]int{2, 2, 3, 5, 8, 13, 21, 34, 54, 60}, got); diff != "" {
		t.Errorf("Retry-After (-want +got):\n%s", diff)
	}
	for wait, want := range map[time.Duration]int{
		-time.Second: 1, 0: 1, time.Millisecond: 1, 1499 * time.Millisecond: 1, 1500 * time.Millisecond: 2,
		5 * time.Minute: 300, 301 * time.Second: 300, 24 * time.Hour: 300,
	} {
		if got := lc.Seconds(wait); got != want {
			t.Errorf("%v: %d, want %d", wait, got, want)
		}
	}
}

// TestAWeekOfPolling: a turn of the state machine is nine history events at most, and
// an execution may have 25,000; the design allows itself 20,000.
func TestAWeekOfPolling(t *testing.T) {
	t.Parallel()
	const eventsPerTurn = 9
	turns := len(waitsOf(defaultPace(), week))
	t.Logf("%d turns, %d events", turns, turns*eventsPerTurn)
	if turns*eventsPerTurn >= 20000 {
		t.Errorf("%d turns make %d events", turns, turns*eventsPerTurn)
	}
	if turns < 2000 {
		t.Errorf("only %d turns: a platform would wait too long", turns)
	}
}
