package deployed

import (
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"
)

// ctrlC runs a program in a group of its own, waits until it has said what is wanted, does what the test does, and
// sends the group what a terminal sends. It returns how long the end took.
func (w *workshop) ctrlC(t *testing.T, wanted *regexp.Regexp, then func(found []string), name string, arguments ...string) time.Duration {
	t.Helper()
	c := exec.Command(name, arguments...)
	end, output, gone := inGroup(c), &journal{}, make(chan struct{})
	c.Dir, c.Env, c.Stdout, c.Stderr = w.root, w.env, output, output
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { _ = c.Wait(); close(gone) }()
	defer func() { _ = end(); <-gone }()
	var found []string
	within(t, 10*time.Minute, "it says "+wanted.String(), func() bool {
		found = wanted.FindStringSubmatch(output.String())
		select {
		case <-gone:
			t.Fatalf("it ended: %s", output)
		default:
		}
		return found != nil
	})
	then(found)
	began := time.Now()
	if err := syscall.Kill(-c.Process.Pid, syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	within(t, patience, "it ends at Ctrl-C", func() bool {
		select {
		case <-gone:
			return true
		default:
			return false
		}
	})
	if said := output.String(); strings.Contains(said, "Traceback") {
		t.Errorf("it ends with %s", said)
	}
	return time.Since(began)
}

var (
	localCurl      = regexp.MustCompile(`(?s)  URL       (http://127\.0\.0\.1:\d+/\S+)\n  user      (\S+)\n  password  (\S+)\n.*\n  curl -u (\S+) .* (http://\S+)\n.*(http://127\.0\.0\.1:\d+)/__sim/state`)
	localDeploying = regexp.MustCompile(`Deploying`)
)

// TestAWSLocal: `make aws-local` prints how to ask the stack, and leaves nothing behind.
func TestAWSLocal(t *testing.T) {
	if testing.Short() || os.Getenv("FERRY_E2E") == ranAlready {
		t.Skip("a deployment takes a minute; the stage e2e of make check runs it")
	}
	t.Parallel()
	w := newWorkshop(t)
	var asked []string
	took := w.ctrlC(t, localCurl, func(found []string) {
		asked = []string{found[1], found[6]}
		if found[4] != found[2]+":"+found[3] || found[5] != found[1]+"/v2/catalog" {
			t.Errorf("the curl is not that of URL, user and password: %q", found[1:])
		}
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, found[5], nil)
		if err != nil {
			t.Fatal(err)
		}
		req.SetBasicAuth(found[2], found[3])
		req.Header.Set("X-Broker-API-Version", "2.17")
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		if err := resp.Body.Close(); err != nil || resp.StatusCode != http.StatusOK {
			t.Errorf("the catalog: %s, %v", resp.Status, err)
		}
		if len(w.programs(t)) == 0 {
			t.Error("no function runs in the test's folder: the search for what is left is blind")
		}
	}, "make", "--no-print-directory", "aws-local")
	t.Logf("it ended %.1f s after Ctrl-C", took.Seconds())
	w.nothingOfLocal(t, asked...)
}

// TestAWSLocalMayBeEndedAtAnyTime: here while it deploys, with SAM and functions at work.
func TestAWSLocalMayBeEndedAtAnyTime(t *testing.T) {
	if testing.Short() || os.Getenv("FERRY_E2E") == ranAlready {
		t.Skip("a build takes a minute; the stage e2e of make check runs it")
	}
	t.Parallel()
	w := newWorkshop(t)
	w.ctrlC(t, localDeploying, func([]string) {}, "make", "--no-print-directory", "aws-local")
	w.nothingOfLocal(t)
}

// nothingOfLocal: no folder, no program of it, and nobody at these addresses.
func (w *workshop) nothingOfLocal(t *testing.T, urls ...string) {
	t.Helper()
	for _, url := range urls {
		if resp, err := http.Get(url); err == nil {
			_ = resp.Body.Close()
			t.Errorf("somebody still listens at %s", url)
		}
	}
	left, err := os.ReadDir(w.path("tmp"))
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range left {
		if strings.HasPrefix(entry.Name(), "ferry-aws-local") {
			t.Errorf("the folder %s is left", entry.Name())
		}
	}
	same(t, "programs that are left", w.programs(t), map[string]string{})
}
