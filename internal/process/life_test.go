package process

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"

	"github.com/ferry-broker/ferry/internal/osbtest"
)

const incomplete = "accepts_incomplete=true"

// life is what a platform does with one instance id, and what it was told. Every step checks its own answers.
type life struct {
	*platform
	random *rand.Rand
	kills  func() int // so far
	plans  map[string]osbtest.Plan

	id, planName string
	plan         osbtest.Plan
	parameters   map[string]any

	// What Cloud Foundry has to show for it in the end.
	created, cancelled int // incarnations that ended well, and that were given up
	updates            map[string]int
	bindings           map[string]bool // whether each is to be there still
	alive              bool
	operations         map[string]string // by path: each that was accepted
	unsettled          int               // kills during the cancelled incarnations and deletes
}

func (l *life) path() string { return "/v2/service_instances/" + l.id }

// live goes through a life; the dice decide which.
func (l *life) live(ctx context.Context) error {
	if l.dice(5) {
		if err := l.giveUp(ctx); err != nil {
			return err
		}
		if l.dice(2) {
			return nil
		}
	}
	steps := []func(context.Context) error{l.create}
	if l.dice(2) {
		steps = append(steps, l.update)
	}
	for range l.random.IntN(3) {
		steps = append(steps, l.bind)
	}
	if l.dice(2) {
		steps = append(steps, l.update)
	}
	if l.dice(2) {
		steps = append(steps, l.unbindAll)
	}
	if !l.dice(4) {
		steps = append(steps, l.remove)
	}
	for _, step := range steps {
		if err := step(ctx); err != nil {
			return fmt.Errorf("%s (%s): %w", l.id, l.planName, err)
		}
	}
	return nil
}

// dice is true once in n times.
func (l *life) dice(n int) bool { return l.random.IntN(n) == 0 }

// change sends a PUT, PATCH or DELETE of something asynchronous one to three times at once. All that were accepted must
// name one operation, which must end as wanted; done are the statuses of a request that came after the end.
func (l *life) change(ctx context.Context, method, path, query string, body any, done ...int) (string, error) {
	answers, err := l.together(ctx, 1+l.random.IntN(3), method, path+"?"+query, body)
	if err != nil {
		return "", err
	}
	operation := ""
	for _, a := range answers {
		switch {
		case slices.Contains(done, a.Status):
		case a.Status != http.StatusAccepted:
			return "", wrong(method, path, a, "202 or one of %v", done)
		case a.Operation() == "" || operation != "" && a.Operation() != operation:
			return "", wrong(method, path, a, "one operation for all, %q", operation)
		default:
			operation = a.Operation()
		}
	}
	if operation != "" {
		l.operations[operation] = path
	}
	return operation, nil
}

// together sends the same request n times at once.
func (l *life) together(ctx context.Context, n int, method, path string, body any) ([]answer, error) {
	answers, errs := make([]answer, n), make([]error, n)
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() { answers[i], errs[i] = l.send(ctx, method, path, body) })
	}
	all.Wait()
	return answers, errors.Join(errs...)
}

func wrong(method, path string, a answer, format string, args ...any) error {
	return fmt.Errorf("%w: %s %s: %d %s, want %s", errWrong, method, path, a.Status, a.Body, fmt.Sprintf(format, args...))
}

// expect sends once and checks the status.
func (l *life) expect(ctx context.Context, method, path string, body any, status int) (answer, error) {
	a, err := l.send(ctx, method, path, body)
	if err == nil && a.Status != status {
		err = wrong(method, path, a, "%d", status)
	}
	return a, err
}

// succeeds waits for the end of an operation; none is one that had ended when its request was answered.
func (l *life) succeeds(ctx context.Context, path, operation string) error {
	if operation == "" {
		return nil
	}
	state, err := l.end(ctx, path, operation)
	if err == nil && state != "succeeded" {
		err = fmt.Errorf("%w: operation %s of %s %s", errWrong, operation, path, state)
	}
	return err
}

func (l *life) provision(parameters map[string]any) map[string]any {
	return map[string]any{
		"service_id": l.plan.ServiceID, "plan_id": l.plan.PlanID, "organization_guid": "org", "space_guid": "space", "parameters": parameters,
	}
}

func (l *life) choose() {
	names := []string{"small", "large", "async", "async-bindings"}
	l.planName = "postgres/" + names[l.random.IntN(len(names))]
	l.plan = l.plans[l.planName]
	l.parameters = map[string]any{"size": l.random.IntN(1000)}
}

func (l *life) create(ctx context.Context) error {
	l.choose()
	operation, err := l.change(ctx, http.MethodPut, l.path(), incomplete, l.provision(l.parameters), http.StatusOK)
	if err != nil {
		return err
	}
	l.created++
	l.alive = true
	if err := l.conflicts(ctx); err != nil {
		return err
	}
	if err := l.succeeds(ctx, l.path(), operation); err != nil {
		return err
	}
	_, err = l.expect(ctx, http.MethodPut, l.path()+"?"+incomplete, l.provision(l.parameters), http.StatusOK)
	return err
}

