package deployed

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// ending is how a process is ended.
type ending = syscall.Signal

const (
	kills  = syscall.SIGKILL
	aborts = syscall.SIGABRT
)

var (
	errNobody   = errors.New("no process has this connection")
	errStranger = errors.New("the process at the other end is none of ours")
)

func ownProcess() int { return os.Getpid() }

// requireProcesses skips a test that looks at processes where it cannot.
func requireProcesses(testing.TB) {}

// endSender ends the process that has the connection, if it descends from root.
func endSender(from, to string, root int, how ending) error {
	pid, err := processAt(from, to)
	if err != nil {
		return fmt.Errorf("end the sender at %s: %w", from, err)
	}
	if !descends(pid, root) {
		return fmt.Errorf("end the sender at %s, process %d: %w", from, pid, errStranger)
	}
	return syscall.Kill(pid, how)
}

// functionAt returns the name of the function whose process has the connection.
func functionAt(from, to string) string {
	pid, err := processAt(from, to)
	if err != nil {
		return ""
	}
	environment, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
	if err != nil {
		return ""
	}
	for entry := range bytes.SplitSeq(environment, []byte{0}) {
		if name, ok := bytes.CutPrefix(entry, []byte("AWS_LAMBDA_FUNCTION_NAME=")); ok {
			return string(name)
		}
	}
	return ""
}

// processAt finds the process whose socket is the other end of a connection to us.
func processAt(from, to string) (int, error) {
	inode, err := socketOf(from, to)
	if err != nil {
		return 0, err
	}
	wanted := "socket:[" + inode + "]"
	descriptors, err := filepath.Glob("/proc/[0-9]*/fd/*")
	if err != nil {
		return 0, err
	}
	for _, d := range descriptors {
		if is, err := os.Readlink(d); err == nil && is == wanted {
			return strconv.Atoi(strings.Split(d, "/")[2])
		}
	}
	return 0, fmt.Errorf("socket %s: %w", inode, errNobody)
}

// socketOf finds the inode of the socket in the kernel's table.
func socketOf(from, to string) (string, error) {
	local, err := inTable(from)
	if err != nil {
		return "", err
	}
	remote, err := inTable(to)
	if err != nil {
		return "", err
	}
	table, err := os.ReadFile("/proc/net/tcp")
	if err != nil {
		return "", err
	}
	for line := range strings.SplitSeq(string(table), "\n") {
		if f := strings.Fields(line); len(f) > 9 && f[1] == local && f[2] == remote {
			return f[9], nil
		}
	}
	return "", fmt.Errorf("connection from %s to %s: %w", from, to, errNobody)
}

// inTable is an address as the table writes it: the bytes of a word in the machine's order, which is the reverse
// wherever this runs.
func inTable(address string) (string, error) {
	a, err := netip.ParseAddrPort(address)
	if err != nil {
		return "", err
	}
	ip := a.Addr().Unmap().As4()
	reversed := []byte{ip[3], ip[2], ip[1], ip[0]}
	return fmt.Sprintf("%s:%04X", strings.ToUpper(hex.EncodeToString(reversed)), a.Port()), nil
}

// descends reports whether root is an ancestor of the process.
func descends(pid, root int) bool {
	for pid > 1 {
		parent := parentOf(pid)
		if parent == root {
			return true
		}
		pid = parent
	}
	return false
}

// parentOf returns 0 for a process that is not there.
func parentOf(pid int) int {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	// The name before it is in brackets and may hold anything.
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	if len(fields) < 2 {
		return 0
	}
	parent, _ := strconv.Atoi(fields[1])
	return parent
}
