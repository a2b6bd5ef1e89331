package stack

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// TestSamLocalSaysWhatIsMissing runs the script of `make sam-local` on machines that
// lack something, up to the point where it would build.
func TestSamLocalSaysWhatIsMissing(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("a script for sh")
	}
	if _, err := os.Stat(filepath.Join(root, ".cache/venv/bin/sam")); errors.Is(err, fs.ErrNotExist) {
		t.Skip("SAM is not installed: make stand-in")
	}
	const engine = `case "$1" in version) echo amd64 ;; *) exit 1 ;; esac`
	tests := map[string]struct {
		docker, event string // what docker does, "" for none; the script's argument
		want          string
	}{
		"no docker":                 {"", "", "docker is missing: install it ("},
		"docker, but no engine":     {"exit 1", "", "no docker engine answers at unix:///nowhere: start it ("},
		"an engine of another kind": {"echo riscv64", "", "the docker engine runs on riscv64, which Lambda does not know: use one on "},
		"no busybox and no image":   {engine, "", "a static busybox is missing: install it ("},
		"no such event":             {engine, "events/none.json", "there is no file events/none.json: name one of events/."},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			command := exec.CommandContext(t.Context(), "/bin/sh", "tools/samlocal/run.sh", test.event)
			command.Dir = root
			command.Env = []string{"PATH=" + poorPath(t, test.docker), "DOCKER_HOST=unix:///nowhere"}
			out, err := command.CombinedOutput()
			if err == nil {
				t.Errorf("it goes on: %s", out)
			}
			if said := string(out); !strings.HasPrefix(said, "sam-local: "+test.want) || strings.Count(said, "\n") != 1 {
				t.Errorf("it says %q, want one line that begins with %q", said, test.want)
			}
		})
	}
}

// poorPath is a folder with the few programs that the script needs, and a docker
// that does as told.
func poorPath(t *testing.T, docker string) string {
	t.Helper()
	dir := t.TempDir()
	for _, name := range []string{"sh", "dirname"} {
		program, err := exec.LookPath(name)
		if err != nil {
			t.Skip(err)
		}
		if err := os.Symlink(program, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	if docker != "" {
		if err := os.WriteFile(filepath.Join(dir, "docker"), []byte("#!/bin/sh\n"+docker+"\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}