// conflicts sends a create of the same id that differs.
func (l *life) conflicts(ctx context.Context) error {
	if !l.dice(3) {
		return nil
	}
	_, err := l.expect(ctx, http.MethodPut, l.path()+"?"+incomplete, l.provision(map[string]any{"size": -1}), http.StatusConflict)
	return err
}

// giveUp creates and deletes at once.
func (l *life) giveUp(ctx context.Context) error {
	l.choose()
	before := l.kills()
	create, err := l.change(ctx, http.MethodPut, l.path(), incomplete, l.provision(l.parameters), http.StatusOK)
	if err != nil {
		return err
	}
	l.cancelled++
	if err := l.delete(ctx); err != nil {
		return err
	}
	l.unsettled += l.kills() - before
	if create == "" {
		return nil
	}
	_, err = l.end(ctx, l.path(), create) // failed, or succeeded before it was given up
	return err
}

func (l *life) remove(ctx context.Context) error {
	before := l.kills()
	defer func() { l.unsettled += l.kills() - before }()
	return l.delete(ctx)
}

func (l *life) delete(ctx context.Context) error {
	operation, err := l.change(ctx, http.MethodDelete, l.path(), incomplete+"&"+hints(l.plan), nil, http.StatusGone)
	if err != nil {
		return err
	}
	if err := l.succeeds(ctx, l.path(), operation); err != nil {
		return err
	}
	l.alive = false
	clear(l.bindings)
	_, err = l.expect(ctx, http.MethodDelete, l.path()+"?"+incomplete+"&"+hints(l.plan), nil, http.StatusGone)
	return err
}

func (l *life) update(ctx context.Context) error {
	next := map[string]string{"postgres/small": "postgres/large", "postgres/large": "postgres/small", "postgres/async": "postgres/async-bindings", "postgres/async-bindings": "postgres/async"}[l.planName]
	before := l.kills()
	body := map[string]any{"service_id": l.plan.ServiceID, "plan_id": l.plans[next].PlanID}
	operation, err := l.change(ctx, http.MethodPatch, l.path(), incomplete, body, http.StatusOK)
	if err != nil {
		return err
	}
	if err := l.succeeds(ctx, l.path(), operation); err != nil {
		return err
	}
	l.planName, l.plan = next, l.plans[next]
	l.updates["least"]++
	l.updates["most"] += 1 + l.kills() - before
	return nil
}

// bind binds with or without accepts_incomplete, several times at once, and checks that all got the same credentials.
func (l *life) bind(ctx context.Context) error {
	id := fmt.Sprintf("%s-b%d", l.id, len(l.bindings))
	path := l.path() + "/service_bindings/" + id
	body := map[string]any{"service_id": l.plan.ServiceID, "plan_id": l.plan.PlanID}
	if l.dice(2) {
		operation, err := l.change(ctx, http.MethodPut, path, incomplete, body, http.StatusOK)
		if err != nil {
			return err
		}
		if err := l.succeeds(ctx, path, operation); err != nil {
			return err
		}
	}
	answers, err := l.together(ctx, 1+l.random.IntN(3), http.MethodPut, path, body)
	if err != nil {
		return err
	}
	l.bindings[id] = true
	fetched, err := l.expect(ctx, http.MethodGet, path, nil, http.StatusOK)
	if err != nil {
		return err
	}
	return l.oneKey(path, append(answers, fetched))
}

// oneKey holds the answers to all that asked for one binding against each other.
func (l *life) oneKey(path string, answers []answer) error {
	first, made := answers[0].Credentials(), 0
	for _, a := range answers {
		if a.Status == http.StatusCreated {
			made++
		}
		if a.Status != http.StatusCreated && a.Status != http.StatusOK || made > 1 {
			return wrong(http.MethodPut, path, a, "201 once and 200 otherwise")
		}
		if a.Credentials() != first || first == "" {
			return fmt.Errorf("%w: %s: credentials of duplicates differ", errWrong, path)
		}
	}
	return nil
}

// unbindAll takes every binding away, with or without accepts_incomplete.
func (l *life) unbindAll(ctx context.Context) error {
	for id := range l.bindings {
		path := l.path() + "/service_bindings/" + id
		if l.dice(2) {
			operation, err := l.change(ctx, http.MethodDelete, path, incomplete+"&"+hints(l.plan), nil, http.StatusGone)
			if err != nil {
				return err
			}
			if err := l.succeeds(ctx, path, operation); err != nil {
				return err
			}
		} else {
			a, err := l.send(ctx, http.MethodDelete, path+"?"+hints(l.plan), nil)
			if err != nil {
				return err
			}
			if a.Status != http.StatusOK && a.Status != http.StatusGone {
				return wrong(http.MethodDelete, path, a, "200 or 410")
			}
		}
		if _, err := l.expect(ctx, http.MethodDelete, path+"?"+hints(l.plan), nil, http.StatusGone); err != nil {
			return err
		}
		l.bindings[id] = false
	}
	return nil
}
