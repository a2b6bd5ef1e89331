package broker

import (
	"errors"
	"strings"
	"testing"
)

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
				if !strings.Contains(err.Stack, "panicked_test.go:") || strings.Contains(err.Stack+err.Error(), secret) || strings.Contains(err.Stack, "0x") {
					t.Errorf("the stack does not show the place alone:\n%s", err.Stack)
				}
			}()
			raise()
		})
	}
}
