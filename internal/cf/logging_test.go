package cf

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
)

// logged returns the lines of one level.
func logged(t *testing.T, log *bytes.Buffer, level slog.Level) (lines []map[string]any) {
	t.Helper()
	for line := range strings.Lines(log.String()) {
		var fields map[string]any
		if err := json.Unmarshal([]byte(line), &fields); err != nil {
			t.Fatal(err)
		}
		if fields["level"] == level.String() {
			lines = append(lines, fields)
		}
	}
	return lines
}

func jsonLog(log *bytes.Buffer) func(*Config) {
	return func(c *Config) {
		c.Logger = slog.New(slog.NewJSONHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	}
}

// TestWarningsOfJobsAreLoggedOnce: every answer repeats those before.
func TestWarningsOfJobsAreLoggedOnce(t *testing.T) {
	t.Parallel()
	var asked atomic.Int64
	s := newStub(t, func(w http.ResponseWriter, _ *http.Request) {
		state, more := "POLLING", ""
		if asked.Add(1) == 3 {
			state, more = "COMPLETE", `,{"detail":"second"}`
		}
		reply(w, 200, fmt.Sprintf(`{"guid":"j","operation":"service_instance.delete","state":%q,"warnings":[{"detail":"first, Body: secret"}%s]}`, state, more))
	})
	var log bytes.Buffer
	b := s.backend(t, jsonLog(&log))
	for range 3 {
		if _, err := b.Job(t.Context(), "j"); err != nil {
			t.Fatal(err)
		}
	}
	lines := logged(t, &log, slog.LevelInfo)
	if len(lines) != 2 || lines[0]["warning"] != "first" || lines[1]["warning"] != "second" || lines[0]["job"] != "j" {
		t.Errorf("logged %v, want each warning once", lines)
	}
	if len(b.jobs.warned.counts) != 0 {
		t.Errorf("an ended job is remembered: %v", b.jobs.warned.counts)
	}
}

func TestWarningsAreNotRememberedWithoutEnd(t *testing.T) {
	t.Parallel()
	h := newWarned()
	for i := range 3 * maxWarned {
		h.count(fmt.Sprint(i), 1, false)
	}
	if len(h.counts) > maxWarned {
		t.Errorf("%d jobs are remembered", len(h.counts))
	}
}
