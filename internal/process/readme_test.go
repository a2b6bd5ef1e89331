package process

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// readmeAddress is where the README's broker listens; the test's is elsewhere.
const readmeAddress = "127.0.0.1:8080"

// example is one block of commands of the README, with what it is to print.
type example struct {
	line             int
	commands, output string
	checked          bool // whether the page says what it prints
}

// TestReadme runs the README's session in one shell: the fenced blocks that stand under <!-- run -->, each compared
// with the block under the <!-- out --> after it.
func TestReadme(t *testing.T) {
	t.Parallel()
	for _, tool := range []string{"bash", "curl"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("the README's session needs %s: %v", tool, err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	text, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	examples := examplesOf(string(text))
	if len(examples) == 0 {
		t.Fatal("the README has no block to run")
	}
	url, err := start(t, "serve", "--simulate-cf", "--listen", "127.0.0.1:0", "--log-format", "json").address(ctx, brokerListens)
	if err != nil {
		t.Fatal(err)
	}
	printed, codes := session(ctx, t, examples, strings.TrimPrefix(url, "http://"))
	for i, l := range examples {
		if codes[i] != "0" {
			t.Errorf("README.md:%d: exit code %s after printing:\n%s", l.line, codes[i], printed[i])
		}
		if diff := cmp.Diff(normal(l.output), normal(printed[i])); l.checked && diff != "" {
			t.Errorf("README.md:%d prints something else (-README +now):\n%s", l.line, diff)
		}
	}
}

// examplesOf finds the marked blocks.
func examplesOf(text string) (found []example) {
	lines := strings.Split(text, "\n")
	for i := 0; i+1 < len(lines); i++ {
		mark, fence := strings.TrimSpace(lines[i]), lines[i+1]
		if mark != "<!-- run -->" && mark != "<!-- out -->" || !strings.HasPrefix(fence, "```") {
			continue
		}
		var block []string
		for i += 2; i < len(lines) && lines[i] != "```"; i++ {
			block = append(block, lines[i])
		}
		body := strings.Join(block, "\n")
		switch {
		case mark == "<!-- run -->":
			found = append(found, example{line: i - len(block) + 1, commands: body})
		case len(found) > 0:
			found[len(found)-1].output, found[len(found)-1].checked = body, true
		}
	}
	return found
}

// session runs all blocks in one bash, in a folder of their own and with ferry on the PATH, and returns what each
// printed, and its exit code.
func session(ctx context.Context, t *testing.T, examples []example, address string) (printed, codes []string) {
	t.Helper()
	const mark = "== end of block, exit code "
	var script strings.Builder
	for _, l := range examples {
		fmt.Fprintf(&script, "%s\necho; echo '%s'$?\n", strings.ReplaceAll(l.commands, readmeAddress, address), mark)
	}
	bash := exec.CommandContext(ctx, "bash", "-c", script.String())
	bash.Dir = t.TempDir()
	bash.Env = append(withoutFerry(os.Environ()), "PATH="+filepath.Dir(binary)+string(os.PathListSeparator)+os.Getenv("PATH"))
	out, err := bash.CombinedOutput()
	if err != nil {
		t.Fatalf("the session: %v\n%s", err, out)
	}
	rest := string(out)
	for range examples {
		block, after, found := strings.Cut(rest, mark)
		if !found {
			t.Fatalf("the session ended early:\n%s", out)
		}
		code, after, _ := strings.Cut(after, "\n")
		printed, codes, rest = append(printed, block), append(codes, code), after
	}
	return printed, codes
}

var (
	anID   = regexp.MustCompile(`\b(?:[a-z]+-[0-9a-f]{32}|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})\b`)
	aTime  = regexp.MustCompile(`\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:\d\d)`)
	aSpace = regexp.MustCompile(`[ \t]+\n`)
)

// normal numbers the ids of a block by their first appearance, so that equal ones stay equal, and takes times out.
func normal(block string) string {
	numbers := map[string]string{}
	block = anID.ReplaceAllStringFunc(block, func(id string) string {
		if _, known := numbers[id]; !known {
			kind, _, _ := strings.Cut(id, "-")
			if len(kind) == 8 {
				kind = "guid"
			}
			numbers[id] = fmt.Sprintf("<%s %d>", kind, len(numbers)+1)
		}
		return numbers[id]
	})
	block = aTime.ReplaceAllString(block, "<time>")
	return strings.TrimSpace(aSpace.ReplaceAllString(block, "\n"))
}

func TestExamplesOf(t *testing.T) {
	t.Parallel()
	page := "text\n<!-- run -->\n```sh\na\nb\n```\nmore\n```sh\nnot this\n```\n<!-- out -->\n```console\nc\n```\n<!-- run -->\n```sh\nd\n```\n"
	want := []example{{4, "a\nb", "c", true}, {17, "d", "", false}}
	if diff := cmp.Diff(want, examplesOf(page), cmp.AllowUnexported(example{})); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestNormal(t *testing.T) {
	t.Parallel()
	a, b := strings.Repeat("a", 32), strings.Repeat("b", 32)
	tests := map[string]struct {
		one, other string
		same       bool
	}{
		"ids differ from run to run":        {"create-" + a + " create-" + a, "create-" + b + " create-" + b, true},
		"but equal ones are equal in a run": {"create-" + a + " create-" + a, "create-" + a + " create-" + b, false},
		"another kind of id is another":     {"create-" + a, "delete-" + a, false},
		"times":                             {"at 2025-01-02T03:04:05Z", "at 2026-02-03T04:05:06.789+01:00", true},
		"statuses stay":                     {"{}  200", "{}  201", false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := normal(test.one) == normal(test.other); got != test.same {
				t.Errorf("%q and %q are the same: %t", normal(test.one), normal(test.other), got)
			}
		})
	}
}
