package lifecycle_test

import (
	"flag"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"

	lc "github.com/ferry-broker/ferry/internal/lifecycle"
)

var update = flag.Bool("update", false, "write docs/lifecycle.md anew")

const page = "../../docs/lifecycle.md"

// The contract, cell by cell, as platforms see it: answers tells which outcome is which answer.
const (
	wantInstances = `
the instance is | PUT same               | PUT different          | PATCH same target      | PATCH other target     | PATCH without effect   | PATCH empty            | DELETE
absent          | 202 new                | 202 new                | 404                    | 404                    | 404                    | 404                    | 410
ghost           | 202 new                | 202 new                | 404                    | 404                    | 404                    | 404                    | 410
creating        | 202 same operation     | 409                    | 422 ConcurrencyError   | 422 ConcurrencyError   | 422 ConcurrencyError   | 422 ConcurrencyError   | 202 new
ready           | 200                    | 409                    | 202 new                | 202 new                | 200                    | 200                    | 202 new
updating        | 422 ConcurrencyError   | 422 ConcurrencyError   | 202 same operation     | 422 ConcurrencyError   | 422 ConcurrencyError   | 422 ConcurrencyError   | 202 new
deleting        | 422 ConcurrencyError   | 422 ConcurrencyError   | 422 ConcurrencyError   | 422 ConcurrencyError   | 422 ConcurrencyError   | 422 ConcurrencyError   | 202 same operation
create failed   | 202 new                | 409                    | 422 with a description | 422 with a description | 422 with a description | 422 with a description | 202 new
update failed   | 200                    | 409                    | 202 new                | 202 new                | 202 new                | 200                    | 202 new
delete failed   | 409                    | 409                    | 422 with a description | 422 with a description | 422 with a description | 422 with a description | 202 new
gone            | 202 new                | 202 new                | 404                    | 404                    | 404                    | 404                    | 410`

	wantInstancesSync = `
the instance is | PUT same               | PUT different          | PATCH same target      | PATCH other target     | PATCH without effect   | PATCH empty            | DELETE
absent          | 422 AsyncRequired      | 422 AsyncRequired      | 404                    | 404                    | 404                    | 404                    | 422 AsyncRequired
ghost           | 422 AsyncRequired      | 422 AsyncRequired      | 404                    | 404                    | 404                    | 404                    | 422 AsyncRequired
creating        | 422 AsyncRequired      | 409                    | 422 ConcurrencyError   | 422 ConcurrencyError   | 422 ConcurrencyError   | 422 ConcurrencyError   | 422 AsyncRequired
ready           | 200                    | 409                    | 422 AsyncRequired      | 422 AsyncRequired      | 422 AsyncRequired      | 422 AsyncRequired      | 422 AsyncRequired
updating        | 422 ConcurrencyError   | 422 ConcurrencyError   | 422 AsyncRequired      | 422 ConcurrencyError   | 422 ConcurrencyError   | 422 ConcurrencyError   | 422 AsyncRequired
deleting        | 422 ConcurrencyError   | 422 ConcurrencyError   | 422 ConcurrencyError   | 422 ConcurrencyError   | 422 ConcurrencyError   | 422 ConcurrencyError   | 422 AsyncRequired
create failed   | 422 AsyncRequired      | 409                    | 422 with a description | 422 with a description | 422 with a description | 422 with a description | 422 AsyncRequired
update failed   | 200                    | 409                    | 422 AsyncRequired      | 422 AsyncRequired      | 422 AsyncRequired      | 422 AsyncRequired      | 422 AsyncRequired
delete failed   | 409                    | 409                    | 422 with a description | 422 with a description | 422 with a description | 422 with a description | 422 AsyncRequired
gone            | 422 AsyncRequired      | 422 AsyncRequired      | 404                    | 404                    | 404                    | 404                    | 422 AsyncRequired`

	wantBindings = `
the binding is                 | PUT same             | PUT different        | DELETE
absent                         | 202 new              | 202 new              | 410
ghost                          | 202 new              | 202 new              | 410
creating                       | 202 same operation   | 409                  | 202 new
ready                          | 200                  | 409                  | 202 new
deleting                       | 422 ConcurrencyError | 422 ConcurrencyError | 202 same operation
create failed                  | 202 new              | 409                  | 202 new
delete failed                  | 409                  | 409                  | 202 new
gone                           | 202 new              | 202 new              | 410
ready, of a former incarnation | 202 new              | 202 new              | 410`

	wantClaims = `
the instance is           | bind, new, asynchronous | bind, new, synchronous
absent                    | 404                     | 404
ghost                     | 404                     | 404
creating                  | 202 new                 | held
ready                     | 202 new                 | 202 new
updating                  | 202 new                 | held
deleting                  | 422 ConcurrencyError    | 422 ConcurrencyError
create failed             | 404                     | 404
update failed             | 202 new                 | 202 new
delete failed             | 202 new                 | 202 new
gone                      | 404                     | 404
delete failed, never made | 404                     | 404`

	wantLiving = `
the instance is | bind, same | bind, different | unbind
absent          | 404        | 404             | 410
ghost           | 404        | 404             | 410
creating        | 200        | 409             | 202 new
ready           | 200        | 409             | 202 new
updating        | 200        | 409             | 202 new
deleting        | 200        | 409             | 202 new
create failed   | 200        | 409             | 202 new
update failed   | 200        | 409             | 202 new
delete failed   | 200        | 409             | 202 new
gone            | 404        | 404             | 410`
)

