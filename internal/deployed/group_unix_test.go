//go:build unix

package deployed

import (
	"os/exec"
	"syscall"
)

// inGroup gives the command a process group of its own; end kills that.
func inGroup(c *exec.Cmd) (end func() error) {
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	return func() error { return syscall.Kill(-c.Process.Pid, syscall.SIGKILL) }
}
