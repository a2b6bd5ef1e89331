//go:build !unix

package dynamo

import "os/exec"

func inGroup(c *exec.Cmd) (end func() error) {
	return func() error { return c.Process.Kill() }
}
