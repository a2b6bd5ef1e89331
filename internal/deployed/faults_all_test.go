package deployed

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/secretsmanager"

	"github.com/ferry-broker/ferry/internal/osbtest"
)

// configText is the text in the secret.
func (s *stack) configText(t *testing.T) string {
	t.Helper()
	out, err := s.cloud.secrets.GetSecretValue(t.Context(), &secretsmanager.GetSecretValueInput{SecretId: new(s.outputs["ConfigSecretArn"])})
	if err != nil {
		t.Fatal(err)
	}
	return *out.SecretString
}

// configure puts another text into the secret.
func (s *stack) configure(t *testing.T, text string) {
	t.Helper()
	_, err := s.cloud.secrets.PutSecretValue(t.Context(), &secretsmanager.PutSecretValueInput{
		SecretId: new(s.outputs["ConfigSecretArn"]), SecretString: &text,
	})
	if err != nil {
		t.Fatal(err)
	}
}

// said is how many lines of the functions hold all of the texts.
func (s *stack) said(t *testing.T, texts ...string) int {
	t.Helper()
	n := 0
	for _, l := range s.functionLogs(t) {
		if !slices.ContainsFunc(texts, func(text string) bool { return !strings.Contains(l.Message, text) }) {
			n++
		}
	}
	return n
}

const unread = "the configuration was not read"

func secretUnreadable(t *testing.T, s *stack) {
	p := newPlatform(t, s)
	warmed := p.Ready(small, "") // an api and a poller have a copy
	before := s.said(t, unread, "AccessDenied")
	o := s.gate.order(t, fault{Action: secretAction, Do: refuse})
	p.Eventually("the secret is asked for again", func() bool {
		p.Fetch("/v2/catalog").Want(http.StatusOK)
		return o.count() > 0
	})
	p.Gone(warmed, small)
	p.Eventually("the log says so", func() bool { return s.said(t, unread, "AccessDenied") > before })
}

// secretWrong puts a text into the secret that no configuration may have.
func secretWrong(t *testing.T, s *stack) {
	p := newPlatform(t, s)
	good := s.configText(t)
	warmed := p.Ready(small, "")
	defer s.configure(t, good)
	s.configure(t, good+"\nno_such_key: s3cr3t-value\n")
	p.Eventually("the log says so", func() bool {
		p.Fetch("/v2/catalog").Want(http.StatusOK)
		return s.said(t, unread, "no_such_key") > 0
	})
	p.Gone(warmed, small)
	if n := s.said(t, "s3cr3t-value"); n != 0 {
		t.Errorf("%d lines hold what was in the secret", n)
	}
}

// secretRotated exchanges a password as an operator does without two at a time.
func secretRotated(t *testing.T, s *stack) {
	p := newPlatform(t, s)
	good, old := s.configText(t), p.Password
	p.Fetch("/v2/catalog").Want(http.StatusOK)
	before := s.shop.programs(t)
	defer s.configure(t, good)
	s.configure(t, strings.Replace(good, old, "rotated-password-41c6", 1))
	changed := time.Now()
	with := func(password string) int {
		p.Password = password
		return p.Fetch("/v2/catalog").Status
	}
	p.Eventually("the new password is taken", func() bool { return with("rotated-password-41c6") == http.StatusOK })
	t.Logf("the new password was taken after %s", time.Since(changed).Round(100*time.Millisecond))
	if status := with(old); status != http.StatusUnauthorized {
		t.Errorf("the old password: %d, want 401", status)
	}
	for pid, program := range s.shop.programs(t) {
		if _, same := before[pid]; !same {
			t.Logf("a process was started meanwhile: %s %s", pid, program)
		}
	}
	s.configure(t, good)
	p.Eventually("the password of before is taken again", func() bool { return with(old) == http.StatusOK })
}

// cloudDown: everything that can be answered without Cloud Foundry is.
func cloudDown(t *testing.T, s *stack) {
	p := newPlatform(t, s)
	there, id := p.Ready(small, ""), p.NewID()
	p.Disturb(osbtest.Fault{Action: "drop"}.On("*", "*", 0))
	restore := func() { p.Control(http.MethodDelete, "/faults", "") }
	defer restore()
	created := p.Provision(id, small, "").Want(http.StatusAccepted).Operation()
	removed := p.Deprovision(there, small).Want(http.StatusAccepted).Operation()
	// Longer than the first few polls of both.
	down := time.Now().Add(5 * time.Second)
	p.Eventually("a while has passed", func() bool {
		p.Fetch("/v2/catalog").Want(http.StatusOK)
		for path, operation := range map[string]string{at(id): created, at(there): removed} {
			if a := p.Poll(path, operation); a.State() != "in progress" {
				t.Fatalf("%s: %d %s while Cloud Foundry is away", operation, a.Status, a.Body)
			}
		}
		if again := p.Provision(id, small, "").Want(http.StatusAccepted).Operation(); again != created {
			t.Errorf("a duplicate has the operation %s, want %s", again, created)
		}
		return time.Now().After(down)
	})
	restore()
	p.Succeeds(at(id), created)
	p.Succeeds(at(there), removed)
	p.gone(there, small)
	p.kept(id, small)
}
