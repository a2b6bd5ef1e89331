package stack

import (
	"regexp"
	"strings"
	"testing"
)

// TestSamconfigSaysWhatSAMTakes: SAM leaves out in silence what it does not know there.
func TestSamconfigSaysWhatSAMTakes(t *testing.T) {
	t.Parallel()
	section := regexp.MustCompile(`^\[(\w+)\.(\w+)\.parameters\]$`)
	var calls []call
	for line := range strings.Lines(string(readRoot(t, "samconfig.toml"))) {
		line = strings.TrimSpace(line)
		if found := section.FindStringSubmatch(line); found != nil {
			calls = append(calls, call{At: line, Args: append([]string{"sam"}, strings.Fields(strings.ReplaceAll(strings.Replace(found[2], "_", " ", 1), "_", "-"))...)})
			continue
		}
		key, value, setting := strings.Cut(line, " = ")
		if !setting || len(calls) == 0 || strings.HasPrefix(line, "#") {
			continue
		}
		option, now := strings.ReplaceAll(key, "_", "-"), &calls[len(calls)-1]
		switch value {
		case "true":
			now.Args = append(now.Args, "--"+option)
		case "false":
			now.Args = append(now.Args, "--no-"+option)
		default:
			now.Args = append(now.Args, "--"+option)
			now.Args = append(now.Args, strings.Fields(strings.NewReplacer(`"`, "", "[", "", "]", "", ",", " ").Replace(value))...)
		}
	}
	var known []call
	for _, c := range calls {
		if c.Args[1] == "global" { // for each command that takes it
			c.Args[1] = "deploy"
		}
		known = append(known, c)
	}
	if len(known) < 19 {
		t.Errorf("only %d sections are read", len(known))
	}
	report(t, judge(t, known))
}
