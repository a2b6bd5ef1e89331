package lambda

import (
	"errors"
	"strings"
	"testing"
	"time"
)

// TestTheHourlyTurnAuditsWhatIsDue: what failed at the next hour, what was completed a day
// later; and whoever asks for an audit by hand gets one.
func TestTheHourlyTurnAuditsWhatIsDue(t *testing.T) {
	t.Parallel()
	r := newUpgradeRig(t)
	hour := Schedule{Task: TaskAudit, Due: true}
	for n, step := range []struct {
		pass      time.Duration
		event     Schedule
		away      bool
		completed int
		failed    int
	}{
		{0, hour, true, 0, 1},
		{time.Hour, hour, false, 1, 1},
		{time.Hour, hour, false, 1, 1},
		{0, Schedule{Task: TaskAudit}, false, 2, 1},
		{23 * time.Hour, hour, false, 2, 1},
		{time.Hour - time.Minute, hour, false, 3, 1}, // an hour that came a little early
	} {
		r.pass(step.pass)
		r.control(t, "reset", "")
		if step.away {
			r.control(t, "faults", `{"method":"*","route":"*","times":0,"action":"drop"}`)
		}
		err := r.janitor.Handle(t.Context(), step.event)
		if _, failed := errors.AsType[*JanitorFailed](err); failed != step.away {
			t.Errorf("step %d: %v; Cloud Foundry is away: %t", n, err, step.away)
		}
		text := r.log.String()
		completed, failed := strings.Count(text, `"level":"INFO","msg":"audit completed","client":"demo","seen":0`), strings.Count(text, `"level":"WARN","msg":"audit failed","client":"demo"`)
		if completed != step.completed || failed != step.failed {
			t.Errorf("step %d: %d completed, %d failed; want %d, %d", n, completed, failed, step.completed, step.failed)
		}
	}
}
