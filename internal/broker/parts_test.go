package broker

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/ferry-broker/ferry/internal/lifecycle"
)

// TestSpread: operations that were refused together do not come back together.
func TestSpread(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_700_000_000, 0)
	c := newClock(Options{Now: func() time.Time { return now }})
	seen := map[time.Duration]bool{}
	for _, id := range []string{"create-1", "create-2", "create-3", "create-4"} {
		rec := Record{Lifecycle: lifecycle.Record{Operation: lifecycle.Operation{ID: id}}}
		for range 2 {
			wait := c.spread(time.Minute, rec)
			if wait < time.Minute || wait >= 2*time.Minute || seen[wait] {
				t.Errorf("%s waits %v, others %v; want each its own, from one to two minutes", id, wait, seen)
			}
			seen[wait] = true
			now = now.Add(time.Second)
		}
	}
	if wait := c.spread(0, Record{}); wait != 0 {
		t.Errorf("no wait became %v", wait)
	}
}

// A panic's value may hold what a request carried (law 9): its type is enough, with the place where it began.
func TestAPanicIsToldByItsTypeAlone(t *testing.T) {
	t.Parallel()
	const secret = "S3CRET"
	none := []string{}
	for want, raise := range map[string]func(){
		"string":                 func() { panic(secret) },
		"*errors.errorString":    func() { panic(errors.New(secret)) },
		"struct { x string }":    func() { panic(struct{ x string }{secret}) },
		"runtime.boundsError":    func() { _ = none[len(none)] },
		"*runtime.PanicNilError": func() { panic(nil) },
	} {
		t.Run(want, func(t *testing.T) {
			t.Parallel()
			defer func() {
				err := Recovered(recover())
				if err.Type != want || err.Error() != "panic with a value of the type "+want {
					t.Errorf("type %q, error %q", err.Type, err)
				}
				if !strings.Contains(err.Stack, "parts_test.go:") || strings.Contains(err.Stack+err.Error(), secret) || strings.Contains(err.Stack, "0x") {
					t.Errorf("the stack does not show the place alone:\n%s", err.Stack)
				}
			}()
			raise()
		})
	}
}
