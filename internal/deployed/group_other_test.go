//go:build !unix

package deployed

import "os/exec"

func inGroup(c *exec.Cmd) (end func() error) {
	return func() error { return c.Process.Kill() }
}
