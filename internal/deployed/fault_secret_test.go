package deployed

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/secretsmanager"
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

func caseSecretUnreadable(t *testing.T, s *stack) {
	p := newStorm(t, s)
	warmed := p.ready(small, "") // an api and a poller have a copy
	before := s.said(t, unread, "AccessDenied")
	o := s.gate.order(t, fault{Action: secretAction, Do: refuse})
	p.until(long, "the secret is asked for again", func() bool {
		p.send(http.MethodGet, "/v2/catalog", "").want(t, http.StatusOK)
		return o.count() > 0
	})
	p.removed(warmed, small)
	p.until(long, "the log says so", func() bool { return s.said(t, unread, "AccessDenied") > before })
}

// caseSecretWrong puts a text into the secret that no configuration may have.
func caseSecretWrong(t *testing.T, s *stack) {
	p := newStorm(t, s)
	good := s.configText(t)
	warmed := p.ready(small, "")
	defer s.configure(t, good)
	s.configure(t, good+"\nno_such_key: s3cr3t-value\n")
	p.until(long, "the log says so", func() bool {
		p.send(http.MethodGet, "/v2/catalog", "").want(t, http.StatusOK)
		return s.said(t, unread, "no_such_key") > 0
	})
	p.removed(warmed, small)
	if n := s.said(t, "s3cr3t-value"); n != 0 {
		t.Errorf("%d lines hold what was in the secret", n)
	}
}

// caseSecretRotated exchanges a password as an operator does without two at a time.
func caseSecretRotated(t *testing.T, s *stack) {
	p := newStorm(t, s)
	good, old := s.configText(t), p.token
	p.send(http.MethodGet, "/v2/catalog", "").want(t, http.StatusOK)
	before := s.shop.programs(t)
	defer s.configure(t, good)
	s.configure(t, strings.Replace(good, old, "rotated-password-41c6", 1))
	changed := time.Now()
	with := func(password string) int {
		p.token = password
		return p.send(http.MethodGet, "/v2/catalog", "").status
	}
	p.until(long, "the new password is taken", func() bool { return with("rotated-password-41c6") == http.StatusOK })
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
	p.until(long, "the password of before is taken again", func() bool { return with(old) == http.StatusOK })
}
