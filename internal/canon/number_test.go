package canon_test

import (
	"strings"
	"testing"
)

func TestNumbersOfOneValueHaveOneForm(t *testing.T) {
	t.Parallel()
	for want, spellings := range map[string][]string{
		"0":                    {"0", "-0", "0.0", "-0.00", "0e5", "0E-999999999999999999999", "-0e+1"},
		"1":                    {"1", "1.0", "1e0", "1E+0", "1e-0", "10e-1", "0.1e1", "1.000e00", "100000000000000000000e-20"},
		"-1":                   {"-1", "-1.0", "-0.01e2"},
		"1e1":                  {"10", "1e1", "1e+01", "100e-1", "0.001e4"},
		"15e2":                 {"1500", "1.5e3", "15e2", "150.00e1"},
		"25e-2":                {"0.25", "25e-2", "2.5E-1", "0.2500"},
		"9007199254740993":     {"9007199254740993", "9007199254740993.0", "9.007199254740993e15"},
		"9007199254740992":     {"9007199254740992", "900719925474099200e-2"},
		"1e-324":               {"1e-324", "0.1e-323"},
		"17976931348623157e92": {"179769313486231570e91", "1.7976931348623157e108"},
	} {
		for _, spelling := range spellings {
			if got := canonical(t, spelling); got != want {
				t.Errorf("Canonical(%s) = %s, want %s", spelling, got, want)
			}
		}
	}
}

func TestExponentsOfAnySizeAreExact(t *testing.T) {
	t.Parallel()
	nines := strings.Repeat("9", 40)
	zeros := strings.Repeat("0", 40)
	for raw, want := range map[string]string{
		"1e999999999":                       "1e999999999",
		"10e999999999999999998":             "1e999999999999999999",
		"10e999999999999999999":             "1e1000000000000000000",
		"0.1e1000000000000000000":           "1e999999999999999999",
		"0.01e1000000000000000001":          "1e999999999999999999",
		"0.1e-999999999999999999":           "1e-1000000000000000000",
		"10e-1000000000000000000":           "1e-999999999999999999",
		"10e-00001000000000000000000":       "1e-999999999999999999",
		"0.1e-" + nines:                     "1e-1" + zeros,
		"10e" + nines:                       "1e1" + zeros,
		"0.1e1" + zeros:                     "1e" + nines,
		"100e8" + nines:                     "1e9" + zeros[1:] + "1",
		"-5.0e+" + nines:                    "-5e" + nines,
		"1" + zeros + "e-40":                "1",
		"0." + zeros + "7e41":               "7",
		"1e9223372036854775807":             "1e9223372036854775807",
		"10e9223372036854775807":            "1e9223372036854775808",
		"1e-9223372036854775809":            "1e-9223372036854775809",
		"1e100000000000000000000000000":     "1e100000000000000000000000000",
		"0.1e100000000000000000000000000":   "1e99999999999999999999999999",
		"0.1e100000000000000000100000000":   "1e100000000000000000099999999",
		"0.001e100000000000000000000000002": "1e99999999999999999999999999",
	} {
		if got := canonical(t, raw); got != want {
			t.Errorf("Canonical(%s) = %s, want %s", raw, got, want)
		}
	}
}

// Converting these to binary, or writing them out, would take minutes or the
// memory of the machine; read as digits they are nothing special.
func TestLongNumbersCostNoMoreThanTheirLength(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("9", 1<<20)
	for raw, want := range map[string]string{
		"1e" + long:  "1e" + long,
		"1e-" + long: "1e-" + long,
		long:         long,
		"0." + long:  long + "e-1048576",
		"10e" + long: "1e1" + strings.Repeat("0", 1<<20),
	} {
		if got := canonical(t, raw); got != want {
			t.Errorf("a number of %d bytes that begins with %.5s has the wrong form, of %d bytes", len(raw), raw, len(got))
		}
	}
}