// TestTable derives the lifecycle table from Next, holds it against the contract
// above, and against docs/lifecycle.md, which -update writes.
func TestTable(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		grid grid
		want string
	}{
		"instances, accepts_incomplete=true": {instanceGrid(true), wantInstances},
		"instances, without the flag":        {instanceGrid(false), wantInstancesSync},
		"bindings, accepts_incomplete=true":  {bindingGrid(true), wantBindings},
		"bindings, without the flag":         {bindingGrid(false), wantBindings},
		"a new binding by its instance":      {claimGrid(), wantClaims},
		"a ready binding by its instance":    {livingGrid(), wantLiving},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(parsed(test.want), test.grid.cells(t)); diff != "" {
				t.Errorf("cells (-contract +Next):\n%s", diff)
			}
		})
	}
	t.Run("docs/lifecycle.md is fresh", func(t *testing.T) {
		t.Parallel()
		text := document(t)
		if *update {
			if err := os.WriteFile(page, []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
			return
		}
		written, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(text, string(written)); diff != "" {
			t.Errorf("docs/lifecycle.md is stale, run make docs (-Next +page):\n%s", diff)
		}
	})
}

// TestCellsWrite: what a request leaves in the record, for every cell of every table.
func TestCellsWrite(t *testing.T) {
	t.Parallel()
	for _, g := range []grid{instanceGrid(true), instanceGrid(false), bindingGrid(true), bindingGrid(false), claimGrid(), livingGrid()} {
		for _, l := range g.lines {
			for _, c := range g.columns {
				t.Run(l.name+", "+c.name, func(t *testing.T) {
					t.Parallel()
					d := g.decide(t, l, c)
					cellWrites(t, l, c, d)
				})
			}
		}
	}
}

func cellWrites(t *testing.T, l line, c column, d lc.Decision) {
	t.Helper()
	switch d.Outcome {
	case lc.Accepted:
		begun := map[lc.Verb]lc.State{lc.Create: lc.Creating, lc.Update: lc.Updating, lc.Delete: lc.Deleting}
		if !d.Write || d.Record.State != begun[c.request.Verb] || d.Record.Operation.ID != "new" || d.Record.Seq <= l.record.Seq {
			t.Errorf("the claim writes %t %+v", d.Write, d.Record)
		}
	case lc.AlreadyGone:
		if !d.Write || d.Record.Life != l.record.Life+1 || d.Record.State.Living() || d.Record.ExpiresAt.IsZero() {
			t.Errorf("the 410 writes %t %+v", d.Write, d.Record)
		}
	default:
		if diff := cmp.Diff(l.record, d.Record); d.Write || diff != "" {
			t.Errorf("%s leaves a trace: %s", d.Outcome, diff)
		}
	}
	if d.Effect.Do != lc.DoNothing {
		t.Errorf("a request wants to %s", d.Effect.Do)
	}
}
