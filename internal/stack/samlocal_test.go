package stack

import (
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

// TestSamLocalAsksForTheEngineFirst runs the target in a fresh clone on a machine without
// docker: nothing is installed before that is said.
func TestSamLocalAsksForTheEngineFirst(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("a script for sh")
	}
	clone, installed := t.TempDir(), filepath.Join(t.TempDir(), "installed")
	for _, folder := range []string{"tools/samlocal", "tools/standin"} {
		if err := os.CopyFS(filepath.Join(clone, folder), os.DirFS(filepath.Join(root, folder))); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(clone, "Makefile"), readRoot(t, "Makefile"), 0o600); err != nil {
		t.Fatal(err)
	}
	path := poorPath(t, "exit 1", "make", "rm", "touch", "go")
	command := exec.CommandContext(t.Context(), filepath.Join(path, "make"), "sam-local", "PYTHON=touch "+installed+" && false")
	command.Dir = clone
	command.Env = append(without(os.Environ(), "PATH", "MAKEFLAGS", "MFLAGS", "DOCKER_HOST"), "PATH="+path)
	out, err := command.CombinedOutput()
	if err == nil || !strings.Contains(string(out), "sam-local: no docker engine answers at ") {
		t.Errorf("%v; it says %s", err, out)
	}
	if _, err := os.Stat(installed); err == nil {
		t.Errorf("it began to install before it asked for the engine: %s", out)
	}
}

// poorPath is a folder with the few programs that the script needs, those that are
// named besides, and a docker that does as told.
func poorPath(t *testing.T, docker string, more ...string) string {
	t.Helper()
	dir := t.TempDir()
	for _, name := range append(more, "sh", "dirname") {
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
