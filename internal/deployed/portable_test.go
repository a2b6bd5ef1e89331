package deployed

import (
	"net/http"
	"strings"
	"testing"
)

// The cases of this file need nothing but the broker: they run here and on AWS. plan
// is one that can be bound.

// crowd is how many callers send the same request at once.
const crowd = 20

// agreed checks that all were accepted under one operation, or came after its end,
// and returns it.
func agreed(t *testing.T, answers []answer, afterwards int) (operation string) {
	t.Helper()
	for _, a := range answers {
		switch {
		case a.status == afterwards && a.operation() == "":
		case a.status != http.StatusAccepted:
			t.Errorf("%s: %d %.300s, want 202, or %d after the end", a.request, a.status, a.body, afterwards)
		case operation == "":
			operation = a.operation()
		case operation != a.operation():
			t.Errorf("%s: operation %s, others have %s", a.request, a.operation(), operation)
		}
	}
	if operation == "" {
		t.Fatal("nobody was told of an operation")
	}
	return operation
}

// elsewhere is a create that differs in the space alone.
func (p platform) elsewhere(id, plan, parameters string) answer {
	p.t.Helper()
	body := strings.Replace(p.create(plan, parameters), `"space_guid":"space"`, `"space_guid":"another"`, 1)
	return p.send(http.MethodPut, at(id)+async.query(), body)
}

// crowdedCreate sends one create many times at once and returns the instance, ready.
func crowdedCreate(p platform, plan, parameters string) (id string) {
	p.t.Helper()
	id = p.newID()
	op := agreed(p.t, together(crowd, func(int) answer { return p.put(id, plan, parameters) }), http.StatusOK)
	p.elsewhere(id, plan, parameters).says(p.t, http.StatusConflict, "Conflict")
	p.succeeds(at(id), op)
	for _, a := range together(crowd, func(int) answer { return p.put(id, plan, parameters) }) {
		if a.status != http.StatusOK || a.operation() != "" {
			p.t.Errorf("a duplicate of what is ready: %d %s, want 200 without operation", a.status, a.body)
		}
	}
	p.elsewhere(id, plan, parameters).says(p.t, http.StatusConflict, "Conflict")
	return id
}

// crowdedBind sends one synchronous bind many times at once and returns the binding.
func crowdedBind(p platform, id, plan, parameters string) (binding string) {
	p.t.Helper()
	binding = p.newID()
	answers := together(crowd, func(int) answer { return p.bind(id, binding, plan, parameters, plain) })
	answers = append(answers, p.bind(id, binding, plan, parameters, plain), p.bind(id, binding, plan, parameters, async))
	created := 0
	for _, a := range answers {
		if a.status == http.StatusCreated {
			created++
		} else if a.status != http.StatusOK {
			p.t.Errorf("%s: %d %.300s, want 201 or 200", a.request, a.status, a.body)
		}
		if a.operation() != "" || a.credentials() == "" || a.credentials() != answers[0].credentials() {
			p.t.Errorf("%s: an operation, or other credentials than the first answer has", a.request)
		}
	}
	if created != 1 {
		p.t.Errorf("201 was answered %d times, want once", created)
	}
	return binding
}

// crowdedUnbind sends one unbind many times at once.
func crowdedUnbind(p platform, id, binding, plan string) {
	p.t.Helper()
	for _, a := range together(crowd, func(int) answer { return p.unbind(id, binding, plan, plain) }) {
		if a.status != http.StatusOK && a.status != http.StatusGone {
			p.t.Errorf("%s: %d %s, want 200 or 410", a.request, a.status, a.body)
		}
	}
	p.unbind(id, binding, plan, plain).want(p.t, http.StatusGone)
}

// crowdedDelete sends one delete many times at once and waits for its end.
func crowdedDelete(p platform, id, plan string) {
	p.t.Helper()
	op := agreed(p.t, together(crowd, func(int) answer { return p.delete(id, plan) }), http.StatusGone)
	p.succeeds(at(id), op)
	for _, a := range together(crowd, func(int) answer { return p.delete(id, plan) }) {
		a.want(p.t, http.StatusGone)
	}
}

// catalogAnswers: 200 with a tag, then 304 for who has it.
func catalogAnswers(p platform) {
	p.t.Helper()
	a := p.send(http.MethodGet, "/v2/catalog", "").want(p.t, http.StatusOK)
	tag := a.header.Get("ETag")
	if tag == "" {
		p.t.Fatalf("%s: no ETag in %v", a.request, a.header)
	}
	again := p.send(http.MethodGet, "/v2/catalog", "", header("If-None-Match", tag)).want(p.t, http.StatusNotModified)
	if again.body != "" || again.header.Get("ETag") != tag {
		p.t.Errorf("%s: 304 with ETag %q and %d bytes", again.request, again.header.Get("ETag"), len(again.body))
	}
	p.send(http.MethodGet, "/v2/catalog", "", header("If-None-Match", `"another"`)).want(p.t, http.StatusOK)
}

func header(name, value string) func(*http.Request) {
	return func(r *http.Request) { r.Header.Set(name, value) }
}

// wholeLife is what every platform does: it returns the ids after their end.
func wholeLife(p platform, plan, parameters string) (id, binding string) {
	p.t.Helper()
	id, binding = p.newID(), p.newID()
	p.poll(at(id), "").says(p.t, http.StatusNotFound, "NotFound")
	p.succeeds(at(id), p.put(id, plan, parameters).want(p.t, http.StatusAccepted).operation())
	ids := p.plan(plan)
	if a := p.send(http.MethodGet, at(id), "").want(p.t, http.StatusOK); a.text("service_id") != ids.service || a.text("plan_id") != ids.plan {
		p.t.Errorf("%s: %s, want the service %s and the plan %s", a.request, a.body, ids.service, ids.plan)
	}
	p.boundAndUnbound(id, binding, plan, async)
	p.boundAndUnbound(id, p.newID(), plan, plain)
	deleting := p.delete(id, plan).want(p.t, http.StatusAccepted).operation()
	p.succeeds(at(id), deleting)
	if a := p.poll(at(id), deleting).want(p.t, http.StatusOK); a.text("state") != "succeeded" {
		p.t.Errorf("%s: %s, want succeeded", a.request, a.body)
	}
	p.send(http.MethodGet, at(id), "").says(p.t, http.StatusNotFound, "NotFound")
	p.delete(id, plan).want(p.t, http.StatusGone)
	p.unbind(id, binding, plan, plain).want(p.t, http.StatusGone)
	return id, binding
}

// boundAndUnbound is a binding's life, held or polled.
func (p platform) boundAndUnbound(id, binding, plan string, m mode) {
	p.t.Helper()
	a := p.bind(id, binding, plan, "", m)
	if a.status == http.StatusAccepted && bool(m) {
		p.succeeds(bindingAt(id, binding), a.operation())
	} else {
		a.want(p.t, http.StatusCreated)
	}
	fetched := p.send(http.MethodGet, bindingAt(id, binding), "").want(p.t, http.StatusOK)
	if fetched.credentials() == "" || a.credentials() != "" && a.credentials() != fetched.credentials() {
		p.t.Errorf("%s: no credentials, or other ones than the bind was answered", fetched.request)
	}
	if a = p.unbind(id, binding, plan, m); a.status == http.StatusAccepted && bool(m) {
		p.succeeds(bindingAt(id, binding), a.operation())
	} else {
		a.want(p.t, http.StatusOK)
	}
	p.send(http.MethodGet, bindingAt(id, binding), "").says(p.t, http.StatusNotFound, "NotFound")
}
