package cf

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"

	"github.com/ferry-broker/ferry/internal/ccapi"
)

// dialect is which of the two implementations of the API answers.
type dialect int32

const (
	undecided dialect = iota
	classic           // the Cloud Controller
	korifi            // the API on Kubernetes, which leaves some of it out
)

// tongue remembers the dialect. It is learnt from answers, so that nobody has to configure it; what an operation did
// not learn on its way asks one small question.
type tongue struct{ now atomic.Int32 }

func (t *tongue) dialect() dialect { return dialect(t.now.Load()) }

// learn keeps d. Korifi is never unlearnt: its refusals are definite, while an accepted call proves less.
func (t *tongue) learn(d dialect) {
	if d == korifi {
		t.now.Store(int32(d))
		return
	}
	t.now.CompareAndSwap(int32(undecided), int32(d))
}

// learnFromJob knows Korifi's jobs, which name their resource.
func (t *tongue) learnFromJob(job string) {
	if strings.Contains(job, "~") {
		t.learn(korifi)
		return
	}
	t.learn(classic)
}

// dialect returns which implementation answers. It asks once in the life of a Backend, if nothing told it before: only
// Korifi refuses to filter instances by their org.
func (b *Backend) dialect(ctx context.Context) (dialect, error) {
	if d := b.tongue.dialect(); d != undecided {
		return d, nil
	}
	org, err := b.org(ctx)
	if err != nil {
		return undecided, err
	}
	_, err = b.api.Send(ctx, ccapi.Request{
		Method: http.MethodGet, Path: instancesRoute, Route: instancesRoute,
		Query: url.Values{"organization_guids": {org}, "per_page": {"1"}}, What: "ask for filters",
	})
	if err != nil && !filterRefused(err) {
		return undecided, err
	}
	if err != nil {
		b.tongue.learn(korifi)
	} else {
		b.tongue.learn(classic)
	}
	return b.tongue.dialect(), nil
}

// filterRefused reports whether the API does not know a query parameter.
func filterRefused(err error) bool {
	e, ok := errors.AsType[*ccapi.Error](err)
	return ok && e.Status == http.StatusBadRequest && e.Code == ccapi.CodeBadQuery
}

// metadataRefused reports whether the API does not take marks on what a call would have made; nothing was made then.
func metadataRefused(err error) bool {
	e, ok := errors.AsType[*ccapi.Error](err)
	if !ok || e.Status != http.StatusUnprocessableEntity || e.Code != ccapi.CodeUnprocessable {
		return false
	}
	text := strings.ToLower(e.Text)
	return strings.Contains(text, "unknown field") && strings.Contains(text, "metadata")
}
