package stack

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v4"
)

// call is what a page tells its readers to run: a program, its arguments, and its standard input where an argument is
// "-".
type call struct {
	At    string   `json:"at"`
	Args  []string `json:"args"`
	Stdin string   `json:"-"`
}

// pagesWithCommands are read by people who run what stands there.
var pagesWithCommands = []string{"README.md", "docs/runbook.md"}

// TestCommands holds what people and SAM read against what each program takes. The pages' blocks are run in a bash that
// finds no program and hands over what it would have called: what a reader would paste, after bash read it.
func TestCommands(t *testing.T) {
	t.Parallel()
	calls := samconfig(t)
	if len(calls) < 19 {
		t.Errorf("only %d sections of samconfig.toml are read", len(calls))
	}
	for _, output := range []string{"RegisterInOpenShift", "RegisterInCloudFoundry"} {
		line := template(t).at("Outputs." + output + ".Value.Sub.0").String()
		calls = append(calls, call{At: "output " + output, Args: strings.Fields(line)})
	}
	for _, page := range pagesWithCommands {
		found := callsOf(t, page, string(readRoot(t, page)))
		if len(found) < 5 {
			t.Errorf("%d calls found in %s: %v", len(found), page, found)
		}
		calls = append(calls, found...)
	}
	report(t, judge(t, calls))
}

