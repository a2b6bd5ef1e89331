package acceptance

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
)

// journal keeps every log line of a broker, and of its simulator, from INFO on.
type journal struct {
	*pages
	attrs []slog.Attr
}

// pages are shared by all loggers that were derived from one.
type pages struct {
	mu    sync.Mutex
	lines []line
}

type line struct {
	level slog.Level
	text  string
}

// Enabled leaves out the simulator's line for each request.
func (j *journal) Enabled(_ context.Context, level slog.Level) bool { return level >= slog.LevelInfo }

// Handle keeps the line.
func (j *journal) Handle(ctx context.Context, r slog.Record) error {
	var text strings.Builder
	r.AddAttrs(j.attrs...)
	h := slog.NewTextHandler(&text, nil)
	if err := h.Handle(ctx, r); err != nil {
		return err
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.lines = append(j.lines, line{r.Level, text.String()})
	return nil
}

// WithAttrs keeps the attributes for every line to come.
func (j *journal) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &journal{pages: j.pages, attrs: slices.Concat(j.attrs, attrs)}
}

// WithGroup drops the group.
func (j *journal) WithGroup(string) slog.Handler { return j }

// find returns the lines of a level that hold all the parts.
func (j *journal) find(level slog.Level, parts ...string) []string {
	j.mu.Lock()
	defer j.mu.Unlock()
	var found []string
	for _, l := range j.lines {
		all := l.level == level
		for _, part := range parts {
			all = all && strings.Contains(l.text, part)
		}
		if all {
			found = append(found, l.text)
		}
	}
	return found
}

// secret is a word in parameters that may get nowhere but to the backing broker.
const secret = "open-sesame"

// check holds for every test: nothing louder than expected, nothing secret.
func (j *journal) check(t *testing.T, loudest slog.Level) {
	t.Helper()
	for _, complaint := range j.complaints(loudest) {
		t.Error(complaint)
	}
}

func (j *journal) complaints(loudest slog.Level) []string {
	j.mu.Lock()
	defer j.mu.Unlock()
	var found []string
	for _, l := range j.lines {
		if l.level > loudest {
			found = append(found, "logged above "+loudest.String()+": "+l.text)
		}
		for _, word := range []string{secret, "postgres://", big, "second's"} {
			if strings.Contains(l.text, word) {
				found = append(found, "the log tells "+word+": "+l.text)
			}
		}
	}
	return found
}
