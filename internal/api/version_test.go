package api

import "testing"

// HDR-01 to HDR-06, case AUT-04.
func TestVersionHeader(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for _, test := range []struct {
		name, value string
		status      int
	}{
		{"today's", "2.17", 200},
		{"an older 2.x", "2.13", 200},
		{"a 2.x to come", "2.99", 200},
		{"empty", "", 400},
		{"blank", "  ", 400},
		{"major alone", "2", 400},
		{"three numbers", "2.17.1", 400},
		{"letters behind it", "2.17junk", 400},
		{"letters alone", "latest", 400},
		{"a sign", "+2.17", 400},
		{"no minor", "2.", 400},
		{"major 1", "1.0", 412},
		{"major 3", "3.0", 412},
		{"major 20", "20.17", 412},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			w := b.send("GET", "/v2/catalog", "", with("X-Broker-API-Version", test.value))
			if test.status == 200 {
				if w.Code != 200 {
					t.Errorf("status = %d, want 200", w.Code)
				}
				return
			}
			described(t, w, test.status, "2.17")
		})
	}
	t.Run("missing, for a client with the quirk", func(t *testing.T) {
		described(t, b.send("GET", "/v2/catalog", "", as("b", "pb"), without("X-Broker-API-Version")), 412, "X-Broker-API-Version")
	})
	t.Run("malformed, for a client with the quirk", func(t *testing.T) {
		described(t, b.send("GET", "/v2/catalog", "", as("b", "pb"), with("X-Broker-API-Version", "two")), 400)
	})
}