// samconfig has samconfig.toml as calls of SAM, which leaves out in silence what it does not know there.
func samconfig(t *testing.T) []call {
	t.Helper()
	section := regexp.MustCompile(`^\[(\w+)\.(\w+)\.parameters\]$`)
	var calls []call
	for line := range strings.Lines(string(readRoot(t, "samconfig.toml"))) {
		line = strings.TrimSpace(line)
		if found := section.FindStringSubmatch(line); found != nil {
			command := strings.Fields(strings.ReplaceAll(strings.Replace(found[2], "_", " ", 1), "_", "-"))
			if found[2] == "global" { // for each command that takes it
				command = []string{"deploy"}
			}
			calls = append(calls, call{At: line, Args: append([]string{"sam"}, command...)})
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
	return calls
}

func report(t *testing.T, findings []string) {
	t.Helper()
	for _, finding := range findings {
		t.Error(finding)
	}
}

var inline = regexp.MustCompile("`((?:sam|aws|svcat|make) [^`…]+)`")

// script keeps the lines of a page that are commands, at their places: those of
// blocks marked as sh, and what stands in the text as `sam …`. Blocks under
// <!-- run --> are run for real by another test.
func script(page string) string {
	lines := strings.Split(page, "\n")
	out := make([]string, len(lines))
	fence, skipped := "", false
	for i, line := range lines {
		switch trimmed := strings.TrimSpace(line); {
		case fence == "" && strings.HasPrefix(trimmed, "```"):
			fence = strings.TrimPrefix(trimmed, "```") + "."
			skipped = i > 0 && lines[i-1] == "<!-- run -->"
		case trimmed == "```":
			fence = ""
		case fence == "sh." && !skipped:
			out[i] = line
		case fence == "":
			var found []string
			for _, match := range inline.FindAllStringSubmatch(line, -1) {
				found = append(found, match[1])
			}
			out[i] = strings.Join(found, "; ")
		}
	}
	return strings.Join(out, "\n")
}

// prologue makes bash write down every call of a program: line, number of arguments, arguments and standard input, each
// ended by a NUL byte.
const prologue = `
command_not_found_handle() {
	local input=
	for argument in "$@"; do
		if [ "$argument" = - ]; then IFS= read -r -d '' input || true; fi
	done
	printf '%s\0' "${BASH_LINENO[0]}" "$#" "$@" "$input" >>"$RECORD"
	echo "output-of-$1"
}
`

// callsOf runs a page's commands in a folder of their own. PASSWORD is the one variable that a page may use without
// having set it.
func callsOf(t *testing.T, page, text string) []call {
	t.Helper()
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("the commands of a page are read by bash: ", err)
	}
	dir := t.TempDir()
	start, record := filepath.Join(dir, "prologue"), filepath.Join(dir, "record")
	if err := os.WriteFile(start, []byte(prologue), 0o600); err != nil {
		t.Fatal(err)
	}
	command := exec.CommandContext(t.Context(), bash, "-euc", script(text))
	command.Dir = dir
	command.Env = []string{"PATH=" + filepath.Join(dir, "none"), "BASH_ENV=" + start, "RECORD=" + record, "PASSWORD=" + pagePassword, "HOME=" + dir}
	if out, err := command.CombinedOutput(); err != nil {
		t.Fatalf("%s: bash: %v\n%s", page, err, out)
	}
	recorded, err := os.ReadFile(record)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	return parseRecord(t, page, recorded)
}

func parseRecord(t *testing.T, page string, recorded []byte) []call {
	t.Helper()
	var calls []call
	fields := strings.Split(string(recorded), "\x00")
	for len(fields) > 3 {
		n, err := strconv.Atoi(fields[1])
		if err != nil || len(fields) < n+3 {
			t.Fatalf("%s: the record cannot be read: %q", page, fields)
		}
		calls = append(calls, call{At: page + ":" + fields[0], Args: fields[2 : n+2], Stdin: fields[n+2]})
		fields = fields[n+3:]
	}
	return calls
}

// judge returns what is wrong with calls.
func judge(t *testing.T, calls []call) []string {
	t.Helper()
	var findings []string
	var models []call // what Python is asked about
	for _, c := range calls {
		rule, known := rules[c.Args[0]]
		switch {
		case c.Args[0] == "aws" || c.Args[0] == "sam":
			models = append(models, c)
		case !known:
			findings = append(findings, fmt.Sprintf("%s: nobody checks %s", c.At, c.Args[0]))
			continue
		default:
			if err := rule(c); err != nil {
				findings = append(findings, fmt.Sprintf("%s: %s: %v", c.At, c.Args[0], err))
			}
		}
		findings = append(findings, namesInTemplate(t, c)...)
	}
	return append(findings, askModels(t, models)...)
}

var (
	anOutput   = regexp.MustCompile(`OutputKey=='([^']*)'`)
	anOverride = regexp.MustCompile(`^([A-Za-z]+)=`)
)

// namesInTemplate looks up outputs, parameters and resources that a call names, and the sections of samconfig.toml.
func namesInTemplate(t *testing.T, c call) []string {
	t.Helper()
	var findings []string
	want := func(kind, name string) {
		if template(t).at(kind+"."+name).value == nil {
			findings = append(findings, fmt.Sprintf("%s: the template has no %s in its %s", c.At, name, kind))
		}
	}
	overrides := false
	for i, arg := range c.Args {
		for _, match := range anOutput.FindAllStringSubmatch(arg, -1) {
			want("Outputs", match[1])
		}
		if i > 0 && c.Args[i-1] == "--logical-resource-id" || i > 0 && c.Args[0] == "sam" && c.Args[i-1] == "--name" {
			want("Resources", arg)
		}
		if i > 0 && c.Args[i-1] == "--config-env" && !bytes.Contains(readRoot(t, "samconfig.toml"), []byte("\n["+arg+".")) {
			findings = append(findings, fmt.Sprintf("%s: samconfig.toml has no section %s", c.At, arg))
		}
		overrides = arg == "--parameter-overrides" || overrides && !strings.HasPrefix(arg, "--")
		if !overrides || arg == "--parameter-overrides" {
			continue
		}
		for override := range strings.FieldsSeq(arg) {
			if match := anOverride.FindStringSubmatch(override); match != nil {
				want("Parameters", match[1])
			} else {
				findings = append(findings, fmt.Sprintf("%s: %s gives no parameter a value", c.At, override))
			}
		}
	}
	return findings
}

// askModels holds calls of aws and sam against botocore's models and SAM's own options.
func askModels(t *testing.T, calls []call) []string {
	t.Helper()
	if len(calls) == 0 {
		return nil
	}
	in, err := json.Marshal(calls)
	if err != nil {
		t.Fatal(err)
	}
	command := inVenv(t, "python", filepath.Join("testdata", "commands.py"))
	command.Stdin = bytes.NewReader(in)
	out, err := command.Output()
	if err != nil {
		t.Fatalf("commands.py: %v\n%s", err, errorOutput(err))
	}
	var faults []struct{ At, Fault string }
	if err := json.Unmarshal(out, &faults); err != nil {
		t.Fatalf("commands.py printed %q: %v", out, err)
	}
	var findings []string
	for _, f := range faults {
		findings = append(findings, f.At+": "+f.Fault)
	}
	return findings
}

// inVenv is a command of the environment that `make stand-in` makes, told of no account, no profile and no region.
func inVenv(t *testing.T, program string, args ...string) *exec.Cmd {
	t.Helper()
	venv, err := filepath.Abs(filepath.Join(root, ".cache", "venv"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(venv, "pinned")); err != nil {
		t.Skip("not installed: make stand-in")
	}
	command := exec.CommandContext(t.Context(), filepath.Join(venv, "bin", program), args...)
	command.Env = []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir(), "SAM_CLI_TELEMETRY=0", "AWS_EC2_METADATA_DISABLED=true",
		"PYTHONDONTWRITEBYTECODE=1",
	}
	return command
}

func errorOutput(err error) string {
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return string(exit.Stderr)
	}
	return ""
}

