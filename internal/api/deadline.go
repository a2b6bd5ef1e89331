package api

import (
	"context"
	"time"
)

// answerMargin is kept free before a deadline that somebody else set, to encode
// and send the answer: Lambda ends a function at its deadline, whatever it does.
const answerMargin = 500 * time.Millisecond

// budget returns the context that a use case runs under. It does not end when the
// platform hangs up: a request that stops half way would leave work that nobody
// asks for again. It ends with the time budget, before the deadline of the
// request's own context, and when the process is told to stop.
func (h *handler) budget(e *exchange) (context.Context, context.CancelFunc) {
	parent := e.request.Context()
	now := h.Now()
	left := h.RequestBudget - now.Sub(e.started) // a login may have waited to be checked
	if deadline, ok := parent.Deadline(); ok {
		left = min(left, deadline.Sub(now)-answerMargin)
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(parent), left)
	if h.Stop != nil {
		go func() {
			select {
			case <-h.Stop:
				cancel()
			case <-ctx.Done():
			}
		}()
	}
	return ctx, cancel
}
