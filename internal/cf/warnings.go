package cf

import (
	"context"
	"sync"

	"github.com/ferry-broker/ferry/internal/lifecycle"
)

// maxHeard is for how many jobs it is remembered which warnings were logged.
const maxHeard = 1000

// heard counts the warnings of running jobs that were logged: a job is asked at
// every tick and repeats them all.
type heard struct {
	mu     sync.Mutex
	counts map[string]int // by job
}

func newHeard() *heard { return &heard{counts: map[string]int{}} }

// fresh returns how many of n warnings were logged before, and counts all.
func (h *heard) fresh(job string, n int, ended bool) (before int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	before = min(h.counts[job], n)
	switch {
	case ended:
		delete(h.counts, job)
	case n > 0:
		if len(h.counts) >= maxHeard {
			clear(h.counts) // lines said twice do no harm
		}
		h.counts[job] = n
	}
	return before
}

// warn logs what Cloud Foundry warns of in a job, each warning once.
func (b *Backend) warn(ctx context.Context, guid string, job jobRow) {
	ended := lifecycle.JobState(job.State).Ended()
	warnings := job.Warnings.value
	if len(warnings) == 0 && !ended {
		return
	}
	before := b.heard.fresh(guid, len(warnings), ended)
	for _, w := range warnings[before:] {
		b.config.Logger.InfoContext(ctx, "cloud foundry warns", "job", guid, "operation", job.Operation.value, "warning", b.logText(w.Detail))
	}
}