func TestSAMValidatesTheTemplate(t *testing.T) {
	t.Parallel()
	if os.Getenv("FERRY_E2E") == "done" {
		t.Skip("the end-to-end part has just had it validated")
	}
	command := inVenv(t, "sam", "validate", "--lint")
	command.Dir = root
	if out, err := command.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// TestWrongCommandsAreFound: each of these has one fault.
func TestWrongCommandsAreFound(t *testing.T) {
	t.Parallel()
	tests := map[string]struct{ commands, finding string }{
		"an option that AWS does not have":      {"aws secretsmanager create-secret --name n --nme ferry", "no --nme"},
		"one that is missing":                   {"aws secretsmanager create-secret --secret-string x", "needs --name"},
		"an operation that AWS does not have":   {"aws dynamodb restore-table", "no operation"},
		"a value that AWS does not know":        {"aws kms create-grant --key-id k --operations Read", "none of"},
		"a key of a structure":                  {"aws dynamodb update-time-to-live --table-name t --time-to-live-specification Name=x", "has no Name"},
		"a waiter that is none":                 {"aws dynamodb wait table-restored --table-name t", "cannot wait"},
		"a part of an answer that it has not":   {"aws sts get-caller-identity --query Id", "answers no Id"},
		"an option that SAM does not have":      {"sam deploy --guideded", "--guideded"},
		"a command that SAM does not have":      {"sam undeploy", "no command"},
		"a parameter that the template has not": {"sam deploy --parameter-overrides SecretArn=x", "no SecretArn"},
		"two parameters, the second one wrong":  {"sam deploy --parameter-overrides Stage=x Stge=y", "no Stge"},
		"a section that samconfig has not":      {"sam deploy --config-env production", "no section production"},
		"an output that the template has not": {
			`aws cloudformation describe-stacks --query "Stacks[0].Outputs[?OutputKey=='Url'].OutputValue"`, "no Url"},
		"inside of a function that a page makes": {"f() { sam \"$@\"; }\nf delete --nope", "--nope"},
		"a program that nobody checks":           {"jq .", "nobody checks jq"},
		"an option that svcat does not have":     {"svcat register ferry --url u --secret s", "--secret"},
		"a target that the Makefile has not":     {"make deploy", "no target"},
		"a password that the shell reads":        {"oc create secret generic ferry -n default --from-literal=username=openshift-a --from-literal=password='a'", "create"},
		"a manifest of no broker":                {"oc apply -f - <<EOF\nkind: Broker\nEOF", "Broker"},
	}
	var calls []call
	for name, test := range tests {
		for _, c := range callsOf(t, "page", "```sh\n"+test.commands+"\n```") {
			calls = append(calls, call{At: name, Args: c.Args, Stdin: c.Stdin})
		}
	}
	findings := judge(t, calls)
	for name, test := range tests {
		var found []string
		for _, finding := range findings {
			if text, mine := strings.CutPrefix(finding, name+": "); mine {
				found = append(found, text)
			}
		}
		if len(found) != 1 || !strings.Contains(found[0], test.finding) {
			t.Errorf("%s: found %q, want one with %q", name, found, test.finding)
		}
	}
}

func TestCallsOf(t *testing.T) {
	t.Parallel()
	page := "Say `make test`.\n```sh\na='x y'\nsam \"$a\" \"$(aws sts z)\" && GOARCH=amd64 sam b # not this\n```\n<!-- run -->\n```sh\nsam no\n```\n```yaml\nsam: no\n```\n```sh\noc -f - <<EOF\n$a\nEOF\n```\n"
	want := []call{
		{"p:1", []string{"make", "test"}, ""},
		{"p:4", []string{"aws", "sts", "z"}, ""},
		{"p:4", []string{"sam", "x y", "output-of-aws"}, ""},
		{"p:4", []string{"sam", "b"}, ""},
		{"p:15", []string{"oc", "-f", "-"}, "x y\n"},
	}
	got := callsOf(t, "p", page)
	if len(got) == len(want) {
		// A here-document counts for its first or for its last line, as bash's version goes.
		got[4].At = want[4].At
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestNamesInTheRunbook: a word like ApiTimeout in the runbook is a parameter, an output, or a resource of the
// template.
func TestNamesInTheRunbook(t *testing.T) {
	t.Parallel()
	word := regexp.MustCompile("`([A-Z][a-z]+[A-Z][A-Za-z]+)[`= ]")
	seen := map[string]bool{}
	for _, match := range word.FindAllStringSubmatch(string(readRoot(t, "docs/runbook.md")), -1) {
		seen[match[1]] = true
	}
	if len(seen) < 8 {
		t.Errorf("only %v", seen)
	}
	for name := range seen {
		if !slices.ContainsFunc([]string{"Parameters.", "Outputs.", "Resources."}, func(kind string) bool {
			return template(t).at(kind+name).value != nil
		}) {
			t.Errorf("the template has no %s", name)
		}
	}
}

// rules say what programs take that are not here to be asked. Their options are those that the pages use, each looked
// up where the rule says.
var rules = map[string]func(call) error{
	// cmd/svcat/broker/register_cmd.go and cmd/svcat/command/{namespaced,scoped}.go of
	// kubernetes-retired/service-catalog. Its --username and --password are left out: that version encodes both twice,
	// so that the broker is sent something else.
	"svcat": func(c call) error {
		return options(c, 2, "--url=", "--basic-secret=", "--scope=cluster|namespace", "--namespace=", "--skip-tls", "--ca=", "--wait")
	},
	"oc": kubernetes, "kubectl": kubernetes,
	// `cf create-service-broker --help` of version 8: name, username, password, URL.
	"cf":   func(c call) error { return options(c, 5) },
	"curl": func(c call) error { return options(c, 1, "-u=", "-H=", "-X=", "-d=", "-s", "-f", "-i") },
	"git":  func(c call) error { return options(c, 2, "--tags") },
	"rm":   func(c call) error { return options(c, 1) },
	"make": func(c call) error { return hasTarget(c.Args[1:]) },
	"ferry": func(c call) error {
		return options(c, 1, "--config=", "--data=", "--listen=", "--simulate-cf")
	},
}

// options checks that nothing but the given options occurs, and what else stands there is at most alone words. "--x="
// takes a value, "--x=a|b" one of these.
func options(c call, alone int, known ...string) error {
	for i := 1; i < len(c.Args); i++ {
		arg := c.Args[i]
		if !strings.HasPrefix(arg, "-") {
			if alone--; alone < 0 {
				return fmt.Errorf("%q is one word too many", arg)
			}
			continue
		}
		at := slices.IndexFunc(known, func(o string) bool { name, _, _ := strings.Cut(o, "="); return name == arg })
		if at < 0 {
			return fmt.Errorf("option %s is not among %q", arg, known)
		}
		_, values, takes := strings.Cut(known[at], "=")
		if !takes {
			continue
		}
		if i++; i == len(c.Args) || c.Args[i] == "" {
			return fmt.Errorf("%s needs a value", arg)
		}
		if values != "" && !slices.Contains(strings.Split(values, "|"), c.Args[i]) {
			return fmt.Errorf("%s %s is none of %s", arg, c.Args[i], values)
		}
	}
	return nil
}

// kubernetes checks the few commands of oc and kubectl that the pages use.
func kubernetes(c call) error {
	if len(c.Args) < 2 {
		return errors.New("it does what?")
	}
	switch c.Args[1] {
	case "create":
		return secretOf(c)
	case "apply":
		if !slices.Equal(c.Args[2:], []string{"-f", "-"}) {
			return fmt.Errorf("apply %q", c.Args[2:])
		}
		if c.Stdin == "output-of-"+c.Args[0]+"\n" {
			return nil // what it made itself, looked at there
		}
		return manifests(c.Stdin)
	case "patch":
		if at := slices.Index(c.Args, "-p"); at < 0 || at+1 == len(c.Args) || !json.Valid([]byte(c.Args[at+1])) {
			return fmt.Errorf("%q holds no patch", c.Args)
		}
		return options(c, 3, "-p=", "--type=merge", "-n=")
	case "delete", "get":
		return options(c, 3, "-n=")
	default:
		return fmt.Errorf("%s is not looked at", c.Args[1])
	}
}

// What a manifest is decoded into, strictly. The fields are those of Kubernetes' core/v1 and of
// pkg/apis/servicecatalog/v1beta1 in kubernetes-retired/service-catalog.
type (
	named struct {
		Name, Namespace string
	}
	clusterServiceBroker struct {
		APIVersion string `yaml:"apiVersion"`
		Kind       string
		Metadata   named
		Spec       struct {
			URL      string
			AuthInfo struct {
				Basic struct {
					SecretRef named `yaml:"secretRef"`
				}
			} `yaml:"authInfo"`
		}
	}
)

// pagePassword is the one that a reader has in PASSWORD: all that a shell or YAML may read as something else.
const pagePassword = `a"b'c\d$e #f: {g}`

// brokersSecret is the name of the secret that the pages make, and refer to.
var brokersSecret = named{Name: "ferry", Namespace: "default"}

// secretOf checks `oc create secret generic`: the password arrives letter for letter.
func secretOf(c call) error {
	want := []string{
		"secret", "generic", brokersSecret.Name, "-n", brokersSecret.Namespace,
		"--from-literal=username=openshift-a", "--from-literal=password=" + pagePassword, "--dry-run=client", "-o", "yaml",
	}
	if !slices.Equal(c.Args[2:], want) {
		return fmt.Errorf("create %q, want %q", c.Args[2:], want)
	}
	return nil
}

// manifests reads the document that is applied: the broker, which refers to the secret.
func manifests(text string) error {
	var b clusterServiceBroker
	if kind := regexp.MustCompile(`(?m)^kind: (\w+)$`).FindStringSubmatch(text); kind == nil || kind[1] != "ClusterServiceBroker" {
		return fmt.Errorf("kind %q is not looked at", kind)
	}
	decoder := yaml.NewDecoder(bytes.NewReader([]byte(text)))
	decoder.KnownFields(true)
	if err := decoder.Decode(&b); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	switch {
	case b.APIVersion != "servicecatalog.k8s.io/v1beta1":
		return fmt.Errorf("version %q", b.APIVersion)
	case b.Spec.AuthInfo.Basic.SecretRef != brokersSecret:
		return fmt.Errorf("the broker refers to the secret %v", b.Spec.AuthInfo.Basic.SecretRef)
	case b.Metadata.Name == "" || b.Metadata.Namespace != "" || b.Spec.URL == "":
		return errors.New("something is missing, or a cluster's broker is in a namespace")
	}
	return nil
}

// hasTarget looks up the targets that make is asked for.
func hasTarget(args []string) error {
	makefile, err := os.ReadFile(filepath.Join(root, "Makefile"))
	if err != nil {
		return err
	}
	for _, arg := range args {
		if !strings.Contains(arg, "=") && !regexp.MustCompile(`(?m)^`+regexp.QuoteMeta(arg)+`:`).Match(makefile) {
			return fmt.Errorf("no target %s", arg)
		}
	}
	return nil
}

// TestConfigurationsStayOutOfGit: the README has people write one, with passwords, into this folder.
func TestConfigurationsStayOutOfGit(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip(err)
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, ".gitignore"), readRoot(t, ".gitignore"), 0o600); err != nil {
		t.Fatal(err)
	}
	git := func(args ...string) string {
		command := exec.CommandContext(t.Context(), "git", args...)
		command.Dir = dir
		out, err := command.CombinedOutput()
		if err != nil {
			t.Errorf("git %v: %v: %s", args, err, out)
		}
		return string(out)
	}
	git("init", "--quiet")
	if ignored := git("check-ignore", "ferry.yaml", "ferry-staging.yaml", "ferry.prod.yaml"); strings.Count(ignored, "\n") != 3 {
		t.Errorf("ignored are only %q", ignored)
	}
	readme := string(readRoot(t, "README.md"))
	if create, remove := strings.Index(readme, "create-secret --name ferry"), strings.Index(readme, "\nrm ferry.yaml\n"); create < 0 || remove < create {
		t.Error("the README does not say to delete ferry.yaml once the secret is made")
	}
	if !strings.Contains(readme, "`GatewayLogRole=existing`") {
		t.Error("the README does not name GatewayLogRole")
	}
}

// TestTheLinterOfTheMachineIsPinned: every package by its hash, from whatever registry the machine is told to use.
func TestTheLinterOfTheMachineIsPinned(t *testing.T) {
	t.Parallel()
	var lock struct {
		Packages map[string]struct{ Version, Integrity, Resolved string }
	}
	if err := json.Unmarshal(readRoot(t, "tools/asl/package-lock.json"), &lock); err != nil {
		t.Fatal(err)
	}
	linter := lock.Packages["node_modules/asl-validator"].Version
	if linter == "" || !strings.Contains(string(readRoot(t, "docs/dependencies.md")), "`asl-validator` "+linter+" ") {
		t.Errorf("docs/dependencies.md does not name asl-validator %s", linter)
	}
	for name, p := range lock.Packages {
		if name != "" && (!strings.HasPrefix(p.Integrity, "sha512-") || p.Resolved != "") {
			t.Errorf("%s: hash %q, from %q", name, p.Integrity, p.Resolved)
		}
	}
}
