//go:build !unix

package standin

import "os/exec"

// inGroup knows no groups here: end kills the process alone.
func inGroup(c *exec.Cmd) (end func() error) {
	return func() error { return c.Process.Kill() }
}
