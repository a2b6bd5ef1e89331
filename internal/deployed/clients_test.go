package deployed

import (
	"bytes"
	"os/exec"
	"testing"
)

func clientCases() []testCase {
	return []testCase{{"the client library of Kubernetes drives it", caseClientLibrary}}
}

// caseClientLibrary lets the client library of Kubernetes' and OpenShift's
// service-catalog, which is in a module of its own, drive the deployed broker.
func caseClientLibrary(t *testing.T, s *stack) {
	p := s.platform(t, "demo")
	c := exec.CommandContext(t.Context(), "go", "-C", "clienttest", "test", "-v", "-count=1", "-timeout=8m",
		"-run", "^(TestCatalog|TestLife|TestDuplicates|TestErrors|TestMitigation)$", ".")
	c.Dir = s.shop.root
	c.Env = append(s.shop.env, "FERRY_CLIENT_URL="+p.url, "FERRY_CLIENT_USERNAME="+p.user, "FERRY_CLIENT_PASSWORD="+p.token)
	c.Cancel = inGroup(c)
	var output bytes.Buffer
	c.Stdout, c.Stderr = &output, &output
	if err := c.Run(); err != nil {
		t.Errorf("the client library against the deployed broker: %v\n%s", err, output.String())
	}
	// The deployed broker has the simulator behind it, so that nothing has to be skipped.
	passed, skipped := bytes.Count(output.Bytes(), []byte("--- PASS")), bytes.Count(output.Bytes(), []byte("--- SKIP"))
	if passed < 15 || skipped > 0 {
		t.Errorf("%d tests of the client library passed and %d were skipped:\n%s", passed, skipped, output.String())
	}
}
