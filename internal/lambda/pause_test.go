package lambda

import (
	"testing"

	"github.com/ferry-broker/ferry/internal/secrets"
)

// TestANewConfigurationEndsThePause: logins that were refused are held back for minutes,
// but not those with the credentials that somebody has put right.
func TestANewConfigurationEndsThePause(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	right := r.copied.Config.Clients[0].CloudFoundry.ClientSecret
	secret := func(text, version string) {
		r.configure(func(c *secrets.Copy) {
			clients := append(c.Config.Clients[:0:0], c.Config.Clients...)
			clients[0].CloudFoundry.ClientSecret = text
			c.Config.Clients, c.Version = clients, version
		}, nil)
	}
	secret("wrong", "v2")
	for range 3 { // the first is refused, the others are not sent
		if answer := r.send(t, "catalog"); answer.StatusCode != 503 {
			t.Errorf("with a wrong secret: %d %s", answer.StatusCode, answer.Body)
		}
	}
	secret(right, "v3")
	if answer := r.send(t, "catalog"); answer.StatusCode != 200 {
		t.Errorf("with the right one: %d %s", answer.StatusCode, answer.Body)
	}
}
