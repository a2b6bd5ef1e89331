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

// flavor is which of the two implementations of the API answers.
type flavor int32

const (
	unknownFlavor   flavor = iota
	cloudController        // the Cloud Controller
	korifi                 // the API on Kubernetes, which leaves some of it out (docs/korifi-differences.md)
)

// flavors finds the flavor out. It is learnt from answers, so that nobody has to configure it; what an operation did
// not learn on its way asks one small question.
type flavors struct {
	api    *ccapi.Client
	places *places
	found  atomic.Int32
	asked  shared[struct{}, flavor]
}

// known returns the flavor as far as it is known.
func (f *flavors) known() flavor { return flavor(f.found.Load()) }

// learn keeps the flavor. Korifi is never unlearnt: its refusals are definite, while an accepted call proves less.
func (f *flavors) learn(answers flavor) {
	if answers == korifi {
		f.found.Store(int32(answers))
		return
	}
	f.found.CompareAndSwap(int32(unknownFlavor), int32(answers))
}

// learnFromJob knows Korifi's jobs, which name their resource.
func (f *flavors) learnFromJob(job string) {
	if strings.Contains(job, "~") {
		f.learn(korifi)
		return
	}
	f.learn(cloudController)
}

// ask returns which implementation answers. It asks once in the life of a Backend, if nothing told it before: only
// Korifi refuses to filter instances by their org.
func (f *flavors) ask(ctx context.Context) (flavor, error) {
	if known := f.known(); known != unknownFlavor {
		return known, nil
	}
	return f.asked.get(ctx, struct{}{}, f.find)
}

func (f *flavors) find(ctx context.Context, _ []struct{}) (flavor, error) {
	if known := f.known(); known != unknownFlavor {
		return known, nil // somebody found it out meanwhile
	}
	org, err := f.places.org(ctx)
	if err != nil {
		return unknownFlavor, err
	}
	_, err = f.api.Send(ctx, ccapi.Request{
		Method: http.MethodGet, Path: instancesRoute, Route: instancesRoute,
		Query: url.Values{"organization_guids": {org}, "per_page": {"1"}}, What: "ask for filters",
	})
	switch {
	case err == nil:
		f.learn(cloudController)
	case filterRefused(err):
		f.learn(korifi)
	default:
		return unknownFlavor, err
	}
	return f.known(), nil
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
