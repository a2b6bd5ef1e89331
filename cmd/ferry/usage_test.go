package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

func TestHelp(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		arguments []string
		want      string
	}{
		"nothing said":              {nil, "ferry [command]"},
		"ferry help":                {[]string{"help"}, "ferry [command]"},
		"ferry --help":              {[]string{"--help"}, "ferry [command]"},
		"ferry help serve":          {[]string{"help", "serve"}, "--simulate-cf"},
		"ferry serve --help":        {[]string{"serve", "--help"}, "--sim-broker-delay"},
		"ferry serve -h":            {[]string{"serve", "-h"}, "--data"},
		"ferry help sim":            {[]string{"help", "sim"}, "--broker-delay"},
		"ferry sim --help":          {[]string{"sim", "--help"}, "--faithful"},
		"ferry help demo":           {[]string{"help", "demo"}, "ferry demo"},
		"ferry demo --help":         {[]string{"demo", "--help"}, "ferry demo"},
		"ferry help version":        {[]string{"help", "version"}, "ferry version"},
		"ferry version --help":      {[]string{"version", "--help"}, "ferry version"},
		"ferry help help":           {[]string{"help", "help"}, "ferry help"},
		"help beside a faulty flag": {[]string{"serve", "--log-level", "loud", "--help"}, "--log-level"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := execute(t, nil, test.arguments...)
			if got.code != 0 || got.stderr != "" {
				t.Errorf("exit code %d, stderr %q", got.code, got.stderr)
			}
			if !strings.Contains(got.stdout, "Usage:") || !strings.Contains(got.stdout, test.want) {
				t.Errorf("no Usage: or no %q in:\n%s", test.want, got.stdout)
			}
		})
	}
}

func TestHelpNamesEveryCommand(t *testing.T) {
	t.Parallel()
	got := execute(t, nil, "help").stdout
	for _, command := range []string{"serve", "sim", "demo", "version", "help"} {
		if !regexp.MustCompile(`(?m)^  ` + command + `\s+\S`).MatchString(got) {
			t.Errorf("no line for %s in:\n%s", command, got)
		}
	}
}

func TestVersionIsOneLine(t *testing.T) {
	t.Parallel()
	got := execute(t, nil, "version")
	if !regexp.MustCompile(`^ferry v1\.2\.3 \(commit abc1234, go\d\S*\)\n$`).MatchString(got.stdout) || got.code != 0 || got.stderr != "" {
		t.Errorf("version: %+v", got)
	}
}

