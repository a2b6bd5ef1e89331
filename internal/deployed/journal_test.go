package deployed

import (
	"encoding/json"
	"log/slog"
	"testing"
)

// functionLogs returns all lines of the three functions.
func (s *stack) functionLogs(t *testing.T) []line {
	t.Helper()
	return s.logs(t, "ApiLogs", "PollerLogs", "JanitorLogs")
}

// logs returns all lines of the log groups that have these logical names.
func (s *stack) logs(t *testing.T, groups ...string) []line {
	t.Helper()
	var all []line
	for _, group := range groups {
		if s.resources[group] == "" {
			t.Fatalf("the stack has no log group %s", group)
		}
		all = append(all, s.cloud.logs(t, s.resources[group])...)
	}
	return all
}

// level is that of a line of ours; false for what Lambda says, which is no JSON.
func (l line) level() (slog.Level, bool) {
	var said struct{ Level *slog.Level }
	if err := json.Unmarshal([]byte(l.Message), &said); err != nil || said.Level == nil {
		return 0, false
	}
	return *said.Level, true
}

// explain prints what the functions complained about, when the test has failed.
func (s *stack) explain(t *testing.T) {
	if !t.Failed() || s.deleted {
		return
	}
	for _, l := range s.functionLogs(t) {
		if level, ours := l.level(); ours && level > slog.LevelInfo {
			t.Logf("%s: %s", l.Group, l.Message)
		}
	}
}
