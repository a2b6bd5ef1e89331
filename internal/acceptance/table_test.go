package acceptance

import (
	"fmt"
	"net/http"
	"testing"
	"time"
)

// cell is one place of the lifecycle table: what an event is answered in a state.
type cell struct {
	status int
	// word is the error word of a refusal; for a 202 it is "new" or "same".
	word string
}

// Cells that occur often.
func accepted() cell { return cell{http.StatusAccepted, "new"} }
func running() cell  { return cell{http.StatusAccepted, "same"} }
func exists() cell   { return cell{http.StatusOK, ""} }
func conflict() cell { return cell{http.StatusConflict, "Conflict"} }
func busy() cell     { return cell{http.StatusUnprocessableEntity, "ConcurrencyError"} }
func missing() cell  { return cell{http.StatusNotFound, "NotFound"} }
func gone() cell     { return cell{http.StatusGone, ""} }
func refused() cell  { return cell{http.StatusUnprocessableEntity, "Unprocessable"} }

// subject is a record that was brought into a state.
type subject struct {
	id, binding, plan string
	// parameters are those in force; target those of an update that runs.
	parameters, target string
	// operation is the one that runs, or ended last.
	operation string
}

// row is one line of the table for instances, with accepts_incomplete.
type instanceRow struct {
	state                                string
	bring                                func(tenant) subject
	putSame, putDifferent                cell
	patchSame, patchDifferent, patchIdle cell
	remove                               cell
}

// instanceTable is section 4 of the design. patchSame leads where an update that runs
// leads; patchIdle names what is in force already.
func instanceTable() []instanceRow {
	return []instanceRow{
		{"absent", absentInstance, accepted(), accepted(), missing(), missing(), missing(), gone()},
		{"creating", creating, running(), conflict(), busy(), busy(), busy(), accepted()},
		{"ready", readyInstance, exists(), conflict(), accepted(), accepted(), exists(), accepted()},
		{"updating", updating, busy(), busy(), running(), busy(), busy(), accepted()},
		{"deleting", deleting, busy(), busy(), busy(), busy(), busy(), running()},
		{"create failed", createFailed, accepted(), conflict(), refused(), refused(), refused(), accepted()},
		{"update failed", updateFailed, exists(), conflict(), accepted(), accepted(), accepted(), accepted()},
		{"delete failed", deleteFailed, conflict(), conflict(), refused(), refused(), refused(), accepted()},
		{"gone", goneInstance, accepted(), accepted(), missing(), missing(), missing(), gone()},
	}
}

func absentInstance(c tenant) subject {
	return subject{id: c.id(), plan: "postgres/small", parameters: `{"a":1}`}
}

// created sends the PUT that every state but absent begins with.
func created(c tenant, plan string) subject {
	c.t.Helper()
	s := subject{id: c.id(), plan: plan, parameters: `{"a":1}`}
	s.operation = c.put(s.id, plan, s.parameters, async).want(c.t, http.StatusAccepted).operation()
	return s
}

func creating(c tenant) subject {
	s := created(c, "faults/create-stalls")
	c.works("provision", s.id, "")
	return s
}

func readyOn(c tenant, plan string) subject {
	c.t.Helper()
	s := created(c, plan)
	c.succeeds(at(s.id), s.operation)
	return s
}

func readyInstance(c tenant) subject { return readyOn(c, "postgres/small") }

func patched(c tenant, plan string) subject {
	c.t.Helper()
	s := readyOn(c, plan)
	s.target = `{"a":2}`
	s.operation = c.patch(s.id, plan, `"parameters":`+s.target, async).want(c.t, http.StatusAccepted).operation()
	return s
}

func updating(c tenant) subject {
	s := patched(c, "faults/update-stalls")
	c.works("update", s.id, "")
	return s
}

func deleting(c tenant) subject {
	s := readyOn(c, "faults/delete-stalls")
	s.operation = c.delete(s.id, s.plan, async).want(c.t, http.StatusAccepted).operation()
	c.works("deprovision", s.id, "")
	return s
}

func createFailed(c tenant) subject {
	s := created(c, "faults/create-fails")
	c.fails(at(s.id), s.operation, "The create fails with this plan")
	return s
}

func updateFailed(c tenant) subject {
	s := patched(c, "faults/update-fails")
	c.fails(at(s.id), s.operation, "The update fails with this plan")
	return s
}

func deleteFailed(c tenant) subject {
	s := readyOn(c, "faults/delete-fails")
	s.operation = c.delete(s.id, s.plan, async).want(c.t, http.StatusAccepted).operation()
	c.fails(at(s.id), s.operation, "The delete fails with this plan")
	return s
}

func goneInstance(c tenant) subject {
	s := readyInstance(c)
	c.gone(s.id, s.plan)
	return s
}

// TestTable sends every event in every state of an instance (CON-06 to CON-39).
func TestTable(t *testing.T) {
	t.Parallel()
	c := start(t, slow(30*time.Millisecond))
	for _, row := range instanceTable() {
		for event, want := range map[string]cell{
			"PUT same": row.putSame, "PUT different": row.putDifferent, "PATCH same": row.patchSame,
			"PATCH different": row.patchDifferent, "PATCH idle": row.patchIdle, "DELETE": row.remove,
		} {
			for _, m := range []mode{async, plain} {
				t.Run(fmt.Sprintf("%s/%s/%s", row.state, event, m), func(t *testing.T) {
					c := c.parallel(t)
					s := row.bring(c)
					a := c.traceless(t, s.id, "", func() answer { return instanceEvent(c, s, event, m) })
					checkCell(t, a, s, instanceCell(want, event, m))
				})
			}
		}
	}
}