// TestUsage: exit code 2, with every fault.
func TestUsage(t *testing.T) {
	t.Parallel()
	absent := filepath.Join(t.TempDir(), "absent.yaml")
	tests := map[string]struct {
		variables map[string]string
		arguments []string
		want      []string // each in stderr
	}{
		"an unknown command":          {nil, []string{"sail"}, []string{`unknown command "sail"`}},
		"an unknown flag":             {nil, []string{"serve", "--colour", "red"}, []string{"unknown flag: --colour"}},
		"an unknown flag of ferry":    {nil, []string{"--colour"}, []string{"unknown flag: --colour"}},
		"a flag of serve for sim":     {nil, []string{"sim", "--simulate-cf"}, []string{"unknown flag: --simulate-cf"}},
		"help about nothing there is": {nil, []string{"help", "sail"}, []string{`"sail"`}},
		"an argument to serve":        {nil, []string{"serve", "now"}, []string{`"now"`}},
		"an argument to sim":          {nil, []string{"sim", "now"}, []string{`"now"`}},
		"an argument to demo":         {nil, []string{"demo", "now"}, []string{`"now"`}},
		"an argument to version":      {nil, []string{"version", "now"}, []string{`"now"`}},
		"a duration that is none":     {nil, []string{"sim", "--job-delay", "5"}, []string{"--job-delay", `"5"`}},
		"a level that is none":        {nil, []string{"serve", "--simulate-cf", "--log-level", "loud"}, []string{"--log-level", `"loud"`, "debug, info, warn"}},
		"a format that is none":       {nil, []string{"sim", "--log-format", "xml"}, []string{"--log-format", `"xml"`, "text", "json"}},
		"no configuration":            {nil, []string{"serve"}, []string{"--config", "--simulate-cf"}},
		"a configuration that is not there": {nil, []string{"serve", "--config", absent},
			[]string{absent, "--config"}},
		"every bad variable": {map[string]string{"FERRY_SIM_JOB_DELAY": "soon", "FERRY_SIM_FAITHFUL": "mostly", "FERRY_SIMULATE_CF": "perhaps"}, []string{"serve"},
			[]string{"FERRY_SIM_JOB_DELAY", "--sim-job-delay", "FERRY_SIM_FAITHFUL", "--sim-faithful", "FERRY_SIMULATE_CF", "--simulate-cf"}},
		"a bad variable beside a good flag": {map[string]string{"FERRY_BROKER_DELAY": "soon"}, []string{"sim", "--listen", "127.0.0.1:0"},
			[]string{"FERRY_BROKER_DELAY", "--broker-delay"}},
		"a level that is none in a variable": {map[string]string{"FERRY_LOG_LEVEL": "loud"}, []string{"serve", "--simulate-cf"}, []string{`"loud"`}},
		"a bad variable beside a bad flag": {map[string]string{"FERRY_SIM_JOB_DELAY": "soon", "FERRY_LOG_FORMAT": "xml"}, []string{"serve", "--log-level", "loud"},
			[]string{"FERRY_SIM_JOB_DELAY", `"loud"`, `"xml"`}},
		"a delay below zero":               {nil, []string{"sim", "--job-delay", "-5s"}, []string{"--job-delay", "-5s"}},
		"a delay below zero in a variable": {map[string]string{"FERRY_SIM_BROKER_DELAY": "-1ms"}, []string{"serve", "--simulate-cf"}, []string{"-1ms"}},
		"a base path without its slash":    {nil, []string{"serve", "--simulate-cf", "--base-path", "broker"}, []string{`--base-path "broker"`, "/broker"}},
		"a base path in a variable beside another fault": {map[string]string{"FERRY_BASE_PATH": "/a/../b"}, []string{"serve", "--log-level", "loud"},
			[]string{"--base-path", `"loud"`}},
		"an address that is empty": {nil, []string{"sim", "--listen", ""}, []string{"--listen"}},
		"all interfaces with the known password": {nil, []string{"serve", "--simulate-cf", "--listen", "0.0.0.0:0"},
			[]string{"--listen 0.0.0.0:0", "loopback"}},
		"the same by a variable":               {map[string]string{"FERRY_LISTEN": "0.0.0.0:0"}, []string{"serve", "--simulate-cf"}, []string{"loopback"}},
		"no configuration though data is kept": {nil, []string{"serve", "--data", t.TempDir()}, []string{"--config"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := execute(t, test.variables, test.arguments...)
			if got.code != 2 || got.stdout != "" {
				t.Errorf("exit code %d, want 2; stdout %q", got.code, got.stdout)
			}
			for _, want := range test.want {
				if !strings.Contains(got.stderr, want) {
					t.Errorf("no %q in:\n%s", want, got.stderr)
				}
			}
		})
	}
}

// TestEmptyVariableCountsAsNotSet: compose and unit files hand on empty variables.
func TestEmptyVariableCountsAsNotSet(t *testing.T) {
	t.Parallel()
	variables := map[string]string{"FERRY_LOG_LEVEL": "", "FERRY_SIM_JOB_DELAY": "", "FERRY_SIMULATE_CF": "", "FERRY_CONFIG": "", "FERRY_LISTEN": ""}
	got, want := execute(t, variables, "serve"), execute(t, nil, "serve")
	if got != want {
		t.Errorf("%+v, want %+v as without variables", got, want)
	}
}

// TestConfigurationFaults: every one in one run, each with its path, and no secret among them.
func TestConfigurationFaults(t *testing.T) {
	t.Parallel()
	got := execute(t, map[string]string{"WRONG": "hunter2"}, "serve", "--config", write(t, `clients:
  - name: A
    credentials: [{username: a, password: "${env:UNSET}"}]
    cloud_foundry: {api: "api.example.org", org: ferry, client_id: ferry, client_secret: "${env:WRONG}"}
  - name: b
    credentials: [{username: b, password: hunter2, password_hash: hunter2}]
    cloud_foundry: {org: ferry, client_id: ferry, client_secret: hunter2}
polling: {first: 5}
limits: {request_bytes: -1}
colour: red
`))
	if got.code != 2 || got.stdout != "" {
		t.Errorf("exit code %d, want 2; stdout %q", got.code, got.stdout)
	}
	for _, path := range []string{
		"clients[0].name", "clients[0].credentials[0].password", "clients[0].cloud_foundry.api", "clients[1].credentials[0]",
		"clients[1].cloud_foundry.api", "polling.first", "limits.request_bytes", "colour",
	} {
		if !regexp.MustCompile(`(?m)^` + regexp.QuoteMeta(path) + `\S*: \S`).MatchString(got.stderr) {
			t.Errorf("no fault of %s in:\n%s", path, got.stderr)
		}
	}
	if strings.Contains(got.stderr, "hunter2") {
		t.Errorf("a secret in:\n%s", got.stderr)
	}
}

func write(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "ferry.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}
