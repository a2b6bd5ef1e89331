package lambda

import "testing"

// TestEachEnvironmentHasItsOwnName: an environment knows by its name which lease is
// its own, so that two of one name would take each other's.
func TestEachEnvironmentHasItsOwnName(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	lookup := environment("", nil)
	for range 3 {
		a, errA := NewAPI(lookup, &logged{})
		p, errP := NewPoller(lookup, &logged{})
		j, errJ := NewJanitor(lookup, &logged{})
		if errA != nil || errP != nil || errJ != nil {
			t.Fatal(errA, errP, errJ)
		}
		for _, c := range []*core{a.core, p.core, j.core} {
			if name := c.parts.Process; name == "" || seen[name] {
				t.Errorf("the name %q is another environment's, or none", name)
			} else {
				seen[name] = true
			}
		}
	}
}
