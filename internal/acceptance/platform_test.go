package acceptance

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
)

// createBody is that of a PUT of an instance; parameters as they are to be sent, ""
// for none.
func (c tenant) createBody(plan, parameters string) string {
	c.t.Helper()
	p := c.plan(plan)
	return fmt.Sprintf(`{"service_id":%q,"plan_id":%q,"organization_guid":"org","space_guid":"space"%s}`,
		p.service, p.plan, member("parameters", parameters))
}

func (c tenant) bindBody(plan, parameters string) string {
	c.t.Helper()
	p := c.plan(plan)
	return fmt.Sprintf(`{"service_id":%q,"plan_id":%q%s}`, p.service, p.plan, member("parameters", parameters))
}

func member(name, value string) string {
	if value == "" {
		return ""
	}
	return fmt.Sprintf(`,%q:%s`, name, value)
}

func (c tenant) put(id, plan, parameters string, m mode) answer {
	c.t.Helper()
	return c.send("PUT", at(id)+m.query(), c.createBody(plan, parameters))
}

// patch sends service_id and whatever rest says, such as `"plan_id":"…"`.
func (c tenant) patch(id, plan, rest string, m mode) answer {
	c.t.Helper()
	if rest != "" {
		rest = "," + rest
	}
	return c.send("PATCH", at(id)+m.query(), fmt.Sprintf(`{"service_id":%q%s}`, c.plan(plan).service, rest))
}

func (c tenant) hints(plan string) []string {
	c.t.Helper()
	p := c.plan(plan)
	return []string{"service_id=" + p.service, "plan_id=" + p.plan}
}

func (c tenant) delete(id, plan string, m mode) answer {
	c.t.Helper()
	return c.send("DELETE", at(id)+m.query(c.hints(plan)...), "")
}

func (c tenant) bind(id, binding, plan, parameters string, m mode) answer {
	c.t.Helper()
	return c.send("PUT", bindingAt(id, binding)+m.query(), c.bindBody(plan, parameters))
}

func (c tenant) unbind(id, binding, plan string, m mode) answer {
	c.t.Helper()
	return c.send("DELETE", bindingAt(id, binding)+m.query(c.hints(plan)...), "")
}

// poll asks for the last operation of what is at path.
func (c tenant) poll(path, operation string) answer {
	c.t.Helper()
	query := ""
	if operation != "" {
		query = "?operation=" + url.QueryEscape(operation)
	}
	return c.send("GET", path+"/last_operation"+query, "")
}

// ends polls as a platform does and returns the last answer. Polls never fail.
func (c tenant) ends(path, operation string) answer {
	c.t.Helper()
	var a answer
	c.eventually(operation+" ends", func() bool {
		a = c.poll(path, operation).want(c.t, http.StatusOK)
		return a.state() != "in progress"
	})
	return a
}

// succeeds and fails wait for the end that the test expects.
func (c tenant) succeeds(path, operation string) {
	c.t.Helper()
	if a := c.ends(path, operation); a.state() != "succeeded" {
		c.t.Fatalf("%s of %s: %s, want succeeded", operation, path, a.body)
	}
}

func (c tenant) fails(path, operation string, parts ...string) {
	c.t.Helper()
	a := c.ends(path, operation)
	if a.state() != "failed" || a.text("description") == "" {
		c.t.Fatalf("%s of %s: %s, want failed with a description", operation, path, a.body)
	}
	for _, part := range parts {
		if !strings.Contains(a.text("description"), part) {
			c.t.Errorf("%s of %s: %s does not name %q", operation, path, a.body, part)
		}
	}
}

// ready makes an instance and returns its id.
func (c tenant) ready(plan, parameters string) string {
	c.t.Helper()
	id := c.id()
	op := c.put(id, plan, parameters, async).want(c.t, http.StatusAccepted).operation()
	c.succeeds(at(id), op)
	return id
}

// bound makes an instance and a binding of it.
func (c tenant) bound(plan string) (id, binding string) {
	c.t.Helper()
	id, binding = c.ready(plan, ""), c.id()
	c.bind(id, binding, plan, "", plain).want(c.t, http.StatusCreated)
	return id, binding
}

// gone deletes an instance and waits for the end.
func (c tenant) gone(id, plan string) {
	c.t.Helper()
	op := c.delete(id, plan, async).want(c.t, http.StatusAccepted).operation()
	c.succeeds(at(id), op)
}

// together calls f n times at once and returns the answers.
func together(n int, f func(i int) answer) []answer {
	answers := make([]answer, n)
	gate := make(chan struct{})
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() {
			<-gate
			answers[i] = f(i)
		})
	}
	close(gate)
	all.Wait()
	return answers
}

// later calls f beside the test; the channel gives its answer.
func later(f func() answer) <-chan answer {
	done := make(chan answer, 1)
	go func() { done <- f() }()
	return done
}