func instanceEvent(c tenant, s subject, event string, m mode) answer {
	switch event {
	case "PUT same":
		return c.put(s.id, s.plan, s.parameters, m)
	case "PUT different":
		return c.put(s.id, s.plan, `{"a":3}`, m)
	case "PATCH same":
		return c.patch(s.id, s.plan, `"parameters":`+or(s.target, `{"a":2}`), m)
	case "PATCH different":
		return c.patch(s.id, s.plan, `"parameters":{"a":3}`, m)
	case "PATCH idle":
		return c.patch(s.id, s.plan, `"parameters":`+s.parameters, m)
	default:
		return c.delete(s.id, s.plan, m)
	}
}

func or(a, b string) string {
	if a != "" {
		return a
	}
	return b
}

// instanceCell turns a cell into that without accepts_incomplete (CON-08, Decided 3).
func instanceCell(want cell, event string, m mode) cell {
	needs := want.status == http.StatusAccepted || event == "DELETE" || event == "PATCH idle" && want == exists()
	if m == plain && needs {
		return cell{http.StatusUnprocessableEntity, "AsyncRequired"}
	}
	return want
}

func checkCell(t *testing.T, a answer, s subject, want cell) {
	t.Helper()
	switch {
	case a.status != want.status:
		t.Errorf("%s: %d %s, want %d %s", a.request, a.status, a.body, want.status, want.word)
	case want.word == "new" && a.operation() == s.operation:
		t.Errorf("%s: the operation %s, want a new one", a.request, a.operation())
	case want.word == "same" && a.operation() != s.operation:
		t.Errorf("%s: the operation %s, want %s", a.request, a.operation(), s.operation)
	case a.status >= 400 && a.text("error") != want.word:
		t.Errorf("%s: %s, want the word %s", a.request, a.body, want.word)
	}
}

// bindingRow is one line of the table for bindings: the cells with accepts_incomplete,
// and those of a request that is held without it.
type bindingRow struct {
	state                         string
	bring                         func(tenant) subject
	putSame, putDifferent, remove cell
	heldSame, heldOther, heldGone cell
}

func bindingTable() []bindingRow {
	made := cell{http.StatusCreated, ""}
	late := cell{http.StatusInternalServerError, "OutOfTime"}
	failed := cell{http.StatusInternalServerError, "Backend"}
	return []bindingRow{
		{"absent", absentBinding, accepted(), accepted(), gone(), made, made, gone()},
		{"creating", bindingOn("faults/bind-stalls", false, "in progress"), running(), conflict(), accepted(), late, conflict(), exists()},
		{"ready", bindingOn("postgres/async-bindings", false, "succeeded"), exists(), conflict(), accepted(), exists(), conflict(), exists()},
		{"deleting", bindingOn("faults/unbind-stalls", true, "in progress"), busy(), busy(), running(), busy(), busy(), late},
		{"create failed", bindingOn("faults/bind-fails", false, "failed"), accepted(), conflict(), accepted(), failed, conflict(), exists()},
		{"delete failed", bindingOn("faults/unbind-fails", true, "failed"), conflict(), conflict(), accepted(), conflict(), conflict(), failed},
		{"gone", bindingOn("postgres/small", true, "succeeded"), accepted(), accepted(), gone(), made, made, gone()},
	}
}

func absentBinding(c tenant) subject {
	return subject{id: c.ready("postgres/small", ""), binding: c.id(), plan: "postgres/small", parameters: `{"a":1}`}
}

// bindingOn makes a binding, removes it if so asked, and waits for the state of the
// last operation.
func bindingOn(plan string, remove bool, state string) func(tenant) subject {
	return func(c tenant) subject {
		c.t.Helper()
		s := subject{id: c.ready(plan, ""), binding: c.id(), plan: plan, parameters: `{"a":1}`}
		path, word := bindingAt(s.id, s.binding), "bind"
		s.operation = c.bind(s.id, s.binding, plan, s.parameters, async).want(c.t, http.StatusAccepted).operation()
		if remove {
			c.succeeds(path, s.operation)
			s.operation, word = c.unbind(s.id, s.binding, plan, async).want(c.t, http.StatusAccepted).operation(), "unbind"
		}
		if state == "in progress" {
			c.works(word, s.id, s.binding)
			return s
		}
		if a := c.ends(path, s.operation); a.state() != state {
			c.t.Fatalf("%s: %s, want %s", a.request, a.body, state)
		}
		return s
	}
}

// TestTableOfBindings sends every event in every state of a binding (CON-40 to CON-62).
func TestTableOfBindings(t *testing.T) {
	t.Parallel()
	c := start(t, budget(3*time.Second), slow(30*time.Millisecond))
	for _, row := range bindingTable() {
		for event, want := range map[string][2]cell{
			"PUT same": {row.putSame, row.heldSame}, "PUT different": {row.putDifferent, row.heldOther}, "DELETE": {row.remove, row.heldGone},
		} {
			for i, m := range []mode{async, plain} {
				t.Run(fmt.Sprintf("%s/%s/%s", row.state, event, m), func(t *testing.T) {
					c := c.parallel(t)
					s := row.bring(c)
					send := func() answer { return bindingEvent(c, s, event, m) }
					if want[i].status < 500 {
						checkCell(t, c.traceless(t, s.id, s.binding, send), s, want[i])
						return
					}
					checkCell(t, send(), s, want[i]) // a held request whose work fails has begun it
				})
			}
		}
	}
}

func bindingEvent(c tenant, s subject, event string, m mode) answer {
	switch event {
	case "PUT same":
		return c.bind(s.id, s.binding, s.plan, s.parameters, m)
	case "PUT different":
		return c.bind(s.id, s.binding, s.plan, `{"a":3}`, m)
	default:
		return c.unbind(s.id, s.binding, s.plan, m)
	}
}
