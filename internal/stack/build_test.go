package stack

import (
	"bytes"
	"debug/buildinfo"
	"debug/elf"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// maxBinary bounds what a function may weigh: each MiB is time at a cold start.
const maxBinary = 14 << 20

// TestTheBinariesAreWhatTheTemplateSays builds them as `sam build` does: it tells make
// where to put them and nothing else, so that only the Makefile's default makes them
// of the template's default architecture.
func TestTheBinariesAreWhatTheTemplateSays(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("builds three binaries")
	}
	machines := map[string]elf.Machine{"arm64": elf.EM_AARCH64, "x86_64": elf.EM_X86_64}
	want := machines[template(t).at("Parameters.Architecture.Default").String()]
	for name := range ofType(t, "AWS::Serverless::Function") {
		dir := t.TempDir()
		command := exec.CommandContext(t.Context(), "make", "--no-print-directory", "build-"+name, "ARTIFACTS_DIR="+dir)
		command.Dir = root
		command.Env = without(os.Environ(), "GOARCH", "FERRY_BUILD_TAGS", "MAKEFLAGS", "MFLAGS")
		if out, err := command.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", name, err, out)
		}
		inspect(t, filepath.Join(dir, "bootstrap"), want)
	}
}

func inspect(t *testing.T, binary string, want elf.Machine) {
	t.Helper()
	file, err := elf.Open(binary)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	if file.Machine != want {
		t.Errorf("%s is for %v, want %v", binary, file.Machine, want)
	}
	for _, p := range file.Progs {
		if p.Type == elf.PT_INTERP {
			t.Errorf("%s is linked dynamically", binary)
		}
	}
	info, err := os.Stat(binary)
	if err != nil || info.Size() > maxBinary {
		t.Errorf("%s has %d bytes, over %d (%v)", binary, info.Size(), maxBinary, err)
	}
	if found := holds(t, binary); found != nil {
		t.Errorf("%s holds %q, which only sam-local needs", binary, found)
	}
	if described := gitDescribes(t); described != "" {
		if text, err := os.ReadFile(binary); err != nil || !bytes.Contains(text, []byte(described)) {
			t.Errorf("%s does not tell that it was made of %s (%v)", binary, described, err)
		}
	}
	built, err := buildinfo.ReadFile(binary)
	if err != nil {
		t.Fatal(err)
	}
	for _, dependency := range built.Deps {
		for _, unwanted := range []string{"go.etcd.io/bbolt", "github.com/prometheus/client_golang", "github.com/spf13/cobra", "github.com/aws/aws-sdk-go-v2/config"} {
			if dependency.Path == unwanted {
				t.Errorf("%s holds %s, which no function needs", binary, unwanted)
			}
		}
	}
}

// gitDescribes is what a build of this tree is called; empty without git.
func gitDescribes(t *testing.T) string {
	t.Helper()
	command := exec.CommandContext(t.Context(), "git", "describe", "--tags", "--always", "--dirty")
	command.Dir = root
	out, err := command.Output()
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(out))
}

func without(environment []string, names ...string) []string {
	var rest []string
	for _, entry := range environment {
		keep := true
		for _, name := range names {
			keep = keep && !strings.HasPrefix(entry, name+"=")
		}
		if keep {
			rest = append(rest, entry)
		}
	}
	return rest
}
