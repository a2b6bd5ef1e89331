package process

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// binary is the ferry that all tests start; TestMain builds it.
var binary string

func TestMain(m *testing.M) { os.Exit(buildAndRun(m)) }

// buildAndRun builds without the race detector on purpose: the tests are about
// processes that start and die quickly, and each room has its own race tests.
func buildAndRun(m *testing.M) int {
	dir, err := os.MkdirTemp("", "ferry-process-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() { _ = os.RemoveAll(dir) }()
	binary = filepath.Join(dir, "ferry")
	if out, err := exec.Command("go", "build", "-o", binary, "../../cmd/ferry").CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "building ferry: %v\n%s", err, out)
		return 1
	}
	return m.Run()
}
