package stack

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestConfigurationsStayOutOfGit: the README has people write one, with passwords, into
// this folder.
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
